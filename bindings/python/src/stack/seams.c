/*
 * Where two stacks meet in one traceback.
 *
 * A future keeps the exception that a task or a thread ended with, and raises it again in the code
 * that waits for it.  The traceback then continues as if the one had called the other.  A frame
 * remembers its caller even after its end.  If two neighbours both record their callers, and
 * neither is among the callers of the other, they are of different stacks.  Of these frames we
 * assume nothing:
 *
 *  - a generator's or coroutine's that has forgotten its caller (CPython 3.11, 3.14 and newer);
 *  - one that never ran: C code made it so that its own functions are in the traceback (Cython,
 *    PyO3).  Like the outermost frame of a thread it has no caller, but it did no step either;
 *  - one that ran only to raise: Python code gave the body of a module the name of a function, for
 *    the same purpose (jinja2, tblib).  Its caller is the code that made it.
 */
#include "frames/layout.h"
#include "stack/stack.h"

static bool is_coroutine(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    bool coroutine = code->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR);

    Py_DECREF(code);
    return coroutine;
}

bool sspy_called_next(const PyTracebackObject *entry)
{
    PyFrameObject *back = entry->tb_next ? PyFrame_GetBack(entry->tb_next->tb_frame) : NULL;

    Py_XDECREF(back);
    return back && back == entry->tb_frame;
}

/* The code of a module's body, or of exec(), is called <module> unless it was renamed.  A class
   body has its own name, and hardly ever raises an exception that others kept. */
static bool is_renamed_body(const PyCodeObject *code)
{
    return !(code->co_flags & (CO_OPTIMIZED | CO_NEWLOCALS)) &&
           PyUnicode_CompareWithASCIIString(code->co_name, "<module>") != 0;
}

/* A new frame is at or just after its first instruction.  A frame that raised is further on, unless
   its very first step failed. */
static bool has_run(PyFrameObject *frame, const PyCodeObject *code)
{
    return PyFrame_GetLasti(frame) > (code->_co_firsttraceable + 1) * SSPY_CODE_UNIT;
}

bool sspy_entry_is_made(const PyTracebackObject *entry)
{
    PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);
    bool made = !has_run(entry->tb_frame, code);

    Py_DECREF(code);
    return made;
}

sspy_entry_kind sspy_kind_of(const PyTracebackObject *entry)
{
    if (sspy_foreign_frame(entry->tb_frame, NULL))
        return SSPY_ENTRY_OF_OTHERS;
    return sspy_entry_is_made(entry) ? SSPY_ENTRY_MADE : SSPY_ENTRY_OF_PYTHON;
}

uintptr_t sspy_element_of(const PyTracebackObject *entry, stacksplice_trust trust)
{
    PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);
    uintptr_t element;

    if (!sspy_may_be_foreign(code) || !sspy_foreign_frame(entry->tb_frame, &element))
        element = sspy_token_known(code, entry->tb_lasti, entry->tb_lineno, trust);
    Py_DECREF(code);
    return element;
}

/* Whether FRAME records its caller, or that it has none.  Without memory the answer is false, and
   an exception is set. */
static bool tells_caller(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyFrameObject *back = PyFrame_GetBack(frame);
    bool forgets = code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
    bool tells =
        !is_renamed_body(code) && (back || (!PyErr_Occurred() && !forgets && has_run(frame, code)));

    Py_XDECREF(back);
    Py_DECREF(code);
    return tells;
}

/* Whether OUTER is among the callers of INNER.  Without memory an exception is set. */
static bool is_below(PyFrameObject *inner, const PyFrameObject *outer)
{
    PyFrameObject *back = PyFrame_GetBack(inner);

    while (back && back != outer) {
        PyFrameObject *next = PyFrame_GetBack(back);

        Py_DECREF(back);
        back = next;
    }
    Py_XDECREF(back);
    return back != NULL;
}

/* Whether both frames record their callers, and are on different stacks.  A frame that raises again
   what its caller has caught is on that caller's stack.  Without memory nothing is known. */
static bool are_apart(PyFrameObject *inner, PyFrameObject *outer)
{
    bool apart = tells_caller(inner) && tells_caller(outer) && !is_below(inner, outer) &&
                 !is_below(outer, inner) && !PyErr_Occurred();

    PyErr_Clear();
    return apart;
}

bool sspy_called_inner(const PyTracebackObject *entry, const PyTracebackObject *inner)
{
    PyCodeObject *code = PyFrame_GetCode(inner->tb_frame);
    PyFrameObject *back = PyFrame_GetBack(inner->tb_frame);
    /* A coroutine may have forgotten its caller, which is the one in the traceback then. */
    bool forgot = !back && code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);

    PyErr_Clear();
    Py_XDECREF(back);
    Py_DECREF(code);
    return forgot || back == entry->tb_frame;
}

uintptr_t sspy_seam_inside(const PyTracebackObject *entry)
{
    PyFrameObject *inner = entry->tb_next ? entry->tb_next->tb_frame : NULL;

    if (!inner || sspy_called_next(entry))
        return 0;
    PyErr_Clear();
    /* Frames that stand for those of other languages have no callers, and their traceback does not
       show the glue through which they call Python. */
    if (sspy_foreign_frame(inner, NULL))
        return 0;
    if (sspy_foreign_frame(entry->tb_frame, NULL))
        return sspy_mark();
    if (!are_apart(inner, entry->tb_frame))
        return 0;
    return sspy_seam_gap(is_coroutine(inner) && is_coroutine(entry->tb_frame) ? SSPY_AWAITED
                                                                              : SSPY_RAISED_AGAIN);
}
