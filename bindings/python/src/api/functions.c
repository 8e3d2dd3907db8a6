/* The functions of the extension, besides those for errors. */
#include "api/api.h"
#include "life/text.h"
#include "lupa/lupa.h"

static PyObject *register_classes(PyObject *module, PyObject *arguments)
{
    sspy_state *state = PyModule_GetState(module);
    PyObject *error, *members, *stack, *group;

    if (!PyArg_ParseTuple(arguments, "O!O!OO:_register", &PyType_Type, &error, &PyTuple_Type,
                          &members, &stack, &group))
        return NULL;
    Py_XSETREF(state->error_info, Py_NewRef(error));
    Py_XSETREF(state->error_info_members, Py_NewRef(members));
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

static PyObject *frames_unavailable(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return sspy_text_or_none(sspy_layout_reason());
}

static PyObject *core_version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(stacksplice_version());
}

static PyObject *lines_missing(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return sspy_text_or_none(stacksplice_lines_missing());
}

static PyObject *build(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(stacksplice_build());
}

static PyObject *interpreter_id(PyObject *module, PyObject *unused)
{
    sspy_state *state = PyModule_GetState(module);

    (void)unused;
    return PyLong_FromLongLong(state->interp->id);
}

PyMethodDef sspy_functions[] = {
    {"capture", (PyCFunction)(void (*)(void))sspy_capture_function, METH_VARARGS | METH_KEYWORDS,
     sspy_capture_doc},
    {"set_max_frames", sspy_set_max_frames, METH_O, sspy_set_max_frames_doc},
    {"resolve", sspy_resolve, METH_O, sspy_resolve_doc},
    {"foreign_frames", foreign_frames, METH_VARARGS, foreign_frames_doc},
    {"frames_unavailable", frames_unavailable, METH_NOARGS,
     "frames_unavailable()\n--\n\nWhy Python frames cannot be shown, or None."},
    {"core_version", core_version, METH_NOARGS,
     "core_version()\n--\n\nThe version of the core library that is loaded."},
    {"__getattr__", sspy_twin_named, METH_O, NULL},
    {"_lines_missing", lines_missing, METH_NOARGS, NULL},
    {"_build", build, METH_NOARGS, NULL},
    {"_frames_left_out", sspy_frames_left_out, METH_O, NULL},
    {"_interpreter_id", interpreter_id, METH_NOARGS, NULL},
    {"_register", register_classes, METH_VARARGS, NULL},
    {"_show_locals", sspy_show_locals, METH_O, NULL},
    {"_places", sspy_places, METH_O, NULL},
    {"_format_told", sspy_format_told, METH_VARARGS, NULL},
    {"_format_told_for_sentry", sspy_format_told_for_sentry, METH_O, NULL},
    {"_check_told", sspy_check_told, METH_O, NULL},
    {"_format_frame", sspy_format_frame, METH_O, NULL},
    {"_resolve_file", sspy_resolve_file, METH_VARARGS, NULL},
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
    {"_lupa_existing", sspy_lupa_existing, METH_O, NULL},
    {"_lupa_detach", sspy_lupa_detach, METH_O, NULL},
    {"_lupa_attached", sspy_lupa_is_attached, METH_O, NULL},
    {"_lupa_watch", sspy_lupa_watch, METH_VARARGS, NULL},
    {"_lupa_unwatch", sspy_lupa_unwatch, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
