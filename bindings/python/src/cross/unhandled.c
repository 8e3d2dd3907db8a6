/*
 * Exceptions that nobody handles in a process that must go on.  The host's handler gets them first,
 * then sys.excepthook.
 */
#include "cross/cross.h"

/* The exception that this thread has already offered to the handler and is showing; borrowed. */
static _Thread_local const PyObject *asked;

/* Whether the host's handler handles EXC; -1 with an exception. */
static int offer(sspy_state *state, PyObject *exc, const void *above)
{
    IScriptErrorInfo *error = NULL;
    IRestrictedErrorInfo *restricted;
    HRESULT hr;

    if (exc == asked || stacksplice_offer_unhandled(NULL) != S_OK)
        return 0;
    if (sspy_error_for(state, exc, above, &error))
        return -1;
    if (!error)
        return 0; /* origination is switched off, so there is nothing to offer */
    restricted = sspy_query(error, &IID_IRestrictedErrorInfo);
    hr = stacksplice_offer_unhandled(restricted);
    sspy_release(state->interp, restricted);
    sspy_release(state->interp, error);
    return hr == S_OK;
}

PyObject *sspy_offer_unhandled(PyObject *module, PyObject *exc)
{
    int handled;

    if (!PyExceptionInstance_Check(exc))
        return PyErr_Format(PyExc_TypeError, "exc must be an exception, not %.200s",
                            Py_TYPE(exc)->tp_name);
    handled = offer(PyModule_GetState(module), exc, NULL);
    return handled < 0 ? NULL : PyBool_FromLong(handled);
}

PyObject *sspy_is_asked(PyObject *module, PyObject *exc)
{
    (void)module;
    return PyBool_FromLong(exc == asked);
}

/* Write to sys.stderr, as the interpreter does with the message of a SystemExit. */
static void print_message(PyObject *message)
{
    PyObject *file = PySys_GetObject("stderr"); /* borrowed */

    Py_XINCREF(file);
    if (file && file != Py_None &&
        (PyFile_WriteObject(message, file, Py_PRINT_RAW) || PyFile_WriteString("\n", file)))
        PyErr_Clear();
    Py_XDECREF(file);
}

/* The exit status that the interpreter would use for EXC, a SystemExit. */
static int exit_status_of(PyObject *exc)
{
    PyObject *code = sspy_attribute(exc, "code");
    int status = 1;

    if (code == Py_None)
        status = 0;
    else if (code && PyLong_Check(code))
        status = (int)PyLong_AsLong(code);
    else if (code)
        print_message(code);
    Py_XDECREF(code);
    PyErr_Clear();
    return status;
}

HRESULT sspy_report_unhandled(sspy_state *state, PyObject *exc, const void *above, int *exit_status)
{
    const PyObject *outer = asked;
    int handled;

    if (PyErr_GivenExceptionMatches(exc, PyExc_SystemExit)) {
        int status = exit_status_of(exc);

        if (exit_status)
            *exit_status = status;
        return S_FALSE;
    }
    handled = state ? offer(state, exc, above) : 0;
    if (handled < 0)
        PyErr_Clear(); /* no memory for an error object: show the exception anyway */
    if (handled > 0)
        return S_OK;
    asked = exc;
    sspy_set_pending(Py_NewRef(exc));
    PyErr_PrintEx(0); /* 0: sys.last_exc would keep it alive */
    asked = outer;
    return S_OK;
}
