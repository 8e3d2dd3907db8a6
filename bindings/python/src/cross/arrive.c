/*
 * HRESULT -> Python: the thread's error as an exception.
 */
#include "life/binding.h"

/* The object of the language exception that ERROR (an error object or node) carries, if it is one
   of this interpreter's; new reference. */
static PyObject *object_of(sspy_state *state, ILanguageExceptionErrorInfo *error)
{
    IUnknown *unknown = NULL;
    sspy_exception *exception;
    PyObject *object = NULL;

    if (FAILED(error->lpVtbl->GetLanguageException(error, &unknown)) || !unknown)
        return NULL;
    exception = sspy_exception_from(unknown);
    if (exception && exception->interp == state->interp)
        object = Py_XNewRef(exception->object);
    sspy_unknown_release(unknown);
    return object;
}

/* The same for the nodes, newest first. */
static PyObject *object_of_nodes(sspy_state *state, IUnknown *error)
{
    ILanguageExceptionErrorInfo2 *info = sspy_query(error, &IID_ILanguageExceptionErrorInfo2);
    ILanguageExceptionErrorInfo2 *node = NULL, *older;
    PyObject *object = NULL;

    if (info)
        (void)info->lpVtbl->GetPropagationContextHead(info, &node);
    while (node && !object) {
        object = object_of(state, (ILanguageExceptionErrorInfo *)node);
        older = NULL;
        (void)node->lpVtbl->GetPreviousLanguageExceptionErrorInfo(node, &older);
        sspy_unknown_release(node);
        node = older;
    }
    sspy_unknown_release(node);
    sspy_unknown_release(info);
    return object;
}

PyObject *sspy_own_object(sspy_state *state, IUnknown *error)
{
    sspy_section section = sspy_enter(state->interp);
    ILanguageExceptionErrorInfo *info = sspy_query(error, &IID_ILanguageExceptionErrorInfo);
    PyObject *object = info ? object_of(state, info) : NULL;

    if (!object && info)
        object = object_of_nodes(state, error);
    sspy_unknown_release(info);
    sspy_leave(section);
    return object;
}

/* ---- Errors that were born elsewhere ----------------------------------------------------------*/

static PyObject *known_foreign(sspy_state *state, PyObject *key)
{
    PyObject *reference = PyDict_GetItemWithError(state->foreign, key);

    return reference ? sspy_weakref_get(reference) : NULL;
}

/* The script's own message, whole; NULL when no script raised ERROR, or it said nothing. */
static PyObject *script_message(IScriptErrorInfo *error)
{
    ILanguageExceptionErrorInfo *info = sspy_query(error, &IID_ILanguageExceptionErrorInfo);
    IUnknown *unknown = NULL;
    IScriptException *script;
    PyObject *text = NULL;

    if (info)
        (void)info->lpVtbl->GetLanguageException(info, &unknown);
    script = sspy_query(unknown, &stacksplice_IID_IScriptException);
    if (script)
        text = sspy_script_message(script);
    if (text && PyUnicode_GET_LENGTH(text) == 0)
        Py_CLEAR(text);
    sspy_unknown_release(script);
    sspy_unknown_release(unknown);
    sspy_unknown_release(info);
    return text;
}

/* The error object's message, which ends early, without the line break of system texts. */
static PyObject *message_and_hresult(IRestrictedErrorInfo *error, HRESULT *hr)
{
    BSTR description = NULL, message = NULL, sid = NULL;
    PyObject *text = NULL;
    UINT length;

    if (SUCCEEDED(error->lpVtbl->GetErrorDetails(error, &description, hr, &message, &sid))) {
        length = SysStringLen(message);
        while (length && (message[length - 1] == '\r' || message[length - 1] == '\n'))
            length--;
        text = sspy_text_from_wide(message, length);
    } else {
        PyErr_SetString(PyExc_RuntimeError, "the error object returned no details");
    }
    SysFreeString(description);
    SysFreeString(message);
    SysFreeString(sid);
    return text;
}

/* A new HResultError for ERROR, anchored to it and known by its address while it lives. */
static PyObject *new_foreign(sspy_state *state, IScriptErrorInfo *error, PyObject *key)
{
    IRestrictedErrorInfo *restricted = sspy_query(error, &IID_IRestrictedErrorInfo);
    HRESULT hr = E_FAIL;
    PyObject *message = message_and_hresult(restricted, &hr);
    PyObject *whole = message ? script_message(error) : NULL;
    PyObject *exc = NULL, *reference;
    sspy_anchor *anchor;

    if (whole)
        Py_SETREF(message, whole);
    if (message && !PyErr_Occurred())
        exc = sspy_foreign_group(state, (IUnknown *)error, hr, message);
    if (message && !exc && !PyErr_Occurred())
        exc = sspy_hresult_error_new(state, hr, message);
    if (exc && sspy_arrive(state, exc, (IUnknown *)error))
        Py_CLEAR(exc);
    anchor = exc ? sspy_anchor_make(state->interp, exc) : NULL;
    reference = anchor ? PyWeakref_NewRef(exc, NULL) : NULL;
    sspy_unknown_release(restricted);
    Py_XDECREF(message);
    if (!reference || PyDict_SetItem(state->foreign, key, reference)) {
        Py_XDECREF(reference);
        Py_XDECREF(exc);
        return NULL;
    }
    sspy_anchor_set_error(anchor, error, true);
    Py_DECREF(reference);
    return exc;
}

static PyObject *foreign_object(sspy_state *state, IScriptErrorInfo *error)
{
    PyObject *key = PyLong_FromVoidPtr(error);
    PyObject *exc = key ? known_foreign(state, key) : NULL;

    if (key && !exc && !PyErr_Occurred())
        exc = new_foreign(state, error, key);
    Py_XDECREF(key);
    return exc;
}

/* The exception owns the error that it arrived with, also when it was originated again by hand. */
static void adopt(sspy_state *state, PyObject *exc, IScriptErrorInfo *error)
{
    sspy_anchor *anchor = sspy_anchor_make(state->interp, exc);

    if (!anchor)
        PyErr_Clear(); /* refused: its next way out originates anew */
    else if (anchor->error != error)
        sspy_anchor_set_error(anchor, error, false);
}

PyObject *sspy_object_for(sspy_state *state, IRestrictedErrorInfo *error)
{
    IScriptErrorInfo *script = sspy_query(error, &stacksplice_IID_IScriptErrorInfo);
    PyObject *exc = sspy_own_object(state, (IUnknown *)error);
    sspy_section section;

    if (exc && script)
        adopt(state, exc, script);
    else if (!exc && script)
        exc = foreign_object(state, script);
    else if (!exc)
        PyErr_SetString(PyExc_RuntimeError, "the thread's error was not created by this library");
    section = sspy_enter(state->interp);
    sspy_unknown_release(script);
    sspy_leave(section);
    return exc;
}

static void show_foreign(sspy_state *state, PyObject *exc, IRestrictedErrorInfo *error)
{
    IScriptErrorInfo *script = sspy_query(error, &stacksplice_IID_IScriptErrorInfo);
    sspy_section section;

    if (script)
        sspy_show_foreign(state, exc, script);
    section = sspy_enter(state->interp);
    sspy_unknown_release(script);
    sspy_leave(section);
}

PyObject *sspy_raise(sspy_state *state, HRESULT hr, const void *above)
{
    IRestrictedErrorInfo *error = NULL;
    sspy_section section;
    PyObject *exc;
    HRESULT result;

    if (SUCCEEDED(hr)) {
        PyErr_Format(PyExc_SystemError, "hresult must be a failure code, got %d", hr);
        return NULL;
    }
    sspy_slot_drop_other_task(state);
    section = sspy_enter(state->interp);
    (void)stacksplice_propagate_above(above, hr, "python"); /* first makes a stale one fresh */
    result = RoGetMatchingRestrictedErrorInfo(hr, &error);
    sspy_leave(section);
    if (FAILED(result) || !error) {
        PyObject *text;

        if (result == E_OUTOFMEMORY)
            return PyErr_NoMemory();
        /* Origination is switched off: there is only the number. */
        text = PyUnicode_FromFormat("HRESULT 0x%08x", (unsigned)hr);
        exc = text ? sspy_hresult_error_new(state, hr, text) : NULL;
        Py_XDECREF(text);
    } else {
        exc = sspy_object_for(state, error);
        if (exc)
            show_foreign(state, exc, error);
        section = sspy_enter(state->interp);
        sspy_unknown_release(error);
        sspy_leave(section);
    }
    if (exc)
        sspy_set_pending(exc);
    return NULL;
}
