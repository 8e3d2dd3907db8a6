/*
 * The Windows names, for stacksplice.winrt: integers, str and ErrorInfo in place of HRESULT,
 * HSTRING and IRestrictedErrorInfo.
 */
#include "api/api.h"

#include <stdlib.h>

/* The handle inside an ErrorInfo or the exception that has one, as the core's error (with an
   outside reference), or NULL with an exception. */
static IRestrictedErrorInfo *restricted_from(sspy_state *state, PyObject *error)
{
    PyObject *exc = sspy_attribute(error, "language_exception");
    sspy_ties *ties;
    IScriptErrorInfo *script = NULL;
    IRestrictedErrorInfo *restricted = NULL;
    PyObject *reference;

    if (exc && PyExceptionInstance_Check(exc)) {
        ties = sspy_ties_of(state->interp, exc);
        script = ties ? sspy_ties_hold(ties, exc) : NULL;
        restricted = sspy_query(script, &IID_IRestrictedErrorInfo);
        sspy_unknown_release(script);
    }
    Py_XDECREF(exc);
    if (restricted)
        return restricted;
    PyErr_Clear();
    reference = sspy_attribute(error, "reference");
    if (reference && PyUnicode_Check(reference)) {
        PyObject *wide = PyUnicode_AsEncodedString(reference, "utf-16-le", "surrogatepass");
        BSTR text =
            wide ? SysAllocStringByteLen(PyBytes_AS_STRING(wide), (UINT)PyBytes_GET_SIZE(wide))
                 : NULL;

        (void)RoResolveRestrictedErrorInfoReference(text, &restricted);
        SysFreeString(text);
        Py_XDECREF(wide);
    }
    Py_XDECREF(reference);
    PyErr_Clear();
    if (!restricted)
        PyErr_Format(PyExc_TypeError, "error must be a live ErrorInfo, not %.200s",
                     Py_TYPE(error)->tp_name);
    return restricted;
}

/* MESSAGE (str or None) as an HSTRING; -1 with an exception. */
static int string_from(PyObject *message, HSTRING *string)
{
    PyObject *wide;
    HRESULT hr;

    *string = NULL;
    if (!message || message == Py_None)
        return 0;
    if (!PyUnicode_Check(message)) {
        PyErr_Format(PyExc_TypeError, "message must be str or None, not %.200s",
                     Py_TYPE(message)->tp_name);
        return -1;
    }
    wide = PyUnicode_AsEncodedString(message, "utf-16-le", "surrogatepass");
    if (!wide)
        return -1;
    hr = WindowsCreateString((PCWSTR)(const void *)PyBytes_AS_STRING(wide),
                             (UINT32)(PyBytes_GET_SIZE(wide) / 2), string);
    Py_DECREF(wide);
    if (FAILED(hr))
        PyErr_NoMemory();
    return FAILED(hr) ? -1 : 0;
}

static PyObject *originate_error(PyObject *module, PyObject *arguments)
{
    PyObject *number, *message = NULL;
    HSTRING string;
    HRESULT hr;
    BOOL result;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "O|O:RoOriginateError", &number, &message) ||
        sspy_hresult_from(number, "error", &hr) || string_from(message, &string))
        return NULL;
    result = RoOriginateError(hr, string);
    WindowsDeleteString(string);
    return PyBool_FromLong(result);
}

static PyObject *transform_error(PyObject *module, PyObject *arguments)
{
    PyObject *old_number, *new_number, *message = NULL;
    HSTRING string;
    HRESULT old_hr, new_hr;
    BOOL result;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "OO|O:RoTransformError", &old_number, &new_number, &message) ||
        sspy_hresult_from(old_number, "old_error", &old_hr) ||
        sspy_hresult_from(new_number, "new_error", &new_hr) || string_from(message, &string))
        return NULL;
    result = RoTransformError(old_hr, new_hr, string);
    WindowsDeleteString(string);
    return PyBool_FromLong(result);
}

static PyObject *originate_language_exception(PyObject *module, PyObject *arguments)
{
    sspy_state *state = PyModule_GetState(module);
    PyObject *number, *message, *exc = Py_None;
    IUnknown *wrapped = NULL;
    HSTRING string;
    HRESULT hr;
    BOOL result;

    if (!PyArg_ParseTuple(arguments, "OO|O:RoOriginateLanguageException", &number, &message,
                          &exc) ||
        sspy_hresult_from(number, "error", &hr))
        return NULL;
    if (exc != Py_None && !PyExceptionInstance_Check(exc))
        return PyErr_Format(PyExc_TypeError,
                            "language_exception must be an exception or None, not %.200s",
                            Py_TYPE(exc)->tp_name);
    if (string_from(message, &string))
        return NULL;
    if (exc != Py_None) {
        wrapped = sspy_language_exception(state, exc, NULL);
        if (!wrapped) {
            WindowsDeleteString(string);
            return NULL;
        }
    }
    result = RoOriginateLanguageException(hr, string, wrapped);
    WindowsDeleteString(string);
    sspy_release(state->interp, wrapped);
    return PyBool_FromLong(result);
}

static PyObject *get_restricted(PyObject *module, PyObject *unused)
{
    IRestrictedErrorInfo *error = NULL;

    (void)unused;
    (void)GetRestrictedErrorInfo(&error);
    return sspy_error_wrap_taken(PyModule_GetState(module), error);
}

static PyObject *set_restricted(PyObject *module, PyObject *error)
{
    sspy_state *state = PyModule_GetState(module);
    IRestrictedErrorInfo *restricted = NULL;
    stacksplice_section section;
    HRESULT hr;

    if (error != Py_None) {
        restricted = restricted_from(state, error);
        if (!restricted)
            return NULL;
    }
    section = sspy_enter(state->interp);
    hr = SetRestrictedErrorInfo(restricted);
    sspy_unknown_release(restricted);
    sspy_leave(section);
    return PyLong_FromLong(hr);
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
    sspy_state *state = PyModule_GetState(module);
    IRestrictedErrorInfo *error = NULL;
    PyObject *wide;
    BSTR text;
    HRESULT hr;

    if (!PyUnicode_Check(reference))
        return PyErr_Format(PyExc_TypeError, "reference must be str, not %.200s",
                            Py_TYPE(reference)->tp_name);
    wide = PyUnicode_AsEncodedString(reference, "utf-16-le", "surrogatepass");
    if (!wide)
        return NULL;
    text = SysAllocStringByteLen(PyBytes_AS_STRING(wide), (UINT)PyBytes_GET_SIZE(wide));
    Py_DECREF(wide);
    if (!text)
        return PyErr_NoMemory();
    hr = RoResolveRestrictedErrorInfoReference(text, &error);
    SysFreeString(text);
    if (FAILED(hr))
        return PyErr_Format(PyExc_ValueError, "reference does not name a live error");
    return sspy_error_wrap_taken(state, error);
}

/* Where it adds a node, Python receives: RoCaptureErrorContext itself does not know who calls. */
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

static PyObject *fail_fast_with_context(PyObject *module, PyObject *number)
{
    HRESULT hr;

    (void)module;
    if (sspy_hresult_from(number, "hresult", &hr))
        return NULL;
    RoFailFastWithErrorContext(hr);
    Py_RETURN_NONE;
}

static PyObject *report_unhandled_error(PyObject *module, PyObject *error)
{
    sspy_state *state = PyModule_GetState(module);
    IRestrictedErrorInfo *restricted = restricted_from(state, error);
    HRESULT hr;

    if (!restricted)
        return NULL;
    hr = RoReportUnhandledError(restricted);
    sspy_release(state->interp, restricted);
    return PyLong_FromLong(hr);
}

static PyObject *get_flags(PyObject *module, PyObject *unused)
{
    UINT32 flags = 0;

    (void)module;
    (void)unused;
    (void)RoGetErrorReportingFlags(&flags);
    return PyLong_FromUnsignedLong(flags);
}

static PyObject *set_flags(PyObject *module, PyObject *number)
{
    unsigned long flags;

    (void)module;
    if (!PyLong_Check(number))
        return PyErr_Format(PyExc_TypeError, "flags must be int, not %.200s",
                            Py_TYPE(number)->tp_name);
    flags = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred() || flags > UINT32_MAX || FAILED(RoSetErrorReportingFlags((UINT32)flags)))
        return PyErr_Format(PyExc_ValueError, "flags has undefined bits");
    Py_RETURN_NONE;
}

static PyObject *clear_error(PyObject *module, PyObject *unused)
{
    sspy_state *state = PyModule_GetState(module);
    stacksplice_section section = sspy_enter(state->interp);

    (void)unused;
    RoClearError();
    sspy_leave(section);
    Py_RETURN_NONE;
}

static PyObject *is_propagation_enabled(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(IsErrorPropagationEnabled());
}

static PyObject *capture_back_trace(PyObject *module, PyObject *arguments)
{
    unsigned int skip, wanted;
    ULONG hash = 0;
    USHORT count;
    PVOID *frames;
    PyObject *list;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "II:RtlCaptureStackBackTrace", &skip, &wanted))
        return NULL;
    if (wanted > UINT16_MAX)
        return PyErr_Format(PyExc_ValueError, "frames_to_capture must be at most 65535");
    frames = calloc(wanted + 1, sizeof *frames);
    if (!frames)
        return PyErr_NoMemory();
    count = RtlCaptureStackBackTrace(skip, wanted, frames, &hash);
    list = PyList_New(0);
    for (USHORT i = 0; list && i < count; i++) {
        PyObject *frame = PyLong_FromVoidPtr(frames[i]);

        if (!frame || PyList_Append(list, frame))
            Py_CLEAR(list);
        Py_XDECREF(frame);
    }
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
    {"GetRestrictedErrorInfo", get_restricted, METH_NOARGS,
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
