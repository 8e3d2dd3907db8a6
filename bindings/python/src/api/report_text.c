/* The texts of errors that Python describes by JSON: saved ones, and exceptions that are alive. */
#include "api/api.h"

#include <stacksplice/read.h>

/* ---- Callables that write Python's frames ----------------------------------------------------*/

/* What a report cannot do without is that it is written: after an Exception it goes on. */
static int forgive(void)
{
    if (PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    return 1;
}

static int write_frame(const stacksplice_told_frame *shown, stacksplice_told_text *out, void *data)
{
    const stacksplice_frame *frame = &shown->frame;
    sspy_look *look = data;
    Py_ssize_t length;
    PyObject *text;

    if (PyErr_Occurred())
        return 1;
    text = PyObject_CallFunction(look->callable, "zzIIIIz#I", frame->file, frame->function,
                                 frame->line, frame->end_line, frame->column, frame->end_column,
                                 shown->source.text, (Py_ssize_t)shown->source.length,
                                 shown->source_column);
    if (!text)
        return forgive();
    Py_XSETREF(look->text, text);
    out->text = PyUnicode_AsUTF8AndSize(text, &length);
    if (!out->text)
        return forgive();
    out->length = (size_t)length;
    return 0;
}

void sspy_look_take(sspy_look *look, stacksplice_format_options *options)
{
    if (look->callable == Py_None)
        return;
    options->look = write_frame;
    options->look_data = look;
}

PyObject *sspy_look_finish(sspy_look *look, sspy_text_buffer *buffer, HRESULT hr)
{
    Py_CLEAR(look->text);
    return sspy_text_finish(buffer, PyErr_Occurred() ? E_FAIL : hr);
}

/* ---- Errors that were read back ---------------------------------------------------------------*/

/* The error that the str JSON describes, to be freed; NULL with an exception. */
static const stacksplice_told *read_told(PyObject *json)
{
    stacksplice_told_problem problem = {0, ""};
    const stacksplice_told *told = NULL;
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(json, &length);
    HRESULT hr;

    if (!text)
        return NULL;
    hr = stacksplice_told_read(text, (size_t)length, &told, &problem);
    if (hr == E_OUTOFMEMORY)
        PyErr_NoMemory();
    else if (FAILED(hr))
        PyErr_SetString(PyExc_ValueError, problem.text);
    return told;
}

PyObject *sspy_format_told(PyObject *module, PyObject *arguments)
{
    stacksplice_format_options options = {.size = sizeof options};
    sspy_text_buffer buffer = {NULL, 0, 0};
    sspy_look look = {Py_None, NULL};
    const stacksplice_told *told;
    PyObject *json, *result;
    int newest_last;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "Upppp|O:_format_told", &json, &newest_last,
                          &options.all_frames, &options.color, &options.alone, &look.callable))
        return NULL;
    told = read_told(json);
    if (!told)
        return NULL;
    sspy_look_take(&look, &options);
    options.order = newest_last ? STACKSPLICE_ORDER_NEWEST_LAST : STACKSPLICE_ORDER_NEWEST_FIRST;
    result = sspy_look_finish(&look, &buffer,
                              stacksplice_format_told(told, &options, sspy_text_append, &buffer));
    stacksplice_told_free(told);
    return result;
}

PyObject *sspy_format_told_for_sentry(PyObject *module, PyObject *json)
{
    sspy_text_buffer buffer = {NULL, 0, 0};
    const stacksplice_told *told = read_told(json);
    PyObject *result;

    (void)module;
    if (!told)
        return NULL;
    result = sspy_text_finish(
        &buffer, stacksplice_format_told_for_sentry(told, NULL, sspy_text_append, &buffer));
    stacksplice_told_free(told);
    return result;
}

PyObject *sspy_check_told(PyObject *module, PyObject *json)
{
    const stacksplice_told *told = read_told(json);

    (void)module;
    if (!told)
        return NULL;
    stacksplice_told_free(told);
    Py_RETURN_NONE;
}

PyObject *sspy_format_frame(PyObject *module, PyObject *json)
{
    PyObject *error = PyUnicode_FromFormat(
        "{\"hresult_signed\":0,\"message\":\"\",\"propagation\":[],\"stack\":[%S]}", json);
    const stacksplice_told *told = error ? read_told(error) : NULL;
    sspy_text_buffer buffer = {NULL, 0, 0};
    PyObject *result = NULL;

    (void)module;
    Py_XDECREF(error);
    if (!told)
        return NULL;
    if (told->stack.count == 1)
        result = sspy_text_finish(&buffer, stacksplice_format_frame(&told->stack.frames->frame,
                                                                    sspy_text_append, &buffer));
    else
        PyErr_SetString(PyExc_ValueError, "json must be that of one frame");
    stacksplice_told_free(told);
    return result;
}
