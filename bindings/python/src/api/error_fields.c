/* What an ErrorHandle tells of its error, and the reports that it writes. */
#include "api/api.h"
#include "life/text.h"

#include <stdlib.h>
#include <string.h>

static PyObject *handle_details(sspy_error_object *self, PyObject *unused)
{
    IScriptErrorInfo *error = sspy_error_hold(self);
    IRestrictedErrorInfo *restricted = sspy_query(error, &IID_IRestrictedErrorInfo);
    BSTR description = NULL, message = NULL, sid = NULL, reference = NULL;
    PyObject *texts[3];
    HRESULT hr = 0;

    (void)unused;
    (void)restricted->lpVtbl->GetErrorDetails(restricted, &description, &hr, &message, &sid);
    (void)restricted->lpVtbl->GetReference(restricted, &reference);
    SysFreeString(sid);
    sspy_unknown_release(restricted);
    sspy_error_let_go(self);
    texts[0] = sspy_text_from_bstr(description);
    texts[1] = sspy_text_from_bstr(message);
    texts[2] = sspy_text_from_bstr(reference);
    return Py_BuildValue("(iNNN)", (int)hr, texts[0], texts[1], texts[2]);
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

static PyObject *handle_stack(sspy_error_object *self, PyObject *unused)
{
    IScriptErrorInfo *error = sspy_error_hold(self);
    PyObject *tuple = stack_of((IUnknown *)error);

    (void)unused;
    sspy_error_let_go(self);
    return tuple;
}

static PyObject *thread_of(IUnknown *error)
{
    uint64_t id = 0;

    (void)stacksplice_error_thread(error, &id);
    return PyLong_FromUnsignedLongLong(id);
}

static PyObject *handle_thread_id(sspy_error_object *self, PyObject *unused)
{
    IScriptErrorInfo *error = sspy_error_hold(self);
    PyObject *id = thread_of((IUnknown *)error);

    (void)unused;
    sspy_error_let_go(self);
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
static PyObject *handle_propagation(sspy_error_object *self, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    IScriptErrorInfo *error = sspy_error_hold(self);
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
    sspy_error_let_go(self);
    if (list && PyList_Reverse(list))
        Py_CLEAR(list);
    return list;
}

/* (relation, what it was made from, wrapped), or (0, None). */
static PyObject *handle_transformed(sspy_error_object *self, PyObject *unused)
{
    stacksplice_relation relation = STACKSPLICE_RELATION_NONE;
    sspy_state *state = sspy_state_current();
    IRestrictedErrorInfo *cause = NULL;
    PyObject *result;

    (void)unused;
    if (!state)
        return NULL;
    (void)stacksplice_error_cause((IUnknown *)sspy_error_hold(self), &cause, &relation);
    result = sspy_error_wrap_unknown(state, (IUnknown *)cause);
    if (result)
        result = Py_BuildValue("(iN)", (int)relation, result);
    sspy_unknown_release(cause);
    sspy_error_let_go(self);
    return result;
}

/* The members, wrapped, and how many more there were; None if it is no group. */
static PyObject *handle_exceptions(sspy_error_object *self, PyObject *unused)
{
    sspy_state *state = sspy_state_current();
    uint32_t members = 0, left_out = 0;
    PyObject *list = NULL;
    IUnknown *error;

    (void)unused;
    if (!state)
        return NULL;
    error = (IUnknown *)sspy_error_hold(self);
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
    sspy_error_let_go(self);
    if (list)
        return Py_BuildValue("(NI)", list, left_out);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *handle_notes(sspy_error_object *self, PyObject *unused)
{
    IScriptErrorInfo *error = sspy_error_hold(self);
    PyObject *list = sspy_error_update_notes(self, error) ? NULL : PyList_New(0);

    (void)unused;
    if (list && stacksplice_error_notes((IUnknown *)error, sspy_append_note, list) != S_OK)
        Py_CLEAR(list);
    sspy_error_let_go(self);
    return list;
}

/* (language, type name, whole message) of the origin, or None when no script raised it. */
static PyObject *handle_origin(sspy_error_object *self, PyObject *unused)
{
    IScriptErrorInfo *error = sspy_error_hold(self);
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
    sspy_error_let_go(self);
    return result || PyErr_Occurred() ? result : Py_NewRef(Py_None);
}

static PyObject *handle_format(sspy_error_object *self, PyObject *arguments)
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
    error = sspy_error_hold(self);
    if (!sspy_error_update_notes(self, error))
        hr = stacksplice_format((IUnknown *)error, (stacksplice_format_kind)kind, &options,
                                sspy_text_append, &buffer);
    sspy_error_let_go(self);
    return sspy_text_finish(&buffer, hr);
}

static PyObject *handle_fingerprint(sspy_error_object *self, PyObject *unused)
{
    char out[33] = "";
    IScriptErrorInfo *error = sspy_error_hold(self);
    HRESULT hr = stacksplice_fingerprint((IUnknown *)error, out);

    (void)unused;
    sspy_error_let_go(self);
    return SUCCEEDED(hr) ? PyUnicode_FromString(out) : PyErr_NoMemory();
}

#define METHOD(name, flags, doc)                                      \
    {                                                                 \
#name, (PyCFunction)(void (*)(void))handle_##name, flags, doc \
    }

PyMethodDef sspy_error_methods[] = {
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
