/*
 * The functions of the extension: arguments in, one call, result out.
 */
#include "life/binding.h"

#include <stdlib.h>
#include <string.h>

/* ---- Arguments --------------------------------------------------------------------------------*/

static bool is_exception(PyObject *exc)
{
    if (PyExceptionInstance_Check(exc))
        return true;
    PyErr_Format(PyExc_TypeError, "exc must be an exception, not %.200s", Py_TYPE(exc)->tp_name);
    return false;
}

/* ---- Resolve ----------------------------------------------------------------------------------*/

static PyObject *text_or_none(const char *text)
{
    return text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace")
                : Py_NewRef(Py_None);
}

static PyObject *number_or_none(uint32_t number)
{
    return number ? PyLong_FromUnsignedLong(number) : Py_NewRef(Py_None);
}

static int add_frame(const stacksplice_frame *frame, void *data)
{
    static const char *const kinds[] = {"native", "script", "gap"};
    static const char *const trusts[] = {"exact", "inferred", "traceback"};
    PyObject *list = data;
    PyObject *item = Py_BuildValue(
        "(ssNNNNNNNNNNONNKOON)", kinds[frame->kind - STACKSPLICE_FRAME_NATIVE],
        frame->language ? frame->language : "native", text_or_none(frame->function),
        text_or_none(frame->file), number_or_none(frame->line), number_or_none(frame->end_line),
        number_or_none(frame->column), number_or_none(frame->end_column),
        text_or_none(frame->module),
        frame->module ? PyLong_FromUnsignedLongLong(frame->module_offset) : Py_NewRef(Py_None),
        text_or_none(frame->build_id), text_or_none(trusts[frame->trust - STACKSPLICE_TRUST_EXACT]),
        frame->inlined ? Py_True : Py_False, text_or_none(frame->reason),
        text_or_none(frame->interpreter), (unsigned long long)frame->address,
        frame->asynchronous ? Py_True : Py_False,
        stacksplice_frame_role(frame) == STACKSPLICE_ROLE_GLUE ? Py_True : Py_False,
        frame->function_offset ? PyLong_FromUnsignedLongLong(frame->function_offset)
                               : Py_NewRef(Py_None));
    int failed = !item || PyList_Append(list, item);

    Py_XDECREF(item);
    return failed;
}

PyDoc_STRVAR(resolve_doc,
             "resolve(address, /)\n--\n\n"
             "The frames an element of a stack stands for, as tuples of the fields of\n"
             "stacksplice.Frame; several where functions were inlined.");
static PyObject *resolve(PyObject *module, PyObject *address)
{
    unsigned long long value;
    PyObject *list;

    (void)module;
    if (!PyLong_Check(address))
        return PyErr_Format(PyExc_TypeError, "address must be int, not %.200s",
                            Py_TYPE(address)->tp_name);
    value = PyLong_AsUnsignedLongLong(address);
    if (value == (unsigned long long)-1 && PyErr_Occurred()) {
        PyErr_SetString(PyExc_OverflowError, "address must fit in 64 bits and not be negative");
        return NULL;
    }
    list = PyList_New(0);
    if (list && FAILED(stacksplice_resolve((uintptr_t)value, add_frame, list)))
        PyErr_NoMemory();
    if (PyErr_Occurred())
        Py_CLEAR(list);
    return list;
}

/* ---- Errors -----------------------------------------------------------------------------------*/

/* What EXC brought from another process, or None. */
static PyObject *remote_info(sspy_state *state, PyObject *exc)
{
    PyObject *report = sspy_remote_report(state->interp, exc), *module, *info;

    if (!report)
        Py_RETURN_NONE;
    Py_INCREF(report);
    module = PyImport_ImportModule("stacksplice._remote");
    info = module ? PyObject_CallMethod(module, "read", "O", report) : NULL;
    Py_XDECREF(module);
    Py_DECREF(report);
    return info;
}

PyDoc_STRVAR(error_info_doc,
             "error_info(exc, /)\n--\n\n"
             "The error object of an exception that crossed a border, else None.  Of one that was\n"
             "unpickled: what it brought from where it was pickled, by value.\n\n"
             "Raises TypeError when exc is not an exception.");
static PyObject *error_info(PyObject *module, PyObject *exc)
{
    sspy_state *state = PyModule_GetState(module);
    sspy_anchor *anchor;
    sspy_section section;
    IScriptErrorInfo *error;
    PyObject *result;

    if (!is_exception(exc))
        return NULL;
    anchor = sspy_anchor_of(state->interp, exc);
    error = anchor ? sspy_anchor_hold(anchor, exc) : NULL;
    if (!error)
        return remote_info(state, exc);
    result = sspy_error_wrap(state, error, anchor->foreign ? NULL : exc);
    section = sspy_enter(state->interp);
    sspy_unknown_release(error);
    sspy_leave(section);
    return result;
}

PyDoc_STRVAR(
    originate_doc,
    "originate(exc, /)\n--\n\n"
    "Put exc into the thread's error slot, for code that is about to return an HRESULT to\n"
    "native code, and return its ErrorInfo.  An exception that has an error object keeps\n"
    "it.  None when origination is switched off by the reporting flags.\n\n"
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
    sspy_anchor *anchor;
    sspy_section section;
    HRESULT hr, failed;

    if (!is_exception(exc))
        return NULL;
    anchor = sspy_anchor_of(state->interp, exc);
    if (!anchor || !anchor->error)
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
    sspy_state *state = PyModule_GetState(module);
    IRestrictedErrorInfo *error = NULL;
    sspy_section section;
    PyObject *result;

    (void)unused;
    (void)stacksplice_peek_error(&error);
    result = sspy_error_wrap_unknown(state, (IUnknown *)error);
    section = sspy_enter(state->interp);
    sspy_unknown_release(error);
    sspy_leave(section);
    return result;
}

PyDoc_STRVAR(take_error_doc, "take_error()\n--\n\n"
                             "Take the thread's error out of its slot: its ErrorInfo, or None.");
static PyObject *take_error(PyObject *module, PyObject *unused)
{
    sspy_state *state = PyModule_GetState(module);
    IRestrictedErrorInfo *error = NULL;
    sspy_section section;
    PyObject *result;

    (void)unused;
    (void)GetRestrictedErrorInfo(&error);
    result = sspy_error_wrap_unknown(state, (IUnknown *)error);
    section = sspy_enter(state->interp);
    sspy_unknown_release(error);
    sspy_leave(section);
    return result;
}

PyDoc_STRVAR(raise_error_doc,
             "raise_error(hresult, /)\n--\n\n"
             "Raise the thread's error: what Python code does that received a failing HRESULT.\n\n"
             "The same exception object if the error was born in this interpreter, else an\n"
             "HResultError.  SystemError when hresult is a success code.");
static PyObject *raise_error(PyObject *module, PyObject *number)
{
    HRESULT hr;

    if (sspy_hresult_from(number, "hresult", &hr))
        return NULL;
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

static PyObject *exception_table(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return sspy_hresult_table();
}

/* ---- The end of the road ----------------------------------------------------------------------*/

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
    sspy_section section;

    if (!is_exception(exc) || sspy_error_for(state, exc, NULL, false, &error))
        return NULL;
    if (!error) {
        PyErr_SetString(PyExc_RuntimeError, "the reporting flags disable error origination");
        return NULL;
    }
    restricted = sspy_query(error, &IID_IRestrictedErrorInfo);
    (void)RoReportUnhandledError(restricted);
    section = sspy_enter(state->interp);
    sspy_unknown_release(restricted);
    sspy_unknown_release(error);
    sspy_leave(section);
    Py_RETURN_NONE;
}

/* ---- For the Python part ----------------------------------------------------------------------*/

static PyObject *register_classes(PyObject *module, PyObject *arguments)
{
    sspy_state *state = PyModule_GetState(module);
    PyObject *error, *stack, *group;

    if (!PyArg_ParseTuple(arguments, "OOO:_register", &error, &stack, &group))
        return NULL;
    Py_XSETREF(state->wrap_error, Py_NewRef(error));
    Py_XSETREF(state->wrap_stack, Py_NewRef(stack));
    Py_XSETREF(state->group_error, Py_NewRef(group));
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    foreign_frames_doc,
    "foreign_frames(on=None, /)\n--\n\n"
    "Whether an exception that arrives from another language shows the frames of Lua and of\n"
    "native code that it passed in its __traceback__, between those of Python.  It does unless\n"
    "this is set to False, for this interpreter; True and None switch on and change nothing.\n"
    "Returns what it was before.\n\n"
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
    return text_or_none(sspy_layout_reason());
}

static PyObject *core_version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(stacksplice_version());
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
    {"resolve", resolve, METH_O, resolve_doc},
    {"error_info", error_info, METH_O, error_info_doc},
    {"originate", originate, METH_O, originate_doc},
    {"propagate", propagate, METH_O, propagate_doc},
    {"peek_error", peek_error, METH_NOARGS, peek_error_doc},
    {"take_error", take_error, METH_NOARGS, take_error_doc},
    {"raise_error", raise_error, METH_O, raise_error_doc},
    {"hresult_of", hresult_of, METH_O, hresult_of_doc},
    {"exception_for", exception_for, METH_VARARGS, exception_for_doc},
    {"exception_table", exception_table, METH_NOARGS,
     "exception_table()\n--\n\n[(class, HRESULT)], [(errno, HRESULT)] as they are tried."},
    {"fail_fast", fail_fast, METH_O, fail_fast_doc},
    {"report_unhandled", report_unhandled, METH_O, report_unhandled_doc},
    {"foreign_frames", foreign_frames, METH_VARARGS, foreign_frames_doc},
    {"frames_unavailable", frames_unavailable, METH_NOARGS,
     "frames_unavailable()\n--\n\nWhy Python frames cannot be shown, or None."},
    {"core_version", core_version, METH_NOARGS,
     "core_version()\n--\n\nThe version of the core library that is loaded."},
    {"_frames_left_out", sspy_frames_left_out, METH_O, NULL},
    {"_save_error", sspy_save_error, METH_NOARGS, NULL},
    {"_restore_error", sspy_restore_error, METH_O, NULL},
    {"_interpreter_id", interpreter_id, METH_NOARGS, NULL},
    {"_register", register_classes, METH_VARARGS, NULL},
    {"_offer_unhandled", sspy_offer_unhandled, METH_O, NULL},
    {"_format_told", sspy_format_told, METH_VARARGS, NULL},
    {"_check_told", sspy_check_told, METH_O, NULL},
    {"_format_frame", sspy_format_frame, METH_O, NULL},
    {"_raised", (PyCFunction)(void (*)(void))sspy_raised, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
