/*
 * The language exception of a Python exception: the values that the core's object gets from it.
 */
#include "value/value.h"

#include <stacksplice/redact.h>
#include <string.h>

/* ---- Notes -------------------------------------------------------------------------------------*/

/*
 * Notes (add_note).  The language exception that is made when an exception leaves holds them by
 * value.  Its error object gets those added later.
 */

/* str(VALUE) or repr(VALUE), or a traceback's text for when that fails. */
static PyObject *safe_text(PyObject *value, const char *what, bool as_repr)
{
    PyObject *text = as_repr ? PyObject_Repr(value) : PyObject_Str(value);

    if (text || PyErr_ExceptionMatches(PyExc_MemoryError))
        return text;
    PyErr_Clear();
    return PyUnicode_FromFormat("<%s %s() failed>", what, as_repr ? "repr" : "str");
}

static int append_text(PyObject *texts, PyObject *text)
{
    PyObject *bytes = text ? sspy_utf8_from_text(text) : NULL;

    Py_XDECREF(text);
    return sspy_append_new(texts, bytes);
}

/* LIST, which may be NULL, without WORDS, which may be, too. */
static PyObject *without(PyObject *list, PyObject *words)
{
    for (Py_ssize_t i = list && words ? PyList_GET_SIZE(list) : 0; list && i--;)
        if (PyList_GET_ITEM(list, i) == words && PyList_SetSlice(list, i, i + 1, NULL))
            Py_CLEAR(list);
    return list;
}

int sspy_drop_words(const sspy_ties *ties, PyObject *items, PyObject *notes_key)
{
    PyObject *notes = ties && ties->words ? sspy_dict_get(items, notes_key) : NULL, *rest;
    int failed;

    if (!notes || !PyList_CheckExact(notes)) {
        Py_XDECREF(notes);
        return PyErr_Occurred() ? -1 : 0;
    }
    rest = without(PySequence_List(notes), ties->words);
    Py_DECREF(notes);
    if (!rest)
        return -1;
    failed = PyList_GET_SIZE(rest) ? PyDict_SetItem(items, notes_key, rest)
                                   : PyDict_DelItem(items, notes_key);
    Py_DECREF(rest);
    return failed;
}

/* TEXT, or its beginning. */
static PyObject *cut(PyObject *text)
{
    enum { LONGEST = 1000 }; /* characters */
    PyObject *begin, *result;

    if (!text || PyUnicode_GET_LENGTH(text) <= LONGEST)
        return text;
    begin = PyUnicode_Substring(text, 0, LONGEST);
    result = begin ? PyUnicode_FromFormat("%U...", begin) : NULL;
    Py_XDECREF(begin);
    Py_DECREF(text);
    return result;
}

int sspy_say_words(sspy_ties *ties, PyObject *exc, const char *message, size_t length)
{
    sspy_text_buffer buffer = {NULL, 0, 0};
    HRESULT hr =
        stacksplice_redact(message, length, STACKSPLICE_TEXT_MESSAGE, sspy_text_append, &buffer);
    PyObject *words = cut(sspy_text_finish(&buffer, hr)), *result;

    result = words ? PyObject_CallMethod(exc, "add_note", "O", words) : NULL;
    if (result)
        sspy_ties_exchange(ties, &ties->words, words);
    Py_XDECREF(result);
    Py_XDECREF(words);
    return result ? 0 : -1;
}

/* The items of NOTES, of which a class of its own may give any number: one more than are kept says that
   there were more.  NULL with an exception. */
static PyObject *items_of(PyObject *notes)
{
    PyObject *iterator, *list, *item;

    if (PyList_CheckExact(notes) || PyTuple_CheckExact(notes))
        return PySequence_List(notes);
    iterator = PyObject_GetIter(notes);
    list = iterator ? PyList_New(0) : NULL;
    while (list && PyList_GET_SIZE(list) <= SSPY_MAX_NOTES && (item = PyIter_Next(iterator)))
        if (sspy_append_new(list, item))
            Py_CLEAR(list);
    if (PyErr_Occurred())
        Py_CLEAR(list);
    Py_XDECREF(iterator);
    return list;
}

/* Append the texts of NOTES but of WORDS, which may be NULL. */
static int append_all(PyObject *texts, PyObject *notes, PyObject *words)
{
    bool is_whole = PyList_CheckExact(notes) || PyTuple_CheckExact(notes);
    PyObject *list = without(items_of(notes), words);
    Py_ssize_t count = list ? PyList_GET_SIZE(list) : 0;
    Py_ssize_t shown = count <= SSPY_MAX_NOTES ? count : SSPY_MAX_NOTES - 1;
    int failed = list ? 0 : -1;

    for (Py_ssize_t i = 0; i < shown && !failed; i++)
        failed = append_text(texts, safe_text(PyList_GET_ITEM(list, i), "note", false));
    if (shown < count && !failed)
        failed =
            append_text(texts, is_whole ? PyUnicode_FromFormat("... %zd more notes", count - shown)
                                        : PyUnicode_FromString("... more notes"));
    Py_XDECREF(list);
    return failed;
}

/* Append the text for notes that cannot be read.  Keeps a MemoryError. */
static int append_failure(PyObject *texts)
{
    PyObject *exc, *text;
    int failed;

    if (PyErr_ExceptionMatches(PyExc_MemoryError))
        return -1;
    exc = sspy_take_pending();
    text = safe_text(exc, "__notes__", true);
    failed = append_text(
        texts, text ? PyUnicode_FromFormat("Ignored error getting __notes__: %U", text) : NULL);
    Py_XDECREF(text);
    Py_DECREF(exc);
    return failed;
}

/* EXC's notes, a list of bytes; NULL without an exception when it has none, as nearly all have. */
static PyObject *notes_of(sspy_state *state, PyObject *exc)
{
    const sspy_ties *ties = sspy_ties_of(state->interp, exc);
    PyObject *notes = sspy_optional_attribute(exc, state->notes_key), *texts;
    int failed;

    if (notes == Py_None)
        Py_CLEAR(notes);
    if (!notes && !PyErr_Occurred())
        return NULL;
    texts = PyList_New(0);
    if (!texts)
        failed = -1;
    else if (!notes)
        failed = append_failure(texts);
    else if (PyList_Check(notes) || PyTuple_Check(notes))
        failed = append_all(texts, notes, ties ? ties->words : NULL);
    else
        failed = append_text(texts, safe_text(notes, "__notes__", true));
    Py_XDECREF(notes);
    if (failed)
        Py_CLEAR(texts);
    return texts;
}

/* ---- Into the error object --------------------------------------------------------------------*/

static int append_bytes(const char *text, size_t length, void *list)
{
    return sspy_append_new(list, PyBytes_FromStringAndSize(text, (Py_ssize_t)length));
}

/* Add those of TEXTS, a list of bytes, that ERROR does not have yet: its notes only ever grow. */
static HRESULT add_missing(PyObject *texts, IUnknown *error)
{
    PyObject *has = PyList_New(0);
    bool is_read = has && stacksplice_error_notes(error, append_bytes, has) == S_OK;
    HRESULT hr = is_read ? S_OK : E_OUTOFMEMORY;

    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(texts) && SUCCEEDED(hr); i++) {
        PyObject *text = PyList_GET_ITEM(texts, i);
        Py_ssize_t at = 0, count = PyList_GET_SIZE(has);

        while (at < count && PyObject_RichCompareBool(PyList_GET_ITEM(has, at), text, Py_EQ) != 1)
            at++;
        if (at < count)
            (void)PyList_SetItem(has, at, Py_NewRef(Py_None)); /* each stands for one */
        else
            hr = stacksplice_add_note(error, PyBytes_AS_STRING(text),
                                      (size_t)PyBytes_GET_SIZE(text));
    }
    Py_XDECREF(has);
    return hr;
}

int sspy_notes_update(sspy_state *state, PyObject *exc, IScriptErrorInfo *error)
{
    PyObject *texts = notes_of(state, exc);
    HRESULT hr = S_OK;

    if (texts)
        hr = add_missing(texts, (IUnknown *)error);
    Py_XDECREF(texts);
    if (hr == E_OUTOFMEMORY)
        PyErr_NoMemory();
    return PyErr_Occurred() ? -1 : 0;
}

/* ---- The language exception --------------------------------------------------------------------*/

/* The name of a type and those of its bases in the order of its MRO, without object, for code that
   cannot look at the type itself. */
typedef struct type_names {
    const char **names; /* NEAR, or PyMem */
    const char *near[12];
    uint32_t count;
    PyObject *lenders; /* list: what lends their texts, or NULL */
} type_names;

/* The type's name as a traceback prints it: without its module if that is builtins or __main__. New
   reference; NULL with an exception. */
static PyObject *full_name(PyTypeObject *type)
{
    PyObject *name, *module, *full = NULL;

    name = sspy_attribute((PyObject *)type, "__qualname__");
    module = sspy_attribute((PyObject *)type, "__module__");
    if (name && PyUnicode_Check(name)) {
        if (!module || !PyUnicode_Check(module) ||
            PyUnicode_CompareWithASCIIString(module, "builtins") == 0 ||
            PyUnicode_CompareWithASCIIString(module, "__main__") == 0)
            full = Py_NewRef(name);
        else
            full = PyUnicode_FromFormat("%U.%U", module, name);
    }
    Py_XDECREF(name);
    Py_XDECREF(module);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError)) {
        Py_XDECREF(full);
        return NULL;
    }
    PyErr_Clear();
    return full ? full : PyUnicode_FromString(type->tp_name);
}

/* The name of TYPE, lent by NAMES or the type itself; NULL with an exception. */
static const char *name_of(type_names *names, PyTypeObject *type)
{
    PyObject *name, *text;

    /* The structure of a builtin type has its name. */
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !strchr(type->tp_name, '.'))
        return type->tp_name;
    name = full_name(type);
    text = name ? sspy_utf8_from_text(name) : NULL;
    Py_XDECREF(name);
    if (text && !names->lenders)
        names->lenders = PyList_New(0);
    if (!text || !names->lenders || PyList_Append(names->lenders, text)) {
        Py_XDECREF(text);
        return NULL;
    }
    Py_DECREF(text); /* the list lends it */
    return PyBytes_AS_STRING(text);
}

/* Returns -1 with an exception.  Call the end in any case. */
static int type_names_begin(type_names *names, PyTypeObject *type)
{
    PyObject *mro = type->tp_mro && PyTuple_Check(type->tp_mro) ? Py_NewRef(type->tp_mro)
                                                                : PyTuple_Pack(1, type);
    Py_ssize_t count = mro ? PyTuple_GET_SIZE(mro) : 0;
    int failed = 0;

    /* Asking for names can run code that changes the type's own tuple. */
    names->count = 0;
    names->names = names->near;
    if (count > (Py_ssize_t)SSPY_COUNT_OF(names->near))
        names->names = PyMem_New(const char *, (size_t)count);
    names->lenders = NULL;
    if (!mro || !names->names)
        failed = -1;
    for (Py_ssize_t i = 0; i < count && !failed; i++) {
        PyTypeObject *one = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);

        if (one == &PyBaseObject_Type)
            continue;
        names->names[names->count] = name_of(names, one);
        failed = names->names[names->count++] ? 0 : -1;
    }
    Py_XDECREF(mro);
    if (failed && !PyErr_Occurred())
        PyErr_NoMemory();
    return failed;
}

static void type_names_end(type_names *names)
{
    if (names->names != names->near)
        PyMem_Free(names->names);
    Py_XDECREF(names->lenders);
}

/* ---- Exception -------------------------------------------------------------------------------*/

static PyObject *message_of(PyObject *object)
{
    const char *name = Py_TYPE(object)->tp_name, *dot;
    PyObject *text = PyObject_Str(object);

    if (text || PyErr_ExceptionMatches(PyExc_MemoryError))
        return text;
    PyErr_Clear(); /* an exception whose message fails is still an exception */
    dot = strrchr(name, '.');
    return PyUnicode_FromFormat("<unprintable %s object>", dot ? dot + 1 : name);
}

/* Convert NOTES, a list of bytes, for the core (PyMem); NULL with a MemoryError. */
static stacksplice_document_text *lend_notes(PyObject *notes)
{
    Py_ssize_t count = PyList_GET_SIZE(notes);
    stacksplice_document_text *lent = PyMem_New(stacksplice_document_text, (size_t)count + 1);

    if (!lent)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; lent && i < count; i++) {
        PyObject *note = PyList_GET_ITEM(notes, i);

        lent[i] =
            (stacksplice_document_text){PyBytes_AS_STRING(note), (size_t)PyBytes_GET_SIZE(note)};
    }
    return lent;
}

/* What we ask of the exception; lends its texts to the core's object. */
typedef struct asked {
    type_names types;
    PyObject *message; /* bytes, or a str that is ASCII */
    PyObject *notes;   /* list of bytes, or NULL */
    stacksplice_document_text *lent_notes;
} asked;

/* Returns -1 with an exception.  Call the end in any case. */
static int ask(asked *a, sspy_state *state, PyObject *exc)
{
    if (type_names_begin(&a->types, Py_TYPE(exc)))
        return -1;
    a->message = message_of(exc);
    if (a->message && !PyUnicode_IS_COMPACT_ASCII(a->message))
        Py_SETREF(a->message, sspy_utf8_from_text(a->message));
    if (!a->message)
        return -1;
    a->notes = notes_of(state, exc);
    if (a->notes)
        a->lent_notes = lend_notes(a->notes);
    return PyErr_Occurred() ? -1 : 0;
}

static void end_asking(asked *a)
{
    type_names_end(&a->types);
    PyMem_Free(a->lent_notes);
    Py_XDECREF(a->message);
    Py_XDECREF(a->notes);
}

static void lend_message(PyObject *message, stacksplice_exception_parts *parts)
{
    if (PyUnicode_Check(message)) {
        parts->message = (const char *)PyUnicode_DATA(message);
        parts->message_length = (size_t)PyUnicode_GET_LENGTH(message);
    } else {
        parts->message = PyBytes_AS_STRING(message);
        parts->message_length = (size_t)PyBytes_GET_SIZE(message);
    }
}

stacksplice_exception *sspy_exception_new(sspy_state *state, PyObject *exc, HRESULT hr,
                                          const uintptr_t *frames, uint32_t frame_count,
                                          const sspy_related *related)
{
    stacksplice_exception_parts parts = {.size = sizeof parts,
                                         .hresult = hr,
                                         .frames = frames,
                                         .frame_count = frame_count,
                                         .group = related->is_group,
                                         .members = related->members,
                                         .member_count = related->member_count,
                                         .members_left_out = related->members_left_out};
    stacksplice_exception *x = NULL;
    asked a = {.message = NULL};

    if (!ask(&a, state, exc)) {
        parts.interrupt = !PyObject_TypeCheck(exc, (PyTypeObject *)PyExc_Exception);
        parts.types = a.types.names;
        parts.type_count = a.types.count;
        lend_message(a.message, &parts);
        parts.notes = a.lent_notes;
        parts.note_count = a.notes ? (uint32_t)PyList_GET_SIZE(a.notes) : 0;
        x = stacksplice_exception_new(state->interp->owner, &parts);
        if (!x)
            PyErr_NoMemory();
    }
    end_asking(&a);
    if (x)
        stacksplice_exception_set_cause(x, related->cause, related->relation,
                                        related->causes_left_out);
    return x;
}

IScriptException *sspy_script_of(void *error)
{
    ILanguageExceptionErrorInfo *info = sspy_query(error, &IID_ILanguageExceptionErrorInfo);
    IUnknown *unknown = NULL;
    IScriptException *script;

    if (info)
        (void)info->lpVtbl->GetLanguageException(info, &unknown);
    script = sspy_query(unknown, &stacksplice_IID_IScriptException);
    sspy_unknown_release(unknown);
    sspy_unknown_release(info);
    return script;
}
