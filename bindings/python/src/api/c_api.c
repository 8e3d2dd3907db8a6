/*
 * The table for C.  It serves every interpreter of the process.  An interpreter that has not
 * imported the module yet (a new sub-interpreter, or Python initialised again) does so at the first
 * call.
 */
#include "api/api.h"

#define CAPSULE_NAME "stacksplice._stacksplice._C_API"
#define BUILTIN_CAPSULE_NAME "_stacksplice._C_API"
static atomic_bool is_builtin; /* this copy of the extension */

static PyObject *import_module(void)
{
    return PyImport_ImportModule(is_builtin ? "_stacksplice" : "stacksplice._stacksplice");
}

/* Return NULL with an exception; without one only if no interpreter exists to hold it. */
static sspy_state *state_imported(void)
{
    sspy_interp *interp;
    PyObject *module;

    if (!sspy_interp_lives()) {
        /* The table outlives the interpreter, and its last objects, or a host, may still call. */
        if (sspy_current_thread_state())
            PyErr_SetString(PyExc_SystemError, "the interpreter has been finalized");
        return NULL;
    }
    interp = sspy_interp_current();
    if (interp && !interp->module_state && !Py_IsInitialized()) {
        PyErr_SetString(PyExc_SystemError,
                        "the interpreter is shutting down; stacksplice is already closed in it");
        return NULL;
    }
    if (interp && !interp->module_state) {
        module = import_module();
        Py_XDECREF(module);
        if (!module)
            return NULL;
    }
    return interp ? sspy_state_current() : NULL;
}

static HRESULT api_originate(void)
{
    PyObject *exc;
    sspy_state *state;
    HRESULT hr;

    if (!sspy_interp_lives())
        return STACKSPLICE_PYTHON_NOT_IMPORTED;
    exc = sspy_take_pending();
    if (!exc) {
        (void)stacksplice_originate(E_UNEXPECTED, "no Python exception is set", 26, NULL, NULL);
        return E_UNEXPECTED;
    }
    state = state_imported();
    if (!state) { /* the thread's error keeps its message, and nothing else happens */
        sspy_set_pending(exc);
        return stacksplice_python_import_failed();
    }
    hr = sspy_originate(state, exc, __builtin_frame_address(0));
    Py_DECREF(exc);
    return hr;
}

static PyObject *api_raise(HRESULT hr)
{
    sspy_state *state = state_imported();

    if (state)
        return sspy_raise(state, hr, __builtin_frame_address(0));
    if (sspy_current_thread_state())
        RoClearError(); /* take the error anyway: the exception that was set replaces it */
    return NULL;
}

static HRESULT api_exception(PyObject *exc, IUnknown **out)
{
    PyObject *pending;
    sspy_state *state;
    IUnknown *unknown;

    if (!sspy_interp_lives())
        return STACKSPLICE_PYTHON_NOT_IMPORTED;
    if (!exc || !out)
        return E_POINTER;
    if (!PyExceptionInstance_Check(exc))
        return E_INVALIDARG;
    pending = sspy_take_pending();
    state = state_imported();
    unknown = state ? sspy_language_exception(state, exc, __builtin_frame_address(0)) : NULL;
    sspy_set_pending(pending); /* replaces a MemoryError, which the HRESULT already reports */
    if (!unknown)
        return state ? E_OUTOFMEMORY : E_UNEXPECTED;
    *out = unknown;
    return S_OK;
}

static PyObject *api_object(IUnknown *language_exception)
{
    stacksplice_exception *exception;
    PyObject *pending;
    sspy_interp *interp;

    if (!stacksplice_exception_from(language_exception, NULL) || !sspy_interp_lives())
        return NULL;
    pending = sspy_take_pending();
    interp = sspy_interp_current();
    sspy_set_pending(pending);
    exception = interp ? stacksplice_exception_from(language_exception, interp->owner) : NULL;
    return exception ? Py_XNewRef(stacksplice_exception_value(exception)) : NULL;
}

static HRESULT api_unhandled(int *exit_status)
{
    PyObject *exc;
    sspy_state *state;
    HRESULT hr;

    if (!sspy_interp_lives())
        return STACKSPLICE_PYTHON_NOT_IMPORTED;
    exc = sspy_take_pending();
    if (!exc)
        return E_UNEXPECTED;
    state = state_imported();
    if (!state)
        PyErr_Clear();
    hr = sspy_report_unhandled(state, exc, __builtin_frame_address(0), exit_status);
    Py_DECREF(exc);
    return hr;
}

static const stacksplice_python_api api = {
    .size = sizeof api,
    .version = STACKSPLICE_PYTHON_API_VERSION,
    .originate = api_originate,
    .raise = api_raise,
    .exception = api_exception,
    .object = api_object,
    .unhandled = api_unhandled,
};

int sspy_add_c_api(PyObject *module)
{
    const char *name = PyModule_GetName(module);
    bool builtin = name && !PyErr_Occurred() && name[0] == '_';
    PyObject *capsule =
        PyCapsule_New((void *)&api, builtin ? BUILTIN_CAPSULE_NAME : CAPSULE_NAME, NULL);
    int failed = !capsule || PyModule_AddObjectRef(module, "_C_API", capsule);

    atomic_store(&is_builtin, builtin);
    Py_XDECREF(capsule);
    return failed ? -1 : 0;
}
