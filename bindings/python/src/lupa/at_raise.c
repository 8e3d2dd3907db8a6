/*
 * Stacks at the raise where Lua may have called Python.  Everywhere else a raise pays for the few
 * comparisons here.
 */
#include "lupa/lupa.h"

/* Whether EXC is in its first frame: what it passes later was on its first stack too. */
static bool is_new(PyObject *exc)
{
    PyTracebackObject *head = (PyTracebackObject *)PyException_GetTraceback(exc);
    bool only = head && !head->tb_next;

    Py_XDECREF(head);
    return only;
}

/* Whether an attached runtime runs, in this thread or in another. */
static bool a_runtime_runs(sspy_state *state)
{
    sspy_attached *attached = sspy_attached_first(state);

    while (attached && !sspy_lua_runs(attached->lua))
        attached = sspy_attached_after(attached);
    return attached != NULL;
}

PyObject *sspy_raised_below(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    if (count == 3 && PyExceptionInstance_Check(arguments[2]) &&
        !(sspy_chain_is_nested() && is_new(arguments[2]) &&
          a_runtime_runs(PyModule_GetState(module))))
        Py_RETURN_NONE;
    return sspy_raised(module, arguments, count);
}
