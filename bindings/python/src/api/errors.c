/* The functions for errors: each reads its arguments, makes one call and returns the result. */
#include "api/api.h"
#include "traceback/traceback.h"

static bool is_exception(PyObject *exc)
{
    if (PyExceptionInstance_Check(exc))
        return true;
    PyErr_Format(PyExc_TypeError, "exc must be an exception, not %.200s", Py_TYPE(exc)->tp_name);
    return false;
}

PyDoc_STRVAR(
    error_info_doc,
    "error_info(exc, /)\n--\n\n"
    "Return the ErrorInfo of an exception that crossed a border, else None.  An unpickled\n"
    "exception has the values that it brought from where it was pickled.\n\n"
    "Raises TypeError when exc is not an exception.");
static PyObject *error_info(PyObject *module, PyObject *exc)
{
    sspy_state *state = PyModule_GetState(module);
    sspy_ties *ties;
    IScriptErrorInfo *error;
    PyObject *result;

    if (!is_exception(exc) || sspy_error_of_way(state, exc))
        return NULL;
    ties = sspy_ties_of(state->interp, exc);
    error = sspy_ties_hold(ties, exc);
    if (!error)
        return sspy_remote_info(state, exc);
    sspy_lengthen(state, exc, error, SSPY_READ);
    result = sspy_error_wrap(state, error, ties->core.foreign ? NULL : exc);
    sspy_release(state->interp, error);
    return result;
}

PyDoc_STRVAR(
    originate_doc,
    "originate(exc, /)\n--\n\n"
    "Put exc into the thread's error slot, for code that is about to return an HRESULT to\n"
    "native code, and return its ErrorInfo.  An exception that has an error object keeps\n"
    "it.  None when the reporting flags disable error origination.\n\n"
    "Raises TypeError when exc is not an exception; MemoryError.");
static PyObject *originate(PyObject *module, PyObject *exc)
{
    sspy_state *state = PyModule_GetState(module);

    HRESULT hr;

    if (!is_exception(exc) || sspy_put(state, exc, NULL, &hr))
        return NULL;
    return error_info(module, exc);
}

PyDoc_STRVAR(
    propagate_doc,
    "propagate(exc, /)\n--\n\n"
    "Say that exc arrives here from another language: one propagation node with the stack\n"
    "of this moment is added to its error object, which is then in the thread's slot.  An\n"
    "exception without an error object is originated, which adds no node.  Returns the\n"
    "ErrorInfo, or None when origination is switched off.\n\n"
    "Raises TypeError when exc is not an exception; MemoryError.");
static PyObject *propagate(PyObject *module, PyObject *exc)
{
    sspy_state *state = PyModule_GetState(module);
    sspy_ties *ties;
    stacksplice_section section;
    HRESULT hr, failed;

    if (!is_exception(exc))
        return NULL;
    ties = sspy_ties_of(state->interp, exc);
    if (!ties || !ties->core.error)
        return originate(module, exc);
    if (sspy_put(state, exc, NULL, &hr))
        return NULL;
    section = sspy_enter(state->interp);
    failed = stacksplice_propagate_above(__builtin_frame_address(0), hr, "python");
    sspy_leave(section);
    return failed == E_OUTOFMEMORY ? PyErr_NoMemory() : error_info(module, exc);
}

PyDoc_STRVAR(peek_error_doc, "peek_error()\n--\n\n"
                             "The ErrorInfo of the thread's error, which stays; or None.");
static PyObject *peek_error(PyObject *module, PyObject *unused)
{
    IRestrictedErrorInfo *error = NULL;

    (void)unused;
    (void)stacksplice_peek_error(&error);
    return sspy_error_wrap_taken(PyModule_GetState(module), error);
}

PyDoc_STRVAR(take_error_doc, "take_error()\n--\n\n"
                             "Take the thread's error out of its slot: its ErrorInfo, or None.");
PyObject *sspy_take_error(PyObject *module, PyObject *unused)
{
    IRestrictedErrorInfo *error = NULL;

    (void)unused;
    (void)GetRestrictedErrorInfo(&error);
    return sspy_error_wrap_taken(PyModule_GetState(module), error);
}

PyDoc_STRVAR(raise_error_doc,
             "raise_error(hresult, /)\n--\n\n"
             "Raise the thread's error: what Python code does that received a failing HRESULT.\n\n"
             "The same exception object if the error was born in this interpreter, else an\n"
             "HResultError.  Raises ValueError when hresult is a success code.");
static PyObject *raise_error(PyObject *module, PyObject *number)
{
    HRESULT hr;

    if (sspy_hresult_from(number, "hresult", &hr))
        return NULL;
    if (SUCCEEDED(hr))
        return PyErr_Format(PyExc_ValueError, "hresult must be a failure code, got %d", (int)hr);
    return sspy_raise(PyModule_GetState(module), hr, __builtin_frame_address(0));
}

PyDoc_STRVAR(hresult_of_doc, "hresult_of(exc, /)\n--\n\n"
                             "The HRESULT that exc has, or would get, as a signed int.");
static PyObject *hresult_of(PyObject *module, PyObject *exc)
{
    sspy_state *state = PyModule_GetState(module);

    return is_exception(exc) ? PyLong_FromLong(sspy_hresult_of(state, exc)) : NULL;
}

PyDoc_STRVAR(exception_for_doc, "exception_for(hresult, message='', /)\n--\n\n"
                                "A new HResultError of the class that hresult has in Python.");
static PyObject *exception_for(PyObject *module, PyObject *arguments)
{
    sspy_state *state = PyModule_GetState(module);
    PyObject *number, *message = NULL, *exc;
    HRESULT hr;

    if (!PyArg_ParseTuple(arguments, "O|U:exception_for", &number, &message) ||
        sspy_hresult_from(number, "hresult", &hr))
        return NULL;
    if (SUCCEEDED(hr))
        return PyErr_Format(PyExc_ValueError, "hresult must be a failure code");
    message = message ? Py_NewRef(message) : PyUnicode_FromString("");
    exc = message ? sspy_hresult_error_new(state, hr, message) : NULL;
    Py_XDECREF(message);
    return exc;
}

/* ---- Unhandled exceptions ---------------------------------------------------------------------*/

PyDoc_STRVAR(fail_fast_doc,
             "fail_fast(exc, /)\n--\n\n"
             "End the process now with a crash report of exc; no handler runs.\n\n"
             "Raises TypeError when exc is not an exception; never returns otherwise.");
static PyObject *fail_fast(PyObject *module, PyObject *exc)
{
    if (!is_exception(exc))
        return NULL;
    RoFailFastWithErrorContext(sspy_originate(PyModule_GetState(module), exc, NULL));
    Py_RETURN_NONE;
}

PyDoc_STRVAR(report_unhandled_doc,
             "report_unhandled(exc, /)\n--\n\n"
             "Give exc to the host's unhandled-error handler; without one, or when it does not\n"
             "handle the error, the process fails fast.\n\n"
             "Raises TypeError when exc is not an exception; RuntimeError when origination is\n"
             "switched off, so that there is nothing to report.");
static PyObject *report_unhandled(PyObject *module, PyObject *exc)
{
    sspy_state *state = PyModule_GetState(module);
    IScriptErrorInfo *error = NULL;
    IRestrictedErrorInfo *restricted;

    if (!is_exception(exc) || sspy_error_for(state, exc, NULL, &error))
        return NULL;
    if (!error) {
        PyErr_SetString(PyExc_RuntimeError, "the reporting flags disable error origination");
        return NULL;
    }
    restricted = sspy_query(error, &IID_IRestrictedErrorInfo);
    (void)RoReportUnhandledError(restricted);
    sspy_release(state->interp, restricted);
    sspy_release(state->interp, error);
    Py_RETURN_NONE;
}

PyMethodDef sspy_error_functions[] = {
    {"error_info", error_info, METH_O, error_info_doc},
    {"originate", originate, METH_O, originate_doc},
    {"propagate", propagate, METH_O, propagate_doc},
    {"peek_error", peek_error, METH_NOARGS, peek_error_doc},
    {"take_error", sspy_take_error, METH_NOARGS, take_error_doc},
    {"raise_error", raise_error, METH_O, raise_error_doc},
    {"hresult_of", hresult_of, METH_O, hresult_of_doc},
    {"exception_for", exception_for, METH_VARARGS, exception_for_doc},
    {"fail_fast", fail_fast, METH_O, fail_fast_doc},
    {"report_unhandled", report_unhandled, METH_O, report_unhandled_doc},
    {"_save_error", sspy_save_error, METH_NOARGS, NULL},
    {"_restore_error", sspy_restore_error, METH_O, NULL},
    {"_offer_unhandled", sspy_offer_unhandled, METH_O, NULL},
    {"_is_asked", sspy_is_asked, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
