/*
 * ErrorHandle: an error object in Python's hands.
 *
 * Of an error born in this interpreter it holds the inside of the error and, where the garbage
 * collector sees it, the exception.  Any other error it holds by a plain reference.  The public
 * class ErrorInfo, in Python, is built on it.
 */
#include "life/binding.h"

#include <stdlib.h>
#include <string.h>

typedef struct error_handle {
    PyObject_HEAD IScriptErrorInfo *error; /* (RO) inside if it was born here, else outside */
    bool inside;                           /* (RO) */
    PyObject *exception;                   /* (GIL) or NULL */
    sspy_interp *interp;                   /* (RO) counted */
} error_handle;

/* An outside reference on the error for the length of a call.  While it is held nothing else that
   is released in between can be the last reference, so only letting go needs a section. */
static IScriptErrorInfo *hold(error_handle *self)
{
    sspy_anchor *anchor = self->exception ? sspy_anchor_of(self->interp, self->exception) : NULL;

    /* With the exception in hand it is found by those who ask the error for it. */
    if (!anchor || anchor->error != self->error || !sspy_anchor_hold(anchor, self->exception))
        self->error->lpVtbl->AddRef(self->error);
    return self->error;
}

static void let_go(error_handle *self)
{
    sspy_section section = sspy_enter(self->interp);

    self->error->lpVtbl->Release(self->error);
    sspy_leave(section);
}

PyObject *sspy_text_from_wide(const WCHAR *text, uint32_t units)
{
    int order = PY_BIG_ENDIAN ? 1 : -1;

    return PyUnicode_DecodeUTF16((const char *)text, (Py_ssize_t)units * 2, "surrogatepass",
                                 &order);
}

static PyObject *text_from_bstr(BSTR text)
{
    PyObject *result = text ? sspy_text_from_wide(text, SysStringLen(text)) : Py_NewRef(Py_None);

    SysFreeString(text);
    return result;
}

/* ---- Making one -------------------------------------------------------------------------------*/

static PyObject *handle_new(sspy_state *state, IScriptErrorInfo *error, PyObject *exc)
{
    error_handle *self = (error_handle *)state->error_type->tp_alloc(state->error_type, 0);
    sspy_section section;

    if (!self)
        return NULL;
    section = sspy_enter(state->interp);
    self->inside = exc != NULL;
    if (self->inside)
        error->lpVtbl->AddInside(error);
    else
        error->lpVtbl->AddRef(error);
    self->error = error;
    self->exception = Py_XNewRef(exc);
    self->interp = state->interp;
    sspy_interp_ref(state->interp);
    sspy_leave(section);
    return (PyObject *)self;
}

PyObject *sspy_error_wrap(sspy_state *state, IScriptErrorInfo *error, PyObject *exc)
{
    PyObject *handle = handle_new(state, error, exc);

    if (handle && state->wrap_error)
        Py_SETREF(handle, PyObject_CallOneArg(state->wrap_error, handle));
    return handle;
}

PyObject *sspy_error_wrap_unknown(sspy_state *state, IUnknown *error)
{
    IScriptErrorInfo *script = sspy_query(error, &stacksplice_IID_IScriptErrorInfo);
    PyObject *exc = script ? sspy_own_object(state, error) : NULL;
    PyObject *result = script ? sspy_error_wrap(state, script, exc) : Py_NewRef(Py_None);
    sspy_section section = sspy_enter(state->interp);

    sspy_unknown_release(script);
    sspy_leave(section);
    Py_XDECREF(exc);
    return result;
}

static int handle_traverse(error_handle *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->exception);
    return 0;
}

static int handle_clear(error_handle *self)
{
    Py_CLEAR(self->exception);
    return 0;
}

static void handle_dealloc(error_handle *self)
{
    PyTypeObject *type = Py_TYPE(self);
    sspy_section section;

    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->exception);
    if (self->error) {
        section = sspy_enter(self->interp);
        if (self->inside)
            self->error->lpVtbl->ReleaseInside(self->error);
        else
            self->error->lpVtbl->Release(self->error);
        sspy_leave(section);
        sspy_interp_unref(self->interp);
    }
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- Reading ----------------------------------------------------------------------------------*/

static PyObject *handle_details(error_handle *self, PyObject *unused)
{
    IScriptErrorInfo *error = hold(self);
    IRestrictedErrorInfo *restricted = sspy_query(error, &IID_IRestrictedErrorInfo);
    BSTR description = NULL, message = NULL, sid = NULL, reference = NULL;
    PyObject *texts[3];
    HRESULT hr = 0;

    (void)unused;
    (void)restricted->lpVtbl->GetErrorDetails(restricted, &description, &hr, &message, &sid);
    (void)restricted->lpVtbl->GetReference(restricted, &reference);
    SysFreeString(sid);
    sspy_unknown_release(restricted);
    let_go(self);
    texts[0] = text_from_bstr(description);
    texts[1] = text_from_bstr(message);
    texts[2] = text_from_bstr(reference);
    return Py_BuildValue("(iNNN)", (int)hr, texts[0], texts[1], texts[2]);
}

PyObject *sspy_tuple_of(const uintptr_t *frames, uint32_t count)
{
    PyObject *tuple = PyTuple_New(count);

    for (uint32_t i = 0; tuple && i < count; i++) {
        PyObject *frame = PyLong_FromUnsignedLongLong(frames[i]);

        if (!frame)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, frame);
    }
    return tuple;
}

/* The captured stack of an error or node.  In a section: no Python code. */
static uintptr_t *frames_of(IUnknown *error, uint32_t *count)
{
    uintptr_t *frames;

    *count = 0;
    (void)stacksplice_error_stack(error, 0, NULL, count);
    frames = malloc((*count + 1) * sizeof *frames);
    if (frames)
        (void)stacksplice_error_stack(error, *count, frames, count);
    return frames;
}

static PyObject *stack_of(IUnknown *error)
{
    uint32_t count;
    uintptr_t *frames = frames_of(error, &count);
    PyObject *tuple = frames ? sspy_tuple_of(frames, count) : PyErr_NoMemory();

    free(frames);
    return tuple;
}

static PyObject *handle_stack(error_handle *self, PyObject *unused)
{
    IScriptErrorInfo *error = hold(self);
    PyObject *tuple = stack_of((IUnknown *)error);

    (void)unused;
    let_go(self);
    return tuple;
}

static PyObject *thread_of(IUnknown *error)
{
    uint64_t id = 0;

    (void)stacksplice_error_thread(error, &id);
    return PyLong_FromUnsignedLongLong(id);
}

static PyObject *handle_thread_id(error_handle *self, PyObject *unused)
{
    IScriptErrorInfo *error = hold(self);
    PyObject *id = thread_of((IUnknown *)error);

    (void)unused;
    let_go(self);
    return id;
}

/* (language, thread id, stack) of a propagation node. */
static PyObject *node_of(IUnknown *node)
{
    const char *language = "";
    PyObject *text;

    (void)stacksplice_node_language(node, &language);
    text = PyUnicode_DecodeUTF8(language, (Py_ssize_t)strlen(language), "replace");
    return Py_BuildValue("(NNN)", text, thread_of(node), stack_of(node));
}

/* Of each propagation node, oldest first. */
static PyObject *handle_propagation(error_handle *self, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    IScriptErrorInfo *error = hold(self);
    ILanguageExceptionErrorInfo2 *info = sspy_query(error, &IID_ILanguageExceptionErrorInfo2);
    ILanguageExceptionErrorInfo2 *node = NULL, *older;

    (void)unused;
    if (info)
        (void)info->lpVtbl->GetPropagationContextHead(info, &node);
    while (node) {
        PyObject *item = list ? node_of((IUnknown *)node) : NULL;

        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
        older = NULL;
        (void)node->lpVtbl->GetPreviousLanguageExceptionErrorInfo(node, &older);
        sspy_unknown_release(node);
        node = older;
    }
    sspy_unknown_release(info);
    let_go(self);
    if (list && PyList_Reverse(list))
        Py_CLEAR(list);
    return list;
}

/* (relation, what it was made from, wrapped), or (0, None). */
static PyObject *handle_transformed(error_handle *self, PyObject *unused)
{
    stacksplice_relation relation = STACKSPLICE_RELATION_NONE;
    sspy_state *state = sspy_state_current();
    IRestrictedErrorInfo *cause = NULL;
    PyObject *result;

    (void)unused;
    if (!state)
        return NULL;
    (void)stacksplice_error_cause((IUnknown *)hold(self), &cause, &relation);
    result = sspy_error_wrap_unknown(state, (IUnknown *)cause);
    if (result)
        result = Py_BuildValue("(iN)", (int)relation, result);
    sspy_unknown_release(cause);
    let_go(self);
    return result;
}

/* The members, wrapped, and how many more there were; None if it is no group. */
static PyObject *handle_exceptions(error_handle *self, PyObject *unused)
{
    sspy_state *state = sspy_state_current();
    uint32_t members = 0, left_out = 0;
    PyObject *list = NULL;
    IUnknown *error;

    (void)unused;
    if (!state)
        return NULL;
    error = (IUnknown *)hold(self);
    if (stacksplice_error_group(error, &members, &left_out) == S_OK)
        list = PyList_New(0);
    for (uint32_t i = 0; list && i < members; i++) {
        IRestrictedErrorInfo *member = NULL;
        PyObject *item;

        (void)stacksplice_error_member(error, i, &member);
        item = sspy_error_wrap_unknown(state, (IUnknown *)member);
        sspy_unknown_release(member);
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    let_go(self);
    if (list)
        return Py_BuildValue("(NI)", list, left_out);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static int append_note(const char *text, size_t length, void *data)
{
    PyObject *note = sspy_text_from_utf8(text, length);
    int failed = note ? PyList_Append(data, note) : -1;

    Py_XDECREF(note);
    return failed;
}

/* With those that the exception got since; -1 with an exception. */
static int update_notes(error_handle *self, IScriptErrorInfo *error)
{
    sspy_state *state = self->exception ? sspy_state_current() : NULL;

    if (!self->exception)
        return 0;
    return state ? sspy_notes_update(state, self->exception, error) : -1;
}

static PyObject *handle_notes(error_handle *self, PyObject *unused)
{
    IScriptErrorInfo *error = hold(self);
    PyObject *list = update_notes(self, error) ? NULL : PyList_New(0);

    (void)unused;
    if (list && stacksplice_error_notes((IUnknown *)error, append_note, list) != S_OK)
        Py_CLEAR(list);
    let_go(self);
    return list;
}

PyObject *sspy_text_from_utf8(const char *bytes, size_t length)
{
    PyObject *text = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)length, "surrogatepass");

    if (!text && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        PyErr_Clear(); /* not even that: bytes of another language */
        text = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)length, "replace");
    }
    return text;
}

PyObject *sspy_script_message(IScriptException *script)
{
    size_t length = 0;
    const char *message = script->lpVtbl->GetMessage(script, &length);

    return message ? sspy_text_from_utf8(message, length) : PyUnicode_FromString("");
}

/* (language, type name, whole message) of the origin, or None when no script raised it. */
static PyObject *handle_origin(error_handle *self, PyObject *unused)
{
    IScriptErrorInfo *error = hold(self);
    ILanguageExceptionErrorInfo *info = sspy_query(error, &IID_ILanguageExceptionErrorInfo);
    IUnknown *unknown = NULL;
    IScriptException *script;
    PyObject *result = NULL;

    (void)unused;
    if (info)
        (void)info->lpVtbl->GetLanguageException(info, &unknown);
    script = sspy_query(unknown, &stacksplice_IID_IScriptException);
    if (script)
        result = Py_BuildValue("(zzN)", script->lpVtbl->GetLanguage(script),
                               script->lpVtbl->GetTypeName(script), sspy_script_message(script));
    sspy_unknown_release(script);
    sspy_unknown_release(unknown);
    sspy_unknown_release(info);
    let_go(self);
    return result || PyErr_Occurred() ? result : Py_NewRef(Py_None);
}

/* ---- Reports ----------------------------------------------------------------------------------*/

int sspy_text_append(const char *text, size_t length, void *data)
{
    sspy_text_buffer *b = data;

    if (b->length + length > b->capacity) {
        size_t capacity = 2 * (b->length + length) + 1024;
        char *grown = realloc(b->text, capacity);

        if (!grown)
            return 1;
        b->text = grown;
        b->capacity = capacity;
    }
    memcpy(b->text + b->length, text, length);
    b->length += length;
    return 0;
}

PyObject *sspy_text_finish(sspy_text_buffer *buffer, HRESULT hr)
{
    PyObject *result = NULL;

    if (hr == S_OK)
        result = PyUnicode_DecodeUTF8(buffer->text ? buffer->text : "", (Py_ssize_t)buffer->length,
                                      "replace");
    else if (hr == E_INVALIDARG)
        PyErr_SetString(PyExc_ValueError, "kind or order is invalid");
    else if (!PyErr_Occurred())
        PyErr_NoMemory();
    free(buffer->text);
    return result;
}

IUnknown *sspy_handle_hold(PyObject *handle)
{
    return (IUnknown *)hold((error_handle *)handle);
}

void sspy_handle_let_go(PyObject *handle)
{
    let_go((error_handle *)handle);
}

int sspy_handle_update_notes(PyObject *handle, IUnknown *error)
{
    return update_notes((error_handle *)handle, (IScriptErrorInfo *)error);
}

static PyObject *handle_format(error_handle *self, PyObject *arguments)
{
    stacksplice_format_options options = {.size = sizeof options};
    int kind, order, all_frames, color, alone = 0;
    sspy_text_buffer buffer = {NULL, 0, 0};
    IScriptErrorInfo *error;
    HRESULT hr = E_FAIL;

    if (!PyArg_ParseTuple(arguments, "iipp|p:format", &kind, &order, &all_frames, &color, &alone))
        return NULL;
    options.order = (stacksplice_order)order;
    options.all_frames = all_frames;
    options.color = color;
    options.alone = alone;
    error = hold(self);
    if (!update_notes(self, error))
        hr = stacksplice_format((IUnknown *)error, (stacksplice_format_kind)kind, &options,
                                sspy_text_append, &buffer);
    let_go(self);
    return sspy_text_finish(&buffer, hr);
}

static PyObject *handle_fingerprint(error_handle *self, PyObject *unused)
{
    char out[33] = "";
    IScriptErrorInfo *error = hold(self);
    HRESULT hr = stacksplice_fingerprint((IUnknown *)error, out);

    (void)unused;
    let_go(self);
    return SUCCEEDED(hr) ? PyUnicode_FromString(out) : PyErr_NoMemory();
}

static PyObject *handle_exception(error_handle *self, void *unused)
{
    (void)unused;
    return Py_NewRef(self->exception ? self->exception : Py_None);
}

static PyObject *handle_key(error_handle *self, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(self->error);
}

static PyObject *handle_remote(error_handle *self, void *unused)
{
    PyObject *report = self->exception ? sspy_remote_report(self->interp, self->exception) : NULL;

    (void)unused;
    return Py_NewRef(report ? report : Py_None);
}

#define METHOD(name, flags, doc)                                      \
    {                                                                 \
#name, (PyCFunction)(void (*)(void))handle_##name, flags, doc \
    }

static PyMethodDef handle_methods[] = {
    METHOD(details, METH_NOARGS,
           "details($self, /)\n--\n\n(hresult, description, message, reference)."),
    METHOD(stack, METH_NOARGS, "stack($self, /)\n--\n\nThe captured stack, a tuple of addresses."),
    METHOD(thread_id, METH_NOARGS, "thread_id($self, /)\n--\n\nThe system's id of the thread."),
    METHOD(propagation, METH_NOARGS,
           "propagation($self, /)\n--\n\n(language, thread id, stack) of each node, oldest first."),
    METHOD(transformed, METH_NOARGS,
           "transformed($self, /)\n--\n\n(relation, what it was made from), or (0, None)."),
    METHOD(exceptions, METH_NOARGS,
           "exceptions($self, /)\n--\n\n(members, how many were left out); None: no group."),
    METHOD(notes, METH_NOARGS, "notes($self, /)\n--\n\nThe notes, the oldest first."),
    METHOD(origin, METH_NOARGS, "origin($self, /)\n--\n\n(language, type, message), or None."),
    METHOD(format, METH_VARARGS,
           "format($self, kind, order, all_frames, color, alone=False, /)\n--\n\nA report."),
    METHOD(fingerprint, METH_NOARGS, "fingerprint($self, /)\n--\n\nThe grouping value."),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef handle_getset[] = {
    {"exception", (getter)handle_exception, NULL, "The exception, if it was born here.", NULL},
    {"remote", (getter)handle_remote, NULL,
     "The report that the exception brought from another process, or None.", NULL},
    {"key", (getter)handle_key, NULL, "Equal for handles of one error object.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot handle_slots[] = {
    {Py_tp_dealloc, handle_dealloc},
    {Py_tp_traverse, handle_traverse},
    {Py_tp_clear, handle_clear},
    {Py_tp_methods, handle_methods},
    {Py_tp_getset, handle_getset},
    {Py_tp_doc, "An error object.  ErrorInfo is what programs use."},
    {0, NULL},
};

PyType_Spec sspy_error_spec = {
    .name = "stacksplice._stacksplice.ErrorHandle",
    .basicsize = sizeof(error_handle),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = handle_slots,
};
