/*
 * The module: multi-phase initialisation, one state per interpreter, the capsule for C.
 */
#include "life/binding.h"
#include "frames/token_cache.h"

#include <dlfcn.h>
#include <stdlib.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define STACKSPLICE_PYTHON_VERSION  \
    TEXT(STACKSPLICE_VERSION_MAJOR) \
    "." TEXT(STACKSPLICE_VERSION_MINOR) "." TEXT(STACKSPLICE_VERSION_PATCH)

#define CAPSULE_NAME "stacksplice._stacksplice._C_API"
#define BUILTIN_CAPSULE_NAME "_stacksplice._C_API"

sspy_state *sspy_state_current(void)
{
    sspy_interp *interp = sspy_interp_current();

    if (interp && !interp->module_state)
        PyErr_SetString(PyExc_SystemError, "stacksplice is not imported in this interpreter");
    return interp ? interp->module_state : NULL;
}

/* ---- The table for C --------------------------------------------------------------------------*/

/*
 * The table serves every interpreter of the process: one that has not imported the module yet (a
 * sub-interpreter, or one initialised anew) does so at the first call.
 */
static atomic_bool is_builtin; /* this copy of the extension */

/* NULL with an exception; without one only where there is no interpreter to have one. */
static sspy_state *state_imported(void)
{
    sspy_interp *interp;
    PyObject *module;

    if (!sspy_interp_lives()) {
        /* The table outlives it, and its last objects, or a host, may call once more. */
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
        module = PyImport_ImportModule(is_builtin ? "_stacksplice" : "stacksplice._stacksplice");
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
        (void)stacksplice_originate(E_UNEXPECTED, "no Python exception is set", 31, NULL, NULL);
        return E_UNEXPECTED;
    }
    state = state_imported();
    if (!state) { /* then the thread's error has its message and nothing else */
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
        RoClearError(); /* taken all the same: the exception that was set is in its place */
    return NULL;
}

static HRESULT api_exception(PyObject *exc, IUnknown **out)
{
    PyObject *pending;
    sspy_state *state;
    sspy_exception *wrapped;

    if (!sspy_interp_lives())
        return STACKSPLICE_PYTHON_NOT_IMPORTED;
    if (!exc || !out)
        return E_POINTER;
    if (!PyExceptionInstance_Check(exc))
        return E_INVALIDARG;
    pending = sspy_take_pending();
    state = state_imported();
    wrapped = state ? sspy_wrap(state, exc, __builtin_frame_address(0)) : NULL;
    sspy_set_pending(pending); /* in place of a MemoryError, which the HRESULT says */
    if (!wrapped)
        return state ? E_OUTOFMEMORY : E_UNEXPECTED;
    *out = (IUnknown *)&wrapped->backtrace;
    return S_OK;
}

static PyObject *api_object(IUnknown *language_exception)
{
    sspy_exception *exception = sspy_exception_from(language_exception);
    PyObject *pending;
    sspy_interp *interp;

    if (!exception || !sspy_interp_lives())
        return NULL;
    pending = sspy_take_pending();
    interp = sspy_interp_current();
    sspy_set_pending(pending);
    return exception->interp == interp ? Py_XNewRef(exception->object) : NULL;
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

const stacksplice_python_api sspy_api = {
    .size = sizeof sspy_api,
    .version = STACKSPLICE_PYTHON_API_VERSION,
    .originate = api_originate,
    .raise = api_raise,
    .exception = api_exception,
    .object = api_object,
    .unhandled = api_unhandled,
};

static int add_capsule(PyObject *module)
{
    const char *name = PyModule_GetName(module);
    bool builtin = name && !PyErr_Occurred() && name[0] == '_';
    PyObject *capsule =
        PyCapsule_New((void *)&sspy_api, builtin ? BUILTIN_CAPSULE_NAME : CAPSULE_NAME, NULL);
    int failed = !capsule || PyModule_AddObjectRef(module, "_C_API", capsule);

    atomic_store(&is_builtin, builtin);
    Py_XDECREF(capsule);
    return failed ? -1 : 0;
}

/* ---- The version of the core ------------------------------------------------------------------*/

/* One core serves the process: the one that was loaded first, which may be too old for us. */
static int check_core(void)
{
    const char *version = stacksplice_version();
    char *rest = NULL;
    long major = strtol(version, &rest, 10);
    long minor = *rest == '.' ? strtol(rest + 1, &rest, 10) : 0;
    Dl_info where = {NULL, NULL, NULL, NULL};

    if (major == STACKSPLICE_VERSION_MAJOR && minor >= STACKSPLICE_VERSION_MINOR)
        return 0;
    (void)dladdr((const void *)(uintptr_t)stacksplice_version, &where);
    PyErr_Format(PyExc_ImportError,
                 "this stacksplice needs core library %d.%d or a later %d.x, but version %s was "
                 "loaded first, from %s; upgrade the package or program that ships that file",
                 STACKSPLICE_VERSION_MAJOR, STACKSPLICE_VERSION_MINOR, STACKSPLICE_VERSION_MAJOR,
                 version, where.dli_fname ? where.dli_fname : "an unknown file");
    return -1;
}

/* ---- The module -------------------------------------------------------------------------------*/

static int add_types(PyObject *module, sspy_state *state)
{
    state->anchor_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &sspy_anchor_spec, NULL);
    state->clean_dict_type = sspy_clean_dict_type(module);
    state->error_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &sspy_error_spec, NULL);
    state->foreign = PyDict_New();
    state->hresult_key = PyUnicode_InternFromString("hresult");
    state->notes_key = PyUnicode_InternFromString("__notes__");
    state->asyncio_key = PyUnicode_InternFromString("asyncio.events");
    state->running_loop_key = PyUnicode_InternFromString("_get_running_loop");
    if (!state->anchor_type || !state->clean_dict_type || !state->error_type || !state->foreign ||
        !state->hresult_key || !state->notes_key || !state->asyncio_key || !state->running_loop_key)
        return -1;
    return PyModule_AddType(module, state->error_type);
}

static int module_exec(PyObject *module)
{
    sspy_state *state = PyModule_GetState(module);
    HRESULT hr;

    if (check_core())
        return -1;
    state->interp = sspy_interp_current();
    if (!state->interp)
        return -1;
    sspy_interp_ref(state->interp);
    state->shows_foreign = true;
    if (PyModule_AddStringConstant(module, "__version__", STACKSPLICE_PYTHON_VERSION) ||
        PyModule_AddStringConstant(module, "_AWAITED", SSPY_AWAITED) || add_types(module, state) ||
        sspy_hresult_error_init(module, state) ||
        PyModule_AddFunctions(module, sspy_winrt_functions) || add_capsule(module) ||
        sspy_layout_check())
        return -1;
    sspy_cache_begin(state->interp->state);
    state->interp->anchor_type = state->anchor_type;
    state->interp->module_state = state;
    hr = sspy_source_register();
    if (FAILED(hr)) {
        PyErr_Format(PyExc_ImportError, "could not register the frame source, HRESULT 0x%08x",
                     (unsigned)hr);
        return -1;
    }
    return 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    sspy_state *state = PyModule_GetState(module);

    Py_VISIT(state->anchor_type);
    Py_VISIT(state->clean_dict_type);
    Py_VISIT(state->error_type);
    Py_VISIT(state->hresult_error);
    Py_VISIT(state->back_types);
    Py_VISIT(state->foreign);
    Py_VISIT(state->hresult_key);
    Py_VISIT(state->notes_key);
    Py_VISIT(state->asyncio_key);
    Py_VISIT(state->running_loop_key);
    Py_VISIT(state->wrap_error);
    Py_VISIT(state->wrap_stack);
    Py_VISIT(state->group_error);
    return sspy_kept_frames_traverse(state->kept_frames, visit, arg);
}

static int module_clear(PyObject *module)
{
    sspy_state *state = PyModule_GetState(module);

    if (state->interp && state->interp->module_state == state) {
        state->interp->module_state = NULL;
        state->interp->anchor_type = NULL;
    }
    Py_CLEAR(state->anchor_type);
    Py_CLEAR(state->clean_dict_type);
    Py_CLEAR(state->error_type);
    Py_CLEAR(state->hresult_error);
    Py_CLEAR(state->back_types);
    Py_CLEAR(state->foreign);
    Py_CLEAR(state->hresult_key);
    Py_CLEAR(state->notes_key);
    Py_CLEAR(state->asyncio_key);
    Py_CLEAR(state->running_loop_key);
    Py_CLEAR(state->wrap_error);
    Py_CLEAR(state->wrap_stack);
    Py_CLEAR(state->group_error);
    sspy_kept_frames_clear(state->kept_frames);
    return 0;
}

static void module_free(void *module)
{
    sspy_state *state = PyModule_GetState(module);

    (void)module_clear(module);
    free(state->kept_frames);
    state->kept_frames = NULL;
    sspy_interp_unref(state->interp);
    state->interp = NULL;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, module_exec},
#ifdef Py_MOD_PER_INTERPRETER_GIL_SUPPORTED
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_MOD_GIL_USED
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_stacksplice",
    .m_doc = "The C part of stacksplice.",
    .m_size = sizeof(sspy_state),
    .m_methods = sspy_functions,
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__stacksplice(void);
PyMODINIT_FUNC PyInit__stacksplice(void)
{
    return PyModuleDef_Init(&definition);
}
