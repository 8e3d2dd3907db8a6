/*
 * The texts of errors that are no error objects: saved errors, single frames, and live exceptions.
 * Live exceptions belong to one another whether they have crossed a border or not.
 *
 * live.py makes a tuple of a live exception: (key, handle or None, text, report or None, text that
 * follows, relation to its cause, cause or None, members or None, members left out).  With a handle
 * the text is the type to show in place of the error's own, or empty.
 */
#include "api/report_read.h"
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

/* ---- Live exceptions --------------------------------------------------------------------------*/

static int read_live(sspy_reader *r, PyObject *tuple, stacksplice_told *out);

/* Read what describes the exception: an error object, a report, or a text of its own. */
static int read_teller(sspy_reader *r, PyObject *handle, PyObject *report, PyObject *text,
                       stacksplice_told *out)
{
    if (handle != Py_None) {
        stacksplice_told_text type = {NULL, 0};

        if (PyList_Append(r->kept, handle) || sspy_lend_text(r, text, &type))
            return -1;
        out->type = type.length ? type.text : NULL;
        out->error = (IUnknown *)sspy_error_hold((sspy_error_object *)handle);
        return sspy_error_update((sspy_error_object *)handle, (IScriptErrorInfo *)out->error);
    }
    if (report != Py_None) {
        PyDict_Clear(r->references); /* their numbers are those of another process */
        return sspy_read_error(r, report, out);
    }
    return sspy_lend_text(r, text, &out->text);
}

static int read_live_members(sspy_reader *r, PyObject *members, stacksplice_told *out)
{
    Py_ssize_t count = PyTuple_GET_SIZE(members);
    const stacksplice_told **all = sspy_take(r, count, sizeof *all);

    if (!all)
        return -1;
    out->is_group = 1;
    out->members = all;
    for (Py_ssize_t i = 0; i < count; i++) {
        stacksplice_told *member = sspy_new_told(r);

        if (!member || read_live(r, PyTuple_GET_ITEM(members, i), member))
            return -1;
        all[i] = member;
    }
    out->member_count = (uint32_t)count;
    return 0;
}

static int read_live(sspy_reader *r, PyObject *tuple, stacksplice_told *out)
{
    PyObject *handle, *text, *report, *passed, *cause, *members;
    unsigned long long key;
    unsigned left_out;
    int relation, failed;

    if (!PyArg_ParseTuple(tuple, "KOOOUiOOI", &key, &handle, &text, &report, &passed, &relation,
                          &cause, &members, &left_out) ||
        Py_EnterRecursiveCall(" in a report"))
        return -1;
    out->identity = (const void *)(uintptr_t)key;
    failed = read_teller(r, handle, report, text, out) || sspy_lend_text(r, passed, &out->passed);
    if (!failed && members != Py_None) {
        out->members_left_out = left_out;
        failed = read_live_members(r, members, out);
    }
    if (!failed && cause != Py_None) {
        stacksplice_told *next = sspy_new_told(r);

        out->cause = next;
        out->relation = (stacksplice_relation)relation;
        failed = !next || read_live(r, cause, next);
    }
    Py_LeaveRecursiveCall();
    return failed ? -1 : 0;
}

static void let_go_of_handles(const sspy_reader *r)
{
    for (Py_ssize_t i = 0; r->kept && i < PyList_GET_SIZE(r->kept); i++) {
        if (Py_IS_TYPE(PyList_GET_ITEM(r->kept, i), r->state->error_type))
            sspy_error_let_go((sspy_error_object *)PyList_GET_ITEM(r->kept, i));
    }
}

PyObject *sspy_format_told(PyObject *module, PyObject *arguments)
{
    stacksplice_format_options options = {.size = sizeof options};
    sspy_text_buffer buffer = {NULL, 0, 0};
    sspy_look look = {Py_None, NULL};
    PyObject *error, *result = NULL;
    sspy_reader reader;
    stacksplice_told *told;
    int newest_last;

    if (!PyArg_ParseTuple(arguments, "Opppp|O:_format_told", &error, &newest_last,
                          &options.all_frames, &options.color, &options.alone, &look.callable))
        return NULL;
    sspy_look_take(&look, &options);
    options.order = newest_last ? STACKSPLICE_ORDER_NEWEST_LAST : STACKSPLICE_ORDER_NEWEST_FIRST;
    if (!sspy_reader_begin(&reader, PyModule_GetState(module)) &&
        (told = sspy_new_told(&reader)) != NULL &&
        !(PyTuple_Check(error) ? read_live(&reader, error, told)
                               : sspy_read_error(&reader, error, told)))
        result = sspy_look_finish(
            &look, &buffer, stacksplice_format_told(told, &options, sspy_text_append, &buffer));
    let_go_of_handles(&reader);
    sspy_reader_end(&reader);
    return result;
}

PyObject *sspy_format_told_for_sentry(PyObject *module, PyObject *error)
{
    sspy_text_buffer buffer = {NULL, 0, 0};
    PyObject *result = NULL;
    sspy_reader reader;
    stacksplice_told *told;

    if (!sspy_reader_begin(&reader, PyModule_GetState(module)) &&
        (told = sspy_new_told(&reader)) != NULL && !sspy_read_error(&reader, error, told))
        result = sspy_text_finish(
            &buffer, stacksplice_format_told_for_sentry(told, NULL, sspy_text_append, &buffer));
    sspy_reader_end(&reader);
    return result;
}

PyObject *sspy_check_told(PyObject *module, PyObject *error)
{
    sspy_reader reader;
    stacksplice_told *told;
    bool whole;

    whole = !sspy_reader_begin(&reader, PyModule_GetState(module)) &&
            (told = sspy_new_told(&reader)) != NULL && !sspy_read_error(&reader, error, told);
    sspy_reader_end(&reader);
    return whole ? Py_NewRef(Py_None) : NULL;
}

PyObject *sspy_format_frame(PyObject *module, PyObject *frame)
{
    sspy_text_buffer buffer = {NULL, 0, 0};
    stacksplice_told_frame told = {.glue = 0};
    PyObject *result = NULL;
    sspy_reader reader;

    if (!sspy_reader_begin(&reader, PyModule_GetState(module)) &&
        !sspy_read_frame(&reader, frame, &told))
        result = sspy_text_finish(&buffer,
                                  stacksplice_format_frame(&told.frame, sspy_text_append, &buffer));
    sspy_reader_end(&reader);
    return result;
}
