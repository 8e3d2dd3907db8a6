/* Reading an error through its ErrorHandle, and writing its reports. */
#include "api/api.h"
#include "api/visit.h"

/* The parts are those of stacksplice_read_options.  The notes and callers of an error are those that
   its exception has now. */
static PyObject *handle_read(sspy_error_object *self, PyObject *parts)
{
    stacksplice_read_options options = {.size = sizeof options, .without_source = 1};
    sspy_state *state = sspy_state_current();
    sspy_builder builder = sspy_new_builder(state);
    IScriptErrorInfo *error;
    PyObject *result = NULL;

    options.parts = (uint32_t)PyLong_AsUnsignedLong(parts);
    if (!state || PyErr_Occurred())
        return NULL;
    error = sspy_error_hold(self);
    if (!(options.parts & (STACKSPLICE_READ_NOTES | STACKSPLICE_READ_STACK)) ||
        !sspy_error_update(self, error))
        result = sspy_end_builder(
            &builder, stacksplice_error_visit((IUnknown *)error, &options, &builder.visitor));
    sspy_error_let_go(self);
    return result;
}

/* The language of the error's exception: reports also name the language of a script that called
   C. */
static PyObject *handle_language(sspy_error_object *self, PyObject *unused)
{
    IScriptErrorInfo *error = sspy_error_hold(self);
    const char *language = "native";
    PyObject *text;

    (void)unused;
    (void)stacksplice_error_language((IUnknown *)error, &language);
    text = PyUnicode_FromString(language);
    sspy_error_let_go(self);
    return text;
}

/* Why reports show no line of a file, or None. */
static PyObject *handle_source_reason(sspy_error_object *self, PyObject *file)
{
    const char *reason = NULL;
    PyObject *name = NULL, *result;

    if (!PyUnicode_FSConverter(file, &name))
        return NULL;
    (void)stacksplice_error_source_reason((IUnknown *)sspy_error_hold(self),
                                          PyBytes_AS_STRING(name), &reason);
    sspy_error_let_go(self);
    result = reason ? PyUnicode_FromString(reason) : Py_NewRef(Py_None);
    Py_DECREF(name);
    return result;
}

static PyObject *handle_format(sspy_error_object *self, PyObject *arguments)
{
    stacksplice_format_options options = {.size = sizeof options};
    int kind, order, all_frames, color, alone = 0;
    sspy_text_buffer buffer = {NULL, 0, 0};
    sspy_look look = {Py_None, NULL};
    IScriptErrorInfo *error;
    HRESULT hr = E_FAIL;

    if (!PyArg_ParseTuple(arguments, "iipp|pO:format", &kind, &order, &all_frames, &color, &alone,
                          &look.callable))
        return NULL;
    options.order = (stacksplice_order)order;
    options.all_frames = all_frames;
    options.color = color;
    options.alone = alone;
    sspy_look_take(&look, &options);
    error = sspy_error_hold(self);
    if (!sspy_error_update(self, error))
        hr = stacksplice_format((IUnknown *)error, (stacksplice_format_kind)kind, &options,
                                sspy_text_append, &buffer);
    sspy_error_let_go(self);
    return sspy_look_finish(&look, &buffer, hr);
}

#define METHOD(name, flags, doc)                                      \
    {                                                                 \
#name, (PyCFunction)(void (*)(void))handle_##name, flags, doc \
    }

PyMethodDef sspy_error_methods[] = {
    METHOD(read, METH_O,
           "read($self, parts, /)\n--\n\nA dict of what those parts of a report have."),
    METHOD(language, METH_NOARGS, "language($self, /)\n--\n\nOf its exception, or \"native\"."),
    METHOD(source_reason, METH_O,
           "source_reason($self, file, /)\n--\n\nWhy reports show no line of it, or None."),
    METHOD(format, METH_VARARGS,
           "format($self, kind, order, all_frames, color, alone=False, look=None, /)\n--\n\nA "
           "report."),
    {NULL, NULL, 0, NULL},
};
