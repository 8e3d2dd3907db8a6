/*
 * Notes (add_note).  The language exception that is made when an exception leaves holds them by
 * value.  Its error object gets those added later.
 */
#include "life/text.h"
#include "value/value.h"

#include <string.h>

/* ---- As a traceback shows them ----------------------------------------------------------------*/

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

/* 1 if VALUE is a collections.abc.Sequence and not a str or bytes; -1 with an exception. */
static int is_sequence(PyObject *value)
{
    PyObject *module, *sequence;
    int answer = -1;

    if (PyList_Check(value) || PyTuple_Check(value))
        return 1;
    if (PyUnicode_Check(value) || PyBytes_Check(value))
        return 0;
    module = PyImport_ImportModule("collections.abc");
    sequence = module ? sspy_attribute(module, "Sequence") : NULL;
    if (sequence)
        answer = PyObject_IsInstance(value, sequence);
    Py_XDECREF(sequence);
    Py_XDECREF(module);
    return answer;
}

static int append_all(PyObject *texts, PyObject *notes)
{
    PyObject *list = PySequence_List(notes);
    Py_ssize_t count = list ? PyList_GET_SIZE(list) : 0;
    Py_ssize_t shown = count <= SSPY_MAX_NOTES ? count : SSPY_MAX_NOTES - 1;
    int failed = list ? 0 : -1;

    for (Py_ssize_t i = 0; i < shown && !failed; i++)
        failed = append_text(texts, safe_text(PyList_GET_ITEM(list, i), "note", false));
    if (shown < count && !failed)
        failed = append_text(texts, PyUnicode_FromFormat("... %zd more notes", count - shown));
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

PyObject *sspy_notes_of(sspy_state *state, PyObject *exc)
{
    PyObject *notes = sspy_optional_attribute(exc, state->notes_key), *texts;
    int sequence, failed;

    if (notes == Py_None)
        Py_CLEAR(notes);
    if (!notes && !PyErr_Occurred())
        return NULL;
    texts = PyList_New(0);
    sequence = texts && notes ? is_sequence(notes) : -1;
    if (!texts)
        failed = -1;
    else if (sequence < 0)
        failed = append_failure(texts);
    else if (sequence)
        failed = append_all(texts, notes);
    else
        failed = append_text(texts, safe_text(notes, "__notes__", true));
    Py_XDECREF(notes);
    if (failed)
        Py_CLEAR(texts);
    return texts;
}

/* ---- Into the error object --------------------------------------------------------------------*/

typedef struct comparison {
    PyObject *texts;
    Py_ssize_t equal; /* so many of the error's notes equal the first of TEXTS */
    bool differs;
} comparison;

static bool is_text(PyObject *bytes, const char *text, size_t length)
{
    return (size_t)PyBytes_GET_SIZE(bytes) == length &&
           memcmp(PyBytes_AS_STRING(bytes), text, length) == 0;
}

static int compare(const char *text, size_t length, void *data)
{
    comparison *c = data;

    if (c->equal == PyList_GET_SIZE(c->texts) ||
        !is_text(PyList_GET_ITEM(c->texts, c->equal), text, length)) {
        c->differs = true;
        return 1;
    }
    c->equal++;
    return 0;
}

static int find(const char *text, size_t length, void *data)
{
    return is_text(data, text, length);
}

/* An error's notes only ever grow.  If the script has changed earlier notes, add those that the
   error does not have at all. */
static HRESULT add_missing(PyObject *texts, IUnknown *error)
{
    comparison c = {texts, 0, false};
    HRESULT hr = stacksplice_error_notes(error, compare, &c);

    if (c.differs && c.equal == PyList_GET_SIZE(texts))
        return S_OK; /* it already has more than these */
    for (Py_ssize_t i = c.equal; i < PyList_GET_SIZE(texts) && SUCCEEDED(hr); i++) {
        PyObject *text = PyList_GET_ITEM(texts, i);

        if (!c.differs || stacksplice_error_notes(error, find, text) == S_OK)
            hr = stacksplice_add_note(error, PyBytes_AS_STRING(text),
                                      (size_t)PyBytes_GET_SIZE(text));
    }
    return hr;
}

int sspy_notes_update(sspy_state *state, PyObject *exc, IScriptErrorInfo *error)
{
    PyObject *texts = sspy_notes_of(state, exc);
    HRESULT hr = S_OK;

    if (texts)
        hr = add_missing(texts, (IUnknown *)error);
    Py_XDECREF(texts);
    if (hr == E_OUTOFMEMORY)
        PyErr_NoMemory();
    return PyErr_Occurred() ? -1 : 0;
}
