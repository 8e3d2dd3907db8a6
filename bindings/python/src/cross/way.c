/*
 * Exceptions that met no border of ours and passed code of other languages all the same: they get
 * their error when somebody asks for it, if the stack of their raise shows such code on their way.
 *
 * The way begins in the innermost frame of Python.  It ends in the outermost frame of the
 * traceback, or in the code that called that frame, if the frame has ended.
 */
#include "cross/cross.h"
#include "traceback/traceback.h"

#include <string.h>

/* What lies between two Python frames. */
typedef struct segment {
    bool foreign; /* code that is not Python's */
    bool shown;   /* with a name that a report shows, or a gap */
} segment;

static int look(const stacksplice_frame *frame, void *data)
{
    segment *s = data;

    if (frame->kind == STACKSPLICE_FRAME_SCRIPT)
        s->foreign = s->shown = true;
    else if (frame->kind == STACKSPLICE_FRAME_NATIVE && frame->function)
        s->shown |= stacksplice_frame_role(frame) == STACKSPLICE_ROLE_OWN;
    else if (frame->kind == STACKSPLICE_FRAME_GAP) /* of an interpreter that nothing reads */
        s->shown |= strcmp(frame->language, "native") != 0;
    return 0;
}

/* Whether the elements from FRAMES[*AT] to the next Python frame tell more than Python's own
   traceback. *AT is then the place of that frame, or COUNT. */
static bool passes_foreign(sspy_state *state, sspy_elements stack, uint32_t *at)
{
    segment s = {false, false};
    uint32_t i = *at;

    while (*at < stack.count && !sspy_is_frame_of(state, stack.frames[*at]))
        ++*at;
    if (*at == stack.count)
        return false; /* names of what is outside of Python may need debug files */
    for (; i < *at; i++) {
        uintptr_t element = stack.frames[i];

        if (!stacksplice_is_token(element)) {
            if (!sspy_is_foreign_code(element))
                continue;
            s.foreign = true;
        }
        (void)stacksplice_resolve(element, look, &s);
    }
    return s.foreign && s.shown;
}

static bool is_left(PyTracebackObject *head)
{
    return !sspy_frame_live(head->tb_frame, sspy_chain_has_owned());
}

/* The number of Python's frames in the traceback from HEAD on, each once. */
static uint32_t count_frames(const PyTracebackObject *head)
{
    uint32_t frames = 0;

    for (const PyTracebackObject *entry = head; entry; entry = entry->tb_next) {
        bool again = entry->tb_next && entry->tb_next->tb_frame == entry->tb_frame;

        frames += !again && sspy_kind_of(entry) == SSPY_ENTRY_OF_PYTHON;
    }
    return frames;
}

/* How many borders between Python frames EXC has passed; all if it does not tell. */
static uint32_t count_passed(PyObject *exc)
{
    PyTracebackObject *head = (PyTracebackObject *)sspy_traceback_of(exc);
    uint32_t passed = UINT32_MAX;

    if (head) {
        passed = count_frames(head) - 1 + is_left(head);
        Py_DECREF(head);
    }
    return passed;
}

static bool is_foreign_way(sspy_state *state, PyObject *exc, sspy_elements stack)
{
    uint32_t passed = count_passed(exc), at = 0;

    while (at < stack.count && !sspy_is_frame_of(state, stack.frames[at]))
        at++;
    while (passed-- && at++ < stack.count)
        if (passes_foreign(state, stack, &at))
            return true;
    return false;
}

/* Whether Python's own text has lines for which the stack of the raise has no place. */
static bool loses_lines(sspy_state *state, PyObject *exc, sspy_elements stack)
{
    sspy_placed placed;
    uint32_t merged;
    sspy_room room;

    if (sspy_room_begin(&room, stacksplice_max_frames())) {
        PyErr_Clear();
        return true;
    }
    placed = sspy_place_made(state, exc, stack.frames, stack.count, &room, &merged);
    sspy_room_end(&room);
    if (placed == SSPY_NO_MEMORY)
        PyErr_Clear();
    return placed == SSPY_NOT_PLACED || placed == SSPY_NO_MEMORY;
}

/* Make EXC's error, with the live stack outside of ABOVE if it has none; -1 with an exception. */
static int make_error(sspy_state *state, PyObject *exc, const void *above)
{
    IScriptErrorInfo *error = NULL;

    if (sspy_error_for(state, exc, above, &error))
        return -1;
    sspy_release(state->interp, error);
    return 0;
}

int sspy_error_of_way(sspy_state *state, PyObject *exc)
{
    sspy_ties *ties = sspy_ties_of(state->interp, exc);
    uint32_t count = 0;
    uintptr_t *raised;
    bool goes;

    if (!ties || sspy_ties_exception(ties) || sspy_ties_error(ties))
        return 0;
    raised = sspy_ties_borrow_raised(ties, &count);
    if (!raised)
        return 0;
    goes = is_foreign_way(state, exc, (sspy_elements){raised, count}) &&
           !loses_lines(state, exc, (sspy_elements){raised, count});
    sspy_ties_return_raised(ties, raised, count, false);
    return goes ? make_error(state, exc, NULL) : 0;
}

PyObject *sspy_ends_here(PyObject *module, PyObject *exc)
{
    sspy_state *state = PyModule_GetState(module);
    const void *above = sspy_loop_marker();
    sspy_ties *ties = sspy_ties_of(state->interp, exc);
    sspy_elements stack;
    uint32_t at = 0;
    sspy_room room;
    int failed = 0;

    if (!above || !PyExceptionInstance_Check(exc) || sspy_ties_have_stack(ties))
        Py_RETURN_NONE;
    if (sspy_room_begin(&room, stacksplice_max_frames()))
        return NULL;
    stack = (sspy_elements){room.frames, sspy_capture(above, room.limit, room.frames)};
    if (passes_foreign(state, stack, &at))
        failed = make_error(state, exc, above);
    sspy_room_end(&room);
    return failed ? NULL : Py_NewRef(Py_None);
}
