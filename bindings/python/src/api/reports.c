/* The texts of errors that Python describes by JSON: saved ones, and exceptions that are alive. */
#include "api/api.h"

#include <stacksplice/read.h>
#include <stacksplice/redact.h>
#include <stdlib.h>
#include <string.h>

/* ---- Callables that write Python's frames ----------------------------------------------------*/

/* What a report cannot do without is that it is written: after an Exception it goes on. */
static int forgive(void)
{
    if (PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    return 1;
}

static int write_frame(const stacksplice_document_frame *shown, stacksplice_document_text *out,
                       void *data)
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
static const stacksplice_document *read_document(PyObject *json)
{
    stacksplice_document_problem problem = {0, ""};
    const stacksplice_document *document = NULL;
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(json, &length);
    HRESULT hr;

    if (!text)
        return NULL;
    hr = stacksplice_document_read(text, (size_t)length, &document, &problem);
    if (hr == E_OUTOFMEMORY)
        PyErr_NoMemory();
    else if (FAILED(hr))
        PyErr_SetString(PyExc_ValueError, problem.text);
    return document;
}

PyObject *sspy_format_document(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    stacksplice_format_options options = {.size = sizeof options};
    sspy_text_buffer buffer = {NULL, 0, 0};
    sspy_look look = {Py_None, NULL};
    const stacksplice_document *document;
    PyObject *json, *result;
    int newest_last;

    if (!PyArg_ParseTuple(arguments, "Upppp|Op:_format_document", &json, &newest_last,
                          &options.all_frames, &options.color, &options.alone, &look.callable,
                          &options.shorten))
        return NULL;
    document = read_document(json);
    if (!document)
        return NULL;
    sspy_look_take(&look, &options);
    options.order = newest_last ? STACKSPLICE_ORDER_NEWEST_LAST : STACKSPLICE_ORDER_NEWEST_FIRST;
    result = sspy_look_finish(
        &look, &buffer, stacksplice_format_document(document, &options, sspy_text_append, &buffer));
    stacksplice_document_free(document);
    return result;
}

typedef stacksplice_hresult (*document_format)(const stacksplice_document *document,
                                               const stacksplice_format_options *options,
                                               stacksplice_write_callback write, void *data);

/* What FORMAT writes of the error that JSON describes. */
static PyObject *written_again(PyObject *json, document_format format)
{
    sspy_text_buffer buffer = {NULL, 0, 0};
    const stacksplice_document *document = read_document(json);
    PyObject *result;

    if (!document)
        return NULL;
    result = sspy_text_finish(&buffer, format(document, NULL, sspy_text_append, &buffer));
    stacksplice_document_free(document);
    return result;
}

PyObject *sspy_format_document_for_sentry(PyObject *Py_UNUSED(module), PyObject *json)
{
    return written_again(json, stacksplice_format_document_for_sentry);
}

PyObject *sspy_format_document_as_brief_json(PyObject *Py_UNUSED(module), PyObject *json)
{
    return written_again(json, stacksplice_format_document_as_brief_json);
}

PyObject *sspy_check_document(PyObject *Py_UNUSED(module), PyObject *json)
{
    const stacksplice_document *document = read_document(json);

    if (!document)
        return NULL;
    stacksplice_document_free(document);
    Py_RETURN_NONE;
}

PyObject *sspy_format_frame(PyObject *Py_UNUSED(module), PyObject *json)
{
    PyObject *error = PyUnicode_FromFormat(
        "{\"hresult_signed\":0,\"message\":\"\",\"propagation\":[],\"stack\":[%S]}", json);
    const stacksplice_document *document = error ? read_document(error) : NULL;
    sspy_text_buffer buffer = {NULL, 0, 0};
    PyObject *result = NULL;

    Py_XDECREF(error);
    if (!document)
        return NULL;
    if (document->stack.count == 1)
        result = sspy_text_finish(&buffer, stacksplice_format_frame(&document->stack.frames->frame,
                                                                    sspy_text_append, &buffer));
    else
        PyErr_SetString(PyExc_ValueError, "json must be that of one frame");
    stacksplice_document_free(document);
    return result;
}

static int add_fold(uint32_t begin, uint32_t end, const char *name, void *data)
{
    PyObject *list = data, *fold = Py_BuildValue("IIs", begin, end, name);
    int failed = !fold || PyList_Append(list, fold);

    Py_XDECREF(fold);
    return failed;
}

PyObject *sspy_folds_of(PyObject *Py_UNUSED(module), PyObject *json)
{
    PyObject *error = PyUnicode_FromFormat(
        "{\"hresult_signed\":0,\"message\":\"\",\"propagation\":[],\"stack\":%S}", json);
    const stacksplice_document *document = error ? read_document(error) : NULL;
    PyObject *list = document ? PyList_New(0) : NULL;

    Py_XDECREF(error);
    if (list)
        (void)stacksplice_document_folds(document, add_fold, list);
    if (PyErr_Occurred())
        Py_CLEAR(list);
    stacksplice_document_free(document);
    return list;
}

/* What users hide, and what libraries are. */

PyObject *sspy_hide(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    const char *name, *file;
    stacksplice_hresult hr;

    if (!PyArg_ParseTuple(arguments, "sz:_hide", &name, &file))
        return NULL;
    hr = stacksplice_hide(name, file);
    if (hr == E_OUTOFMEMORY)
        return PyErr_NoMemory();
    if (FAILED(hr))
        return PyErr_Format(PyExc_ValueError,
                            "what is hidden must have 1 to 1023 bytes, and a library no '/'");
    return PyBool_FromLong(hr == S_OK);
}

PyObject *sspy_is_installed(PyObject *Py_UNUSED(module), PyObject *file)
{
    stacksplice_frame frame = {
        .size = sizeof frame, .kind = STACKSPLICE_FRAME_SCRIPT, .language = "python"};

    frame.file = PyUnicode_AsUTF8(file);
    if (!frame.file)
        PyErr_Clear(); /* a name that is no text of UTF-8 */
    return PyBool_FromLong(stacksplice_frame_installed(&frame));
}

/* ---- Redaction ---------------------------------------------------------------------------------*/

/* What reports leave out, as Python sets it.  The hook is called where its interpreter runs. */

static const char *const kind_names[] = {"message", "source", "path", "local"};

static _Thread_local bool is_in_hook; /* what the hook reports itself has no hook */

/* Whether this thread runs code of INTERP. */
static bool runs_here(const sspy_interp *interp)
{
    PyThreadState *now = sspy_thread_state_here();

    return now && !interp->ends && PyThreadState_GetInterpreter(now) == interp->state;
}

/* The hook's text as bytes, or NULL.  No caller can take its exception; an interrupt comes later.
 */
static PyObject *call(PyObject *hook, const char *text, size_t length, const char *kind)
{
    PyObject *given = sspy_text_from_utf8(text, length);
    PyObject *made = given ? PyObject_CallFunction(hook, "Os", given, kind) : NULL;
    PyObject *bytes = made && PyUnicode_Check(made) ? sspy_utf8_from_text(made) : NULL;

    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        PyErr_SetInterrupt();
    PyErr_Clear();
    Py_XDECREF(given);
    Py_XDECREF(made);
    return bytes;
}

/* A stacksplice_redact_callback; DATA is the interpreter. */
static int call_hook(const char *text, size_t length, stacksplice_text_kind kind,
                     stacksplice_write_callback write, void *write_data, void *data)
{
    const sspy_interp *interp = data;
    PyObject *hook, *bytes, *pending;
    int failed;

    if (is_in_hook || !runs_here(interp) || !interp->module_state ||
        !interp->module_state->redact_hook)
        return 1;
    hook = Py_NewRef(interp->module_state->redact_hook);
    pending = sspy_take_pending();
    is_in_hook = true;
    bytes = call(hook, text, length, kind_names[kind - 1]);
    is_in_hook = false;
    failed = !bytes || write(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes), write_data);
    Py_XDECREF(bytes);
    Py_DECREF(hook);
    sspy_set_pending(pending);
    return failed;
}

static int read_names(PyObject *names, const char *out[STACKSPLICE_REDACT_NAMES_MAX])
{
    if (PyTuple_GET_SIZE(names) > STACKSPLICE_REDACT_NAMES_MAX) {
        PyErr_Format(PyExc_ValueError, "names has more than %d names",
                     STACKSPLICE_REDACT_NAMES_MAX);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        out[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i));
        if (!out[i])
            return -1;
    }
    return 0;
}

PyObject *sspy_set_redaction(PyObject *module, PyObject *arguments)
{
    sspy_state *state = PyModule_GetState(module);
    const char *texts[STACKSPLICE_REDACT_NAMES_MAX];
    stacksplice_redaction redaction = {.size = sizeof redaction, .names = texts};
    PyObject *names, *hook, *before;
    HRESULT hr;

    if (!PyArg_ParseTuple(arguments, "IO!O:_set_redaction", &redaction.rules, &PyTuple_Type, &names,
                          &hook) ||
        read_names(names, texts))
        return NULL;
    redaction.name_count = (uint32_t)PyTuple_GET_SIZE(names);
    if (hook != Py_None) {
        sspy_interp_ref(state->interp); /* which the core may ask for as long as the process runs */
        redaction.hook = call_hook;
        redaction.hook_data = state->interp;
    }
    before = state->redact_hook;
    state->redact_hook = hook != Py_None ? Py_NewRef(hook) : NULL;
    hr = stacksplice_set_redaction(&redaction);
    if (FAILED(hr)) {
        Py_XSETREF(state->redact_hook, before);
        return hr == E_OUTOFMEMORY
                   ? PyErr_NoMemory()
                   : PyErr_Format(PyExc_ValueError,
                                  "a name has up to %d letters and digits, '_' and '-', in ASCII",
                                  STACKSPLICE_REDACT_NAME_MAX);
    }
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

/* TEXT as reports have it; the same object if nothing was removed. */
PyObject *sspy_redact(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    sspy_text_buffer buffer = {NULL, 0, 0};
    PyObject *text, *bytes, *result = NULL;
    int kind;
    HRESULT hr;

    if (!PyArg_ParseTuple(arguments, "Ui:_redact", &text, &kind))
        return NULL;
    bytes = sspy_utf8_from_text(text);
    if (!bytes)
        return NULL;
    hr = stacksplice_redact(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes),
                            (stacksplice_text_kind)kind, sspy_text_append, &buffer);
    if (hr == E_INVALIDARG)
        PyErr_SetString(PyExc_ValueError, "kind is invalid");
    else if (hr != S_OK)
        PyErr_NoMemory();
    else if (buffer.length == (size_t)PyBytes_GET_SIZE(bytes) &&
             (!buffer.length || !memcmp(buffer.text, PyBytes_AS_STRING(bytes), buffer.length)))
        result = Py_NewRef(text);
    else
        result = sspy_text_from_utf8(buffer.text ? buffer.text : "", buffer.length);
    free(buffer.text);
    Py_DECREF(bytes);
    return result;
}

PyObject *sspy_redact_name(PyObject *Py_UNUSED(module), PyObject *name)
{
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;

    PyErr_Clear(); /* a name with surrogates is none of ours */
    return sspy_text_or_none(text ? stacksplice_redact_name(text) : NULL);
}
