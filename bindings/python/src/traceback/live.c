/*
 * Frames of other languages for bridges that know nothing of us: no border compares stacks here.
 * The frames that are inside of the innermost live Python frame go into the traceback.
 */
#include "traceback/entries.h"
#include "traceback/match.h"

#include <stdlib.h>

enum { SHOWN_MAX = 100 /* elements; half of them at each end */ };

/* Outward of what a coroutine left, only native frames are missing. */
static bool is_between_coroutines(uintptr_t element)
{
    return element == stacksplice_gap("lua", STACKSPLICE_GAP_RETURNED, 0);
}

/* Put the FRAMES inside of the innermost Python frame before *TRACEBACK; -1 with an exception. */
static int put_inner(sspy_state *state, PyObject **traceback, const uintptr_t *frames,
                     uint32_t count)
{
    sspy_kept_frames *all = sspy_kept_frames_now(state);
    uintptr_t shown[SHOWN_MAX + 1];
    uint32_t inner = 0;

    if (!all)
        return -1;
    while (inner < count && !sspy_is_frame_of(state, frames[inner]))
        inner++;
    inner = stacksplice_copy_ends(frames, inner, SHOWN_MAX + 1, shown);
    for (uint32_t i = 0; i < inner; i++)
        if (!(i && is_between_coroutines(shown[i])) && sspy_put_element(all, traceback, shown[i]))
            return -1;
    return 0;
}

/* A new entry with the contents of ENTRY; NULL with an exception. */
static PyObject *copy_entry(const PyTracebackObject *entry)
{
    PyTracebackObject *copy = PyObject_GC_New(PyTracebackObject, &PyTraceBack_Type);

    if (!copy)
        return NULL;
    copy->tb_next = (PyTracebackObject *)Py_XNewRef((PyObject *)entry->tb_next);
    copy->tb_frame = (PyFrameObject *)Py_XNewRef((PyObject *)entry->tb_frame);
    copy->tb_lasti = entry->tb_lasti;
    copy->tb_lineno = entry->tb_lineno;
    PyObject_GC_Track(copy);
    return (PyObject *)copy;
}

/* Make ENTRY equal to FROM. */
static void become(PyTracebackObject *entry, const PyTracebackObject *from)
{
    PyTracebackObject *next = entry->tb_next;
    PyFrameObject *frame = entry->tb_frame;

    entry->tb_next = (PyTracebackObject *)Py_XNewRef((PyObject *)from->tb_next);
    entry->tb_frame = (PyFrameObject *)Py_XNewRef((PyObject *)from->tb_frame);
    entry->tb_lasti = from->tb_lasti;
    entry->tb_lineno = from->tb_lineno;
    Py_XDECREF(next);
    Py_XDECREF(frame);
}

void sspy_show_live(sspy_state *state, PyTracebackObject *head, const void *above,
                    const uintptr_t *frames, uint32_t count)
{
    PyObject *traceback;
    sspy_room room;

    if (!state->shows_foreign || sspy_room_begin(&room, SSPY_NEAR_FRAMES)) {
        PyErr_Clear();
        return;
    }
    if (!frames) {
        count = sspy_capture(above, room.limit, room.frames);
        frames = room.frames;
    }
    traceback = copy_entry(head);
    if (traceback && !put_inner(state, &traceback, frames, count))
        become(head, (PyTracebackObject *)traceback);
    PyErr_Clear(); /* without memory the traceback stays as it is */
    Py_XDECREF(traceback);
    sspy_room_end(&room);
}

/* Make TRACEBACK (taken over) the inner end of EXC's. */
static void append(PyObject *exc, PyObject *traceback)
{
    PyTracebackObject *last = (PyTracebackObject *)sspy_traceback_of(exc);

    if (!last) {
        (void)PyException_SetTraceback(exc, traceback);
        Py_DECREF(traceback);
        return;
    }
    Py_DECREF(last); /* EXC holds it */
    while (last->tb_next)
        last = last->tb_next;
    last->tb_next = (PyTracebackObject *)traceback;
}

void sspy_show_error(sspy_state *state, PyObject *exc, IScriptErrorInfo *error)
{
    PyObject *traceback = NULL;
    sspy_stack_copy copy = {.far = NULL};
    sspy_elements stack = {NULL, 0};

    if (state->shows_foreign)
        stack = sspy_shown(error, &copy);
    if (stack.count && !put_inner(state, &traceback, stack.frames, stack.count) && traceback)
        append(exc, Py_NewRef(traceback));
    PyErr_Clear(); /* without memory the traceback stays as it is */
    Py_XDECREF(traceback);
    free(copy.far);
}
