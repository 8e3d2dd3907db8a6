#include "api/report_look.h"

#include <stacksplice/read.h>

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
