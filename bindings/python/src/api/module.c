/*
 * The module: multi-phase initialisation, one state per interpreter.
 */
#include "api/api.h"
#include "lupa/lupa.h"
#include "shared/versions.h"
#include "stack/stack.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <structmember.h>

/* ---- Functions ---------------------------------------------------------------------------------*/

/* Find where objects of TYPE have their members, which are slots; -1 with an exception. */
static int find_members(const char *const *names, PyObject *type, Py_ssize_t *offsets)
{
    for (unsigned i = 0; i < SSPY_INFO_MEMBERS; i++) {
        PyObject *slot = PyObject_GetAttrString(type, names[i]);

        if (slot && !Py_IS_TYPE(slot, &PyMemberDescr_Type))
            PyErr_Format(PyExc_TypeError, "%s must be a slot", names[i]);
        if (slot && !PyErr_Occurred())
            offsets[i] = ((PyMemberDescrObject *)slot)->d_member->offset;
        Py_XDECREF(slot);
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

static PyObject *register_classes(PyObject *module, PyObject *arguments)
{
    sspy_state *state = PyModule_GetState(module);
    const char *names[SSPY_INFO_MEMBERS];
    PyObject *error, *stack, *group;

    static_assert(SSPY_INFO_MEMBERS == 5, "as many as are parsed");
    if (!PyArg_ParseTuple(arguments, "O!(sssss)OO:_register", &PyType_Type, &error, &names[0],
                          &names[1], &names[2], &names[3], &names[4], &stack, &group) ||
        find_members(names, error, state->info_members))
        return NULL;
    Py_XSETREF(state->error_info, Py_NewRef(error));
    Py_XSETREF(state->wrap_stack, Py_NewRef(stack));
    Py_XSETREF(state->group_error, Py_NewRef(group));
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    foreign_frames_doc,
    "foreign_frames(on=None, /)\n--\n\n"
    "Set whether exceptions that arrive from another language show the Lua and native frames\n"
    "that they passed in their __traceback__.  The default is True; the setting is that of this\n"
    "interpreter.  None changes nothing.  Returns the previous setting.\n\n"
    "Raises TypeError when on is neither a bool nor None.");
static PyObject *foreign_frames(PyObject *module, PyObject *arguments)
{
    sspy_state *state = PyModule_GetState(module);
    PyObject *before = state->shows_foreign ? Py_True : Py_False, *on = Py_None;

    if (!PyArg_UnpackTuple(arguments, "foreign_frames", 0, 1, &on))
        return NULL;
    if (on != Py_None && !PyBool_Check(on))
        return PyErr_Format(PyExc_TypeError, "on must be bool or None, not %.200s",
                            Py_TYPE(on)->tp_name);
    if (on != Py_None)
        state->shows_foreign = on == Py_True;
    return Py_NewRef(before);
}

static PyObject *frames_unavailable(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return sspy_text_or_none(sspy_layout_reason());
}

static PyObject *core_version(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyUnicode_FromString(stacksplice_version());
}

static PyObject *lines_missing(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return sspy_text_or_none(stacksplice_lines_missing());
}

static PyMethodDef functions[] = {
    {"capture", (PyCFunction)(void (*)(void))sspy_capture_function, METH_VARARGS | METH_KEYWORDS,
     sspy_capture_doc},
    {"report_on_signal", sspy_report_on_signal, METH_O, sspy_report_on_signal_doc},
    {"set_max_frames", sspy_set_max_frames, METH_O, sspy_set_max_frames_doc},
    {"resolve", sspy_resolve, METH_O, sspy_resolve_doc},
    {"foreign_frames", foreign_frames, METH_VARARGS, foreign_frames_doc},
    {"frames_unavailable", frames_unavailable, METH_NOARGS,
     "frames_unavailable()\n--\n\nWhy Python frames cannot be shown, or None."},
    {"core_version", core_version, METH_NOARGS,
     "core_version()\n--\n\nThe version of the core library that is loaded."},
    {"__getattr__", sspy_twin_named, METH_O, NULL},
    {"_lines_missing", lines_missing, METH_NOARGS, NULL},
    {"_frames_left_out", sspy_frames_left_out, METH_O, NULL},
    {"_register", register_classes, METH_VARARGS, NULL},
    {"_show_locals", sspy_show_locals, METH_O, NULL},
    {"_new_counts", sspy_new_counts, METH_O, NULL},
    {"_count", sspy_count, METH_VARARGS, NULL},
    {"_tell_counts", sspy_tell_counts, METH_VARARGS, NULL},
    {"_places", sspy_places, METH_O, NULL},
    {"_format_document", sspy_format_document, METH_VARARGS, NULL},
    {"_format_document_for_sentry", sspy_format_document_for_sentry, METH_O, NULL},
    {"_format_document_as_brief_json", sspy_format_document_as_brief_json, METH_O, NULL},
    {"_check_document", sspy_check_document, METH_O, NULL},
    {"_format_frame", sspy_format_frame, METH_O, NULL},
    {"_folds_of", sspy_folds_of, METH_O, NULL},
    {"_hide", sspy_hide, METH_VARARGS, NULL},
    {"_is_installed", sspy_is_installed, METH_O, NULL},
    {"_resolve_file", sspy_resolve_file, METH_VARARGS, NULL},
    {"_resolve_symbol", sspy_resolve_symbol, METH_VARARGS, NULL},
    {"_is_glue", sspy_is_glue, METH_VARARGS, NULL},
    {"_code_epoch", sspy_code_epoch, METH_NOARGS, NULL},
    {"_frames_of", sspy_frames_of, METH_VARARGS, NULL},
    {"_install_crash_handler", sspy_install_crash_handler, METH_O, NULL},
    {"_remove_crash_handler", sspy_remove_crash_handler, METH_NOARGS, NULL},
    {"_crash_thread", sspy_crash_thread, METH_NOARGS, NULL},
    {"_set_redaction", sspy_set_redaction, METH_VARARGS, NULL},
    {"_redact", sspy_redact, METH_VARARGS, NULL},
    {"_redact_name", sspy_redact_name, METH_O, NULL},
    {"_raised", (PyCFunction)(void (*)(void))sspy_raised, METH_FASTCALL, NULL},
    {"_ends_here", sspy_ends_here, METH_O, NULL},
    {"_lupa_attach", sspy_lupa_attach, METH_VARARGS, NULL},
#if PY_VERSION_HEX >= 0x030C0000
    {"_lupa_existing", sspy_lupa_existing, METH_VARARGS, NULL},
#endif
    {"_lupa_detach", sspy_lupa_detach, METH_O, NULL},
    {"_lupa_attached", sspy_lupa_is_attached, METH_O, NULL},
    {"_lupa_bridges", sspy_lupa_bridges, METH_O, NULL},
    {"_lupa_chunk", sspy_lupa_chunk, METH_VARARGS, NULL},
    {"_lupa_keep_caught", sspy_lupa_keep_caught, METH_O, NULL},
    {"_lupa_limit", sspy_lupa_limit, METH_VARARGS, NULL},
    {"_lupa_late", sspy_lupa_late, METH_VARARGS, NULL},
    {"_lupa_unread", sspy_lupa_unread, METH_VARARGS, NULL},
    {"_lupa_watch", sspy_lupa_watch, METH_VARARGS, NULL},
    {"_lupa_unwatch", sspy_lupa_unwatch, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* ---- The module --------------------------------------------------------------------------------*/

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define STACKSPLICE_PYTHON_VERSION  \
    TEXT(STACKSPLICE_VERSION_MAJOR) \
    "." TEXT(STACKSPLICE_VERSION_MINOR) "." TEXT(STACKSPLICE_VERSION_PATCH)

/* ---- The version of the core ------------------------------------------------------------------*/

/* The process has one core, the first that was loaded, which may be too old for us. */
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
    state->ties_type = sspy_ties_type(module);
    state->carrying_dict_type = sspy_carrying_dict_type(module, sspy_carrying_dict_methods);
    state->error_type = sspy_error_type(module);
    state->foreign = PyDict_New();
    state->made_by_others = PyDict_New();
    state->entry_frames = PyDict_New();
    state->hresult_key = PyUnicode_InternFromString("hresult");
    state->notes_key = PyUnicode_InternFromString("__notes__");
    state->asyncio_key = PyUnicode_InternFromString("asyncio.events");
    state->running_loop_key = PyUnicode_InternFromString("_get_running_loop");
    state->setstate_key = PyUnicode_InternFromString("__setstate__");
    state->plain_setstate = PyObject_GetAttrString(PyExc_BaseException, "__setstate__");
    state->no_arguments = PyTuple_New(0);
    if (!state->ties_type || !state->carrying_dict_type || !state->error_type || !state->foreign ||
        !state->made_by_others || !state->entry_frames || !state->hresult_key ||
        !state->notes_key || !state->asyncio_key || !state->running_loop_key ||
        !state->setstate_key || !state->plain_setstate || !state->no_arguments)
        return -1;
    return PyModule_AddType(module, state->error_type);
}

static int module_exec(PyObject *module)
{
    sspy_state *state = PyModule_GetState(module);
    HRESULT hr;

    if (check_core() || sspy_ties_check())
        return -1;
    state->interp = sspy_interp_current();
    if (!state->interp)
        return -1;
    sspy_interp_ref(state->interp);
    state->shows_foreign = true;
    if (PyModule_AddStringConstant(module, "__version__", STACKSPLICE_PYTHON_VERSION) ||
        PyModule_AddStringConstant(module, "_AWAITED", SSPY_AWAITED) ||
        PyModule_AddStringConstant(module, "_BUILD", stacksplice_build()) ||
        PyModule_AddStringConstant(module, "_CPYTHONS", SS_CPYTHON_RANGE) ||
        PyModule_AddStringConstant(module, "_LUAS", SS_LUA_RANGE) ||
        PyModule_AddIntConstant(module, "_INTERPRETER", (long)state->interp->id) ||
        add_types(module, state) || sspy_hresult_error_init(module, state) ||
        sspy_add_deadline_type(module) || sspy_add_unwound(module) ||
        PyModule_AddFunctions(module, sspy_error_functions) ||
        PyModule_AddFunctions(module, sspy_winrt_functions) || sspy_add_c_api(module) ||
        sspy_layout_check())
        return -1;
    sspy_cache_begin(state->interp->state);
    state->interp->ties_type = state->ties_type;
    state->interp->module_state = state;
    sspy_ties_begin();
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

#define VISIT(reference) Py_VISIT(state->reference);
    SSPY_EACH_REFERENCE(VISIT)
    Py_VISIT(sspy_lupa_created(state));
    return 0;
}

static int module_clear(PyObject *module)
{
    sspy_state *state = PyModule_GetState(module);

    if (state->interp && state->interp->module_state == state) {
        state->interp->module_state = NULL;
        state->interp->ties_type = NULL;
    }
#define CLEAR(reference) Py_CLEAR(state->reference);
    SSPY_EACH_REFERENCE(CLEAR)
    sspy_lupa_end(state);
    return 0;
}

static void module_free(void *module)
{
    sspy_state *state = PyModule_GetState(module);

    (void)module_clear(module);
    for (size_t i = 0; i < SSPY_RECORDS; i++) {
        free(state->records[i]);
        state->records[i] = NULL;
    }
    sspy_interp_unref(state->interp);
    state->interp = NULL;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, module_exec},
#ifdef Py_MOD_PER_INTERPRETER_GIL_SUPPORTED
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_MOD_GIL_USED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,         .m_name = "_stacksplice", .m_doc = "The C part of stacksplice.",
    .m_size = sizeof(sspy_state),  .m_methods = functions,   .m_slots = slots,
    .m_traverse = module_traverse, .m_clear = module_clear,  .m_free = module_free,
};

PyMODINIT_FUNC PyInit__stacksplice(void);
PyMODINIT_FUNC PyInit__stacksplice(void)
{
    return PyModuleDef_Init(&definition);
}
