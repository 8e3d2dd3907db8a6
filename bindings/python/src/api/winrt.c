/*
 * The Windows names, for stacksplice.winrt: integers, str and ErrorInfo in place of HRESULT,
 * HSTRING and IRestrictedErrorInfo.
 */
#include "api/api.h"

#include <stdlib.h>

/* ---- Arguments (converters of PyArg_ParseTuple: 1, or 0 with an exception) --------------------*/

typedef struct hresult_argument {
    const char *name;
    HRESULT value;
} hresult_argument;

static int to_hresult(PyObject *object, void *out)
{
    hresult_argument *argument = out;

    return !sspy_hresult_from(object, argument->name, &argument->value);
}

/* A str or None as an HSTRING. */
static int to_string(PyObject *message, void *out)
{
    PyObject *wide;
    HRESULT hr;

    if (message == Py_None)
        return 1;
    if (!PyUnicode_Check(message)) {
        PyErr_Format(PyExc_TypeError, "message must be str or None, not %.200s",
                     Py_TYPE(message)->tp_name);
        return 0;
    }
    wide = sspy_utf16_from_text(message);
    if (!wide)
        return 0;
    hr = WindowsCreateString((PCWSTR)(const void *)PyBytes_AS_STRING(wide),
                             (UINT32)(PyBytes_GET_SIZE(wide) / 2), out);
    Py_DECREF(wide);
    if (FAILED(hr))
        PyErr_NoMemory();
    return SUCCEEDED(hr);
}

/* The living error with the name REFERENCE; NULL if there is none, or with an exception. */
static IRestrictedErrorInfo *resolved(PyObject *reference)
{
    PyObject *wide = sspy_utf16_from_text(reference);
    IRestrictedErrorInfo *error = NULL;
    BSTR text = NULL;

    if (wide)
        text = SysAllocStringByteLen(PyBytes_AS_STRING(wide), (UINT)PyBytes_GET_SIZE(wide));
    if (text)
        (void)RoResolveRestrictedErrorInfoReference(text, &error);
    else if (wide)
        PyErr_NoMemory();
    SysFreeString(text);
    Py_XDECREF(wide);
    return error;
}

/* The error of an ErrorInfo with an outside reference; NULL with an exception.  If the error was
   born here, its exception is kept. */
static IRestrictedErrorInfo *restricted_from(sspy_state *state, PyObject *info)
{
    PyObject *exc = sspy_attribute(info, "language_exception"), *reference = NULL;
    IRestrictedErrorInfo *restricted = NULL;

    if (exc && PyExceptionInstance_Check(exc)) {
        IScriptErrorInfo *error = sspy_ties_hold(sspy_ties_of(state->interp, exc), exc);

        restricted = sspy_query(error, &IID_IRestrictedErrorInfo);
        sspy_unknown_release(error);
    }
    PyErr_Clear();
    if (!restricted)
        reference = sspy_attribute(info, "reference");
    if (reference && PyUnicode_Check(reference))
        restricted = resolved(reference);
    Py_XDECREF(reference);
    Py_XDECREF(exc);
    PyErr_Clear();
    if (!restricted)
        PyErr_Format(PyExc_TypeError, "error must be a live ErrorInfo, not %.200s",
                     Py_TYPE(info)->tp_name);
    return restricted;
}

/* ---- New errors -------------------------------------------------------------------------------*/

/* RESULT as a bool; MESSAGE is deleted. */
static PyObject *truth(BOOL result, HSTRING message)
{
    WindowsDeleteString(message);
    return PyBool_FromLong(result);
}

static PyObject *originate_error(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    hresult_argument error = {"error", 0};
    HSTRING message = NULL;

    if (!PyArg_ParseTuple(arguments, "O&|O&:RoOriginateError", to_hresult, &error, to_string,
                          &message))
        return NULL;
    return truth(RoOriginateError(error.value, message), message);
}

static PyObject *transform_error(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    hresult_argument old = {"old_error", 0}, new = {"new_error", 0};
    HSTRING message = NULL;

    if (!PyArg_ParseTuple(arguments, "O&O&|O&:RoTransformError", to_hresult, &old, to_hresult, &new,
                          to_string, &message))
        return NULL;
    return truth(RoTransformError(old.value, new.value, message), message);
}

/* An exception or None as an IUnknown. */
static int to_language_exception(sspy_state *state, PyObject *exc, IUnknown **out)
{
    if (exc == Py_None)
        return 1;
    if (PyExceptionInstance_Check(exc))
        *out = sspy_language_exception(state, exc, NULL);
    else
        PyErr_Format(PyExc_TypeError, "language_exception must be an exception or None, not %.200s",
                     Py_TYPE(exc)->tp_name);
    return *out != NULL;
}

static PyObject *originate_language_exception(PyObject *module, PyObject *arguments)
{
    sspy_state *state = PyModule_GetState(module);
    hresult_argument error = {"error", 0};
    PyObject *text, *exc = Py_None, *result = NULL;
    IUnknown *unknown = NULL;
    HSTRING message = NULL;

    if (!PyArg_ParseTuple(arguments, "O&O|O:RoOriginateLanguageException", to_hresult, &error,
                          &text, &exc) ||
        !to_language_exception(state, exc, &unknown))
        return NULL;
    if (to_string(text, &message))
        result = truth(RoOriginateLanguageException(error.value, message, unknown), message);
    sspy_release(state->interp, unknown);
    return result;
}

/* ---- The thread's error -----------------------------------------------------------------------*/

/* Call FUNCTION with the error of INFO, which may be NULL, and return its HRESULT as an int. */
static PyObject *call_with_error(PyObject *module, PyObject *info,
                                 HRESULT (*function)(IRestrictedErrorInfo *error))
{
    sspy_state *state = PyModule_GetState(module);
    IRestrictedErrorInfo *error = NULL;
    HRESULT hr;

    if (info && !(error = restricted_from(state, info)))
        return NULL;
    hr = function(error); /* outside any section: a host's handler may run Python code */
    sspy_release(state->interp, error);
    return PyLong_FromLong(hr);
}

static PyObject *set_restricted(PyObject *module, PyObject *info)
{
    return call_with_error(module, info == Py_None ? NULL : info, SetRestrictedErrorInfo);
}

static PyObject *report_unhandled_error(PyObject *module, PyObject *info)
{
    return call_with_error(module, info, RoReportUnhandledError);
}

static PyObject *get_matching(PyObject *module, PyObject *number)
{
    IRestrictedErrorInfo *error = NULL;
    HRESULT hr, result;

    if (sspy_hresult_from(number, "hresult", &hr))
        return NULL;
    result = RoGetMatchingRestrictedErrorInfo(hr, &error);
    if (FAILED(result) && !error)
        return PyErr_Format(PyExc_ValueError, "no error object for hresult 0x%08x",
                            (unsigned)result);
    return sspy_error_wrap_taken(PyModule_GetState(module), error);
}

static PyObject *resolve_reference(PyObject *module, PyObject *reference)
{
    IRestrictedErrorInfo *error;

    if (!PyUnicode_Check(reference))
        return PyErr_Format(PyExc_TypeError, "reference must be str, not %.200s",
                            Py_TYPE(reference)->tp_name);
    error = resolved(reference);
    if (!error && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "reference does not name a live error");
    return error ? sspy_error_wrap_taken(PyModule_GetState(module), error) : NULL;
}

/* Where this adds a node, Python is the receiver: RoCaptureErrorContext does not know its
   caller. */
static PyObject *capture_context(PyObject *module, PyObject *number)
{
    sspy_state *state = PyModule_GetState(module);
    IRestrictedErrorInfo *error = NULL;
    stacksplice_section section;
    HRESULT hr, stored = S_OK;

    if (sspy_hresult_from(number, "hresult", &hr))
        return NULL;
    section = sspy_enter(state->interp);
    if (FAILED(hr) && stacksplice_peek_error(&error) == S_OK)
        (void)stacksplice_error_hresult((IUnknown *)error, &stored);
    if (error && stored == hr)
        hr = stacksplice_propagate_above(__builtin_frame_address(0), hr, "python");
    else
        hr = RoCaptureErrorContext(hr);
    sspy_unknown_release(error);
    sspy_leave(section);
    return PyLong_FromLong(hr);
}

static PyObject *fail_fast_with_context(PyObject *Py_UNUSED(module), PyObject *number)
{
    HRESULT hr;

    if (sspy_hresult_from(number, "hresult", &hr))
        return NULL;
    RoFailFastWithErrorContext(hr);
    Py_RETURN_NONE;
}

/* ---- The process ------------------------------------------------------------------------------*/

static PyObject *get_flags(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    UINT32 flags = 0;

    (void)RoGetErrorReportingFlags(&flags);
    return PyLong_FromUnsignedLong(flags);
}

static PyObject *set_flags(PyObject *Py_UNUSED(module), PyObject *number)
{
    unsigned long flags;

    if (!PyLong_Check(number))
        return PyErr_Format(PyExc_TypeError, "flags must be int, not %.200s",
                            Py_TYPE(number)->tp_name);
    flags = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred() || flags > UINT32_MAX || FAILED(RoSetErrorReportingFlags((UINT32)flags)))
        return PyErr_Format(PyExc_ValueError, "flags has undefined bits");
    Py_RETURN_NONE;
}

static PyObject *clear_error(PyObject *module, PyObject *Py_UNUSED(unused))
{
    sspy_state *state = PyModule_GetState(module);
    stacksplice_section section = sspy_enter(state->interp);

    RoClearError();
    sspy_leave(section);
    Py_RETURN_NONE;
}

static PyObject *is_propagation_enabled(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(IsErrorPropagationEnabled());
}

static PyObject *capture_back_trace(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    unsigned int skip, wanted;
    PyObject *list = NULL;
    ULONG hash = 0;
    PVOID *frames;
    USHORT count;

    if (!PyArg_ParseTuple(arguments, "II:RtlCaptureStackBackTrace", &skip, &wanted))
        return NULL;
    if (wanted > UINT16_MAX)
        return PyErr_Format(PyExc_ValueError, "frames_to_capture must be at most 65535");
    frames = calloc(wanted + 1, sizeof *frames);
    if (!frames)
        return PyErr_NoMemory();
    count = RtlCaptureStackBackTrace(skip, wanted, frames, &hash);
    list = PyList_New(0);
    for (USHORT i = 0; list && i < count; i++)
        if (sspy_append_new(list, PyLong_FromVoidPtr(frames[i])))
            Py_CLEAR(list);
    free(frames);
    return list ? Py_BuildValue("(NI)", list, (unsigned)hash) : NULL;
}

PyMethodDef sspy_winrt_functions[] = {
    {"RoOriginateError", originate_error, METH_VARARGS,
     "RoOriginateError(error, message=None, /)\n--\n\nA new error in the thread's slot."},
    {"RoTransformError", transform_error, METH_VARARGS,
     "RoTransformError(old_error, new_error, message=None, /)\n--\n\nAn error becomes another."},
    {"RoOriginateLanguageException", originate_language_exception, METH_VARARGS,
     "RoOriginateLanguageException(error, message, language_exception=None, /)\n--\n\n"
     "A new error for an exception in the thread's slot."},
    {"GetRestrictedErrorInfo", sspy_take_error, METH_NOARGS,
     "GetRestrictedErrorInfo()\n--\n\nTake the thread's error: ErrorInfo or None."},
    {"SetRestrictedErrorInfo", set_restricted, METH_O,
     "SetRestrictedErrorInfo(error, /)\n--\n\nReplace the thread's error; None empties the slot."},
    {"RoGetMatchingRestrictedErrorInfo", get_matching, METH_O,
     "RoGetMatchingRestrictedErrorInfo(hresult, /)\n--\n\nTake the error of that HRESULT."},
    {"RoResolveRestrictedErrorInfoReference", resolve_reference, METH_O,
     "RoResolveRestrictedErrorInfoReference(reference, /)\n--\n\nThe living error it names."},
    {"RoCaptureErrorContext", capture_context, METH_O,
     "RoCaptureErrorContext(hresult, /)\n--\n\nKeep this stack for a later fail-fast."},
    {"RoFailFastWithErrorContext", fail_fast_with_context, METH_O,
     "RoFailFastWithErrorContext(hresult, /)\n--\n\nEnd the process with a crash report."},
    {"RoReportUnhandledError", report_unhandled_error, METH_O,
     "RoReportUnhandledError(error, /)\n--\n\nNobody handled it: ask the host, or fail fast."},
    {"RoGetErrorReportingFlags", get_flags, METH_NOARGS,
     "RoGetErrorReportingFlags()\n--\n\nThe flags of the process."},
    {"RoSetErrorReportingFlags", set_flags, METH_O,
     "RoSetErrorReportingFlags(flags, /)\n--\n\nReplace the flags of the process."},
    {"RoClearError", clear_error, METH_NOARGS, "RoClearError()\n--\n\nEmpty the thread's slot."},
    {"IsErrorPropagationEnabled", is_propagation_enabled, METH_NOARGS,
     "IsErrorPropagationEnabled()\n--\n\nTrue."},
    {"RtlCaptureStackBackTrace", capture_back_trace, METH_VARARGS,
     "RtlCaptureStackBackTrace(frames_to_skip, frames_to_capture, /)\n--\n\n"
     "(native return addresses, hash)."},
    {NULL, NULL, 0, NULL},
};
