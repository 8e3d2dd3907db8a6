/*
 * The frames that a block with a deadline is around.  Most blocks are around the frame that begins
 * them; that of a context manager is around its caller's.
 */
#include "api/deadline.h"

#include "frames/layout.h"

/* Whether FRAME has returned: its object has then taken over what it still needs.  A frame that
   only waits, as that of a generator or in a switched stack, is elsewhere. */
static bool has_returned(PyFrameObject *frame)
{
    uintptr_t object = (uintptr_t)frame, data = sspy_frame_data(frame);

    return data > object && data < object + (uintptr_t)Py_TYPE(frame)->tp_basicsize;
}

static bool is_named(PyObject *text, const char *const *names)
{
    while (*names && PyUnicode_CompareWithASCIIString(text, *names) != 0)
        names++;
    return *names != NULL;
}

/* Whether FRAME is of a generator or a coroutine, and not only was. */
static bool is_suspendable(PyFrameObject *frame)
{
    PyObject *generator = PyFrame_GetGenerator(frame); /* 3.14: or None */

    Py_XDECREF(generator);
    return generator && generator != Py_None;
}

/*
 * Whether what FRAME enters is around a block of CALLER.  So it is with the generator of a context
 * manager, which contextlib runs up to its yield, and with coroutines that are awaited, but not
 * with those that a loop runs.
 */
static bool enters_for(PyFrameObject *frame, PyFrameObject *caller)
{
    static const char *const names[] = {"__enter__", "__aenter__", "enter_context",
                                        "enter_async_context", NULL};
    static const char *const managers[] = {"_GeneratorContextManager.__enter__",
                                           "_AsyncGeneratorContextManager.__aenter__", NULL};
    PyCodeObject *code = PyFrame_GetCode(frame), *callers = PyFrame_GetCode(caller);
    bool result;

    if (is_suspendable(frame))
        result = is_named(callers->co_qualname, managers) ||
                 (is_named(code->co_name, names) && is_suspendable(caller));
    else
        result = is_named(code->co_name, names);
    Py_DECREF(code);
    Py_DECREF(callers);
    return result;
}

PyFrameObject *sspy_entering_frame(void)
{
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    PyFrameObject *caller = frame ? PyFrame_GetBack(frame) : NULL;

    while (caller && enters_for(frame, caller)) {
        Py_SETREF(frame, caller);
        caller = PyFrame_GetBack(frame);
    }
    Py_XDECREF(caller);
    return frame;
}

static bool has_frame(PyThreadState *thread, PyFrameObject *wanted)
{
    PyFrameObject *frame = sspy_is_made(thread) ? PyThreadState_GetFrame(thread) : NULL;

    while (frame && frame != wanted) {
        PyFrameObject *back = PyFrame_GetBack(frame);

        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    return frame != NULL;
}

/* Whether FRAME has returned and the block is now its caller's.  A coroutine's is not: a loop may
   have run it. */
static bool has_left_block(PyFrameObject *frame)
{
    const int suspendable = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    PyCodeObject *code = PyFrame_GetCode(frame);
    bool result = has_returned(frame) && !(code->co_flags & suspendable);

    Py_DECREF(code);
    return result;
}

PyThreadState *sspy_running_thread(const sspy_block *block)
{
    PyThreadState *thread = PyInterpreterState_ThreadHead(block->interp->state);
    PyFrameObject *frame = block->frame;

    while (frame && has_left_block(frame)) {
        frame = PyFrame_GetBack(frame);
        Py_XDECREF(frame); /* the one that has returned keeps it */
    }
    while (thread &&
           !(frame ? has_frame(thread, frame) : PyThreadState_GetID(thread) == block->thread))
        thread = PyThreadState_Next(thread);
    return thread;
}
