/*
 * Stacks at the raise where code of another language called Python.  Everywhere else a raise pays
 * for the comparisons here, the cheapest first.
 */
#include "frames/layout.h"
#include "stack/stack.h"

/* Whether ENTRY stands for a function of C code, as Cython makes them: its frame never ran. */
static bool is_made(const PyTracebackObject *entry)
{
    PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);
    bool made = !sspy_frame_has_run(entry->tb_frame, code);

    Py_DECREF(code);
    return made;
}

/* Whether EXC is in its first frame of Python: what it passes later was on its first stack too. */
static bool is_new(PyObject *exc)
{
    PyTracebackObject *head = (PyTracebackObject *)sspy_traceback_of(exc);
    PyTracebackObject *entry = head ? head->tb_next : NULL;

    while (entry && is_made(entry))
        entry = entry->tb_next;
    Py_XDECREF(head);
    return head && !entry;
}

PyObject *sspy_raised_below(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    if (count == 3 && PyExceptionInstance_Check(arguments[2]) &&
        !(sspy_chain_is_nested() && is_new(arguments[2]) && sspy_foreign_code_called()))
        Py_RETURN_NONE;
    return sspy_raised(module, arguments, count);
}
