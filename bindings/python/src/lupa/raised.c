/*
 * A Python exception leaves for Lua: lupa hands it to debug.traceback while the whole stack is
 * live. It gets its error there, and Lua's frames in its __traceback__.
 */
#include "lupa/lupa.h"
#include "traceback/match.h"
#include "traceback/traceback.h"

#include <string.h>

/* The first words of what lupa puts into a userdata for a Python object. */
typedef struct lupa_object {
    PyObject *object, *runtime;
} lupa_object;

PyObject *sspy_lupa_exception(const void *block)
{
    PyObject *object = ((const lupa_object *)block)->object;

    return object && PyExceptionInstance_Check(object) ? object : NULL;
}

/*
 * The traceback of EXC, if lupa's own code was the last to see EXC: then lupa keeps this very entry
 * and raises EXC with it again, and nothing else has it.
 */
static PyTracebackObject *traceback_of_lupa(PyObject *exc, const sspy_attached *attached)
{
    PyTracebackObject *head = (PyTracebackObject *)sspy_traceback_of(exc);
    PyObject *globals;
    bool is_lupa;

    if (!head)
        return NULL;
    globals = PyFrame_GetGlobals(head->tb_frame);
    is_lupa = globals == attached->globals;
    Py_XDECREF(globals);
    if (!is_lupa)
        Py_CLEAR(head);
    return head;
}

/* The stack where EXC is now. */
typedef struct place {
    const void *above;
    const uintptr_t *frames; /* from inside of a coroutine that EXC came out of; or NULL */
    uint32_t count;
} place;

static int look_for_script(const stacksplice_frame *frame, void *data)
{
    *(bool *)data |=
        frame->kind == STACKSPLICE_FRAME_SCRIPT && frame->file && strcmp(frame->file, "[C]") != 0;
    return 0;
}

bool sspy_lupa_is_script(uintptr_t element)
{
    bool script = false;

    if (stacksplice_is_token(element))
        (void)stacksplice_resolve(element, look_for_script, &script);
    return script;
}

/*
 * Leave of WHERE's frames those that lay at this border: outward of the last frame of Python that
 * has ended since, which had borders of its own inside.  None if the live stack is not their outer
 * end, but for native frames inside: then EXC came out of that coroutine earlier, was caught, and
 * is raised somewhere else now.
 */
static void keep_to_border(sspy_state *state, place *where)
{
    uint32_t count, same = 0, ended;
    bool leads = true;
    sspy_room room;

    if (sspy_room_begin(&room, SSPY_NEAR_FRAMES)) {
        PyErr_Clear();
        where->frames = NULL;
        return;
    }
    count = sspy_capture(where->above, room.limit, room.frames);
    while (same < count && same < where->count &&
           sspy_same_place(state, room.frames[count - 1 - same],
                           where->frames[where->count - 1 - same]))
        same++;
    for (uint32_t i = 0; leads && i < count - same; i++)
        leads = !sspy_lupa_is_script(room.frames[i]);
    sspy_room_end(&room);
    ended = where->count - same;
    while (ended && !sspy_is_frame_of(state, where->frames[ended - 1]))
        ended--;
    where->frames = leads && same ? where->frames + ended : NULL;
    where->count -= ended;
}

static void note(sspy_state *state, PyObject *exc, const sspy_attached *attached,
                 const place *where)
{
    sspy_ties *ties = sspy_ties_of(state->interp, exc);
    IScriptErrorInfo *error = NULL;
    PyTracebackObject *head;

    if (ties && ties->raised)
        sspy_lupa_take_names(ties, where->above);
    if (where->frames && sspy_raised_at(state, exc, where->frames, where->count))
        PyErr_Clear();
    if (sspy_error_for(state, exc, where->above, &error))
        PyErr_Clear(); /* without memory the exception goes on without an error */
    sspy_release(state->interp, error);
    head = traceback_of_lupa(exc, attached);
    if (head)
        sspy_show_live(state, head, where->above, where->frames, where->count);
    Py_XDECREF(head);
}

void sspy_lupa_came_out(sspy_state *state, PyObject *exc, const sspy_attached *attached,
                        const uintptr_t *frames, uint32_t count)
{
    const place where = {__builtin_frame_address(0), frames, count};

    note(state, exc, attached, &where);
}

void sspy_lupa_raised(void *data, void *block, const void *above, const uintptr_t *frames,
                      uint32_t count)
{
    place where = {above, count ? frames : NULL, count};
    PyGILState_STATE gil;
    PyObject *exc, *pending;
    sspy_state *state;

    if (!sspy_interp_lives())
        return;
    gil = PyGILState_Ensure();
    exc = sspy_lupa_exception(block);
    if (exc) {
        pending = sspy_take_pending();
        Py_INCREF(exc);
        state = sspy_state_current();
        if (state && where.frames)
            keep_to_border(state, &where);
        if (state)
            note(state, exc, data, &where);
        Py_DECREF(exc);
        sspy_set_pending(pending);
    }
    PyGILState_Release(gil);
}
