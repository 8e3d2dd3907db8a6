/*
 * Where two stacks meet in one traceback.
 *
 * An exception that a task or a thread ended with is raised again by whoever waits for it: a future
 * keeps it.  Its traceback then goes on as if the one had called the other.  A frame remembers its
 * caller also after its end; where that one, and its callers, are not the next frame of the
 * traceback, the two are of different stacks.
 *
 * A generator's or coroutine's frame may have forgotten (CPython 3.11, 3.14 and newer): then
 * nothing is said.
 */
#include "binding.h"

static const char *const awaited = "awaited by a task";
static const char *const raised_again = "raised again where it was kept";

static int code_flags(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    int flags = code->co_flags;

    Py_DECREF(code);
    return flags;
}

static bool is_coroutine(PyFrameObject *frame)
{
    return code_flags(frame) & (CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR);
}

/* Whether OUTER called INNER, as nearly every frame of a traceback did the next one.  Without
   memory it did not, and an exception is set. */
static bool is_caller(const PyFrameObject *outer, PyFrameObject *inner)
{
    PyFrameObject *back = PyFrame_GetBack(inner);

    Py_XDECREF(back);
    return back == outer;
}

/* Whether OUTER is among the callers of INNER, or nobody knows. */
static bool may_be_called_by(PyFrameObject *inner, PyFrameObject *outer)
{
    PyFrameObject *back = PyFrame_GetBack(inner);

    if (!back) /* it is its thread's outermost one, or has forgotten, or there is no memory */
        return PyErr_Occurred() ||
               (code_flags(inner) & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR));
    while (back && back != outer) {
        PyFrameObject *next = PyFrame_GetBack(back);

        Py_DECREF(back);
        back = next;
    }
    Py_XDECREF(back);
    return back || PyErr_Occurred();
}

uintptr_t sspy_seam_token(const char *reason)
{
    stacksplice_token_info info = {.size = sizeof info,
                                   .kind = STACKSPLICE_FRAME_GAP,
                                   .trust = STACKSPLICE_TRUST_EXACT,
                                   .language = "python",
                                   .reason = reason,
                                   .asynchronous = 1};
    uintptr_t token = 0;

    (void)stacksplice_intern(&info, &token); /* always sets a token */
    return token;
}

uintptr_t sspy_seam_inside(const PyTracebackObject *entry)
{
    PyFrameObject *inner = entry->tb_next ? entry->tb_next->tb_frame : NULL;
    bool called;

    if (!inner || is_caller(entry->tb_frame, inner))
        return 0;
    PyErr_Clear();
    /* Frames that stand for those of other languages have no callers, and their traceback does not
       show the glue through which they call Python. */
    if (sspy_foreign_frame(inner, NULL))
        return 0;
    if (sspy_foreign_frame(entry->tb_frame, NULL))
        return sspy_mark();
    /* One that raises what its caller has caught is of that one's stack, too. */
    called = may_be_called_by(inner, entry->tb_frame) || may_be_called_by(entry->tb_frame, inner);
    PyErr_Clear(); /* without memory nothing is known */
    if (called)
        return 0;
    return sspy_seam_token(is_coroutine(inner) && is_coroutine(entry->tb_frame) ? awaited
                                                                                : raised_again);
}
