/*
 * The text of a value, made without any code of the program: no __repr__, no __str__, no __len__,
 * no property.  Values of exactly the builtin types are written as Python writes them, others as
 * their type in <>.
 *
 * Memory for these texts may start the garbage collector, and that may run finalizers.  So each
 * item is held while it is written, and sizes are read anew.
 */
#include "value/safe_text.h"

#include "life/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stacksplice/redact.h>

enum {
    BRACKETS = 8,        /* bytes to leave for what closes a container */
    SEARCHED = 16 * 1024 /* characters of a long text that are searched for secrets */
};
static const double LARGE = 1e100; /* larger numbers are not written out */

typedef sspy_text_buffer buffer;

/* These functions return nonzero with an exception. */
static int put_value(buffer *to, PyObject *value, int depth, size_t most);

static int put(buffer *to, const char *text)
{
    if (!sspy_text_append(text, strlen(text), to))
        return 0;
    PyErr_NoMemory();
    return -1;
}

static bool is_text(PyObject *value)
{
    return PyUnicode_CheckExact(value) || PyBytes_CheckExact(value);
}

static bool is_container(PyObject *value)
{
    return PyList_CheckExact(value) || PyTuple_CheckExact(value) || PyDict_CheckExact(value) ||
           PySet_CheckExact(value) || PyFrozenSet_CheckExact(value);
}

bool sspy_is_plain(PyObject *value)
{
    return value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) ||
           PyFloat_CheckExact(value) || is_text(value) || is_container(value);
}

/* ---- Numbers and texts ------------------------------------------------------------------------*/

/* Append TEXT, which is released; it may be NULL, with an exception. */
static int put_text(buffer *to, PyObject *text)
{
    Py_ssize_t length;
    const char *utf8 = text ? PyUnicode_AsUTF8AndSize(text, &length) : NULL;
    int failed = !utf8;

    if (utf8 && sspy_text_append(utf8, (size_t)length, to)) {
        PyErr_NoMemory();
        failed = -1;
    }
    Py_XDECREF(text);
    return failed;
}

static int put_int(buffer *to, PyObject *value)
{
    double size = PyLong_AsDouble(value);

    if (PyErr_Occurred()) {
        PyErr_Clear();
        size = INFINITY;
    }
    return fabs(size) < LARGE ? put_text(to, PyObject_Repr(value)) : put(to, "<int, very large>");
}

static int put_float(buffer *to, double value)
{
    char *text = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    int failed = text ? put(to, text) : -1;

    PyMem_Free(text);
    return failed;
}

/* TEXT without its secrets.  Of a text that is cut afterwards no other could be found. */
static PyObject *redacted(PyObject *text)
{
    buffer found = {NULL, 0, 0};
    PyObject *bytes = text ? sspy_utf8_from_text(text) : NULL, *result = NULL;

    if (bytes &&
        stacksplice_redact_by_rules(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes),
                                    STACKSPLICE_TEXT_LOCAL, sspy_text_append, &found) == S_OK)
        result = sspy_text_from_utf8(found.text ? found.text : "", found.length);
    else if (bytes)
        PyErr_NoMemory();
    free(found.text);
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    return result;
}

/* The beginning of VALUE, a str. */
static PyObject *beginning_of_str(PyObject *value)
{
    PyObject *text = redacted(PyUnicode_Substring(value, 0, SEARCHED));
    PyObject *part = text ? PyUnicode_Substring(text, 0, SSPY_LOCAL_CHARACTERS) : NULL;

    Py_XDECREF(text);
    return part;
}

/* The beginning of VALUE, bytes: each is a character of Latin-1, as far as rules can tell. */
static PyObject *beginning_of_bytes(PyObject *value)
{
    Py_ssize_t size = PyBytes_GET_SIZE(value);
    PyObject *text = redacted(
        PyUnicode_DecodeLatin1(PyBytes_AS_STRING(value), size < SEARCHED ? size : SEARCHED, NULL));
    PyObject *part = text ? PyUnicode_Substring(text, 0, SSPY_LOCAL_CHARACTERS) : NULL;
    PyObject *bytes = part ? PyUnicode_AsEncodedString(part, "latin-1", "replace") : NULL;

    Py_XDECREF(text);
    Py_XDECREF(part);
    return bytes;
}

static int put_quoted(buffer *to, PyObject *value)
{
    bool is_str = PyUnicode_CheckExact(value);
    Py_ssize_t length = is_str ? PyUnicode_GET_LENGTH(value) : PyBytes_GET_SIZE(value);
    PyObject *part;
    int failed;

    if (length <= SSPY_LOCAL_CHARACTERS)
        return put_text(to, PyObject_Repr(value));
    part = is_str ? beginning_of_str(value) : beginning_of_bytes(value);
    failed = !part || put_text(to, PyObject_Repr(part)) || put(to, "...");
    Py_XDECREF(part);
    return failed;
}

/* ---- Containers -------------------------------------------------------------------------------*/

/* A container while its items are written. */
typedef struct items {
    buffer *to;
    int depth;   /* of the items */
    size_t most; /* bytes in TO before the end of the last item */
    Py_ssize_t count;
    bool is_full;
} items;

/* Write what "..." stands for: all items that do not fit, whole. */
static int leave_out(items *of, size_t back_to)
{
    of->is_full = true;
    of->to->length = back_to;
    return put(of->to, of->count ? ", ..." : "...");
}

/* KEY is NULL, or that of a dict.  Both are held by the caller. */
static int put_item(items *of, PyObject *key, PyObject *value)
{
    size_t before = of->to->length;
    const char *name = NULL, *secret = NULL;

    if (of->count == SSPY_LOCAL_ITEMS)
        return leave_out(of, before);
    if ((of->count && put(of->to, ", ")) ||
        (key && (put_value(of->to, key, of->depth, of->most) || put(of->to, ": "))))
        return -1;
    if (key && PyUnicode_CheckExact(key))
        name = PyUnicode_AsUTF8(key);
    if (name)
        secret = stacksplice_redact_name(name);
    PyErr_Clear(); /* a key with surrogates is no name */
    if (secret ? put(of->to, "'[redacted: ") || put(of->to, secret) || put(of->to, "]'")
               : put_value(of->to, value, of->depth, of->most))
        return -1;
    if (of->to->length > of->most)
        return leave_out(of, before);
    of->count++;
    return 0;
}

static int put_sequence(items *of, PyObject *value)
{
    int failed = 0;

    for (Py_ssize_t i = 0; !failed && !of->is_full && i < Py_SIZE(value); i++) {
        PyObject *item = Py_NewRef(PyList_CheckExact(value) ? PyList_GET_ITEM(value, i)
                                                            : PyTuple_GET_ITEM(value, i));

        failed = put_item(of, NULL, item);
        Py_DECREF(item);
    }
    return failed;
}

static int put_dict(items *of, PyObject *value)
{
    PyObject *key, *item;
    Py_ssize_t at = 0;
    int failed = 0;

    while (!failed && !of->is_full && PyDict_Next(value, &at, &key, &item)) {
        Py_INCREF(key);
        Py_INCREF(item);
        failed = put_item(of, key, item);
        Py_DECREF(key);
        Py_DECREF(item);
    }
    return failed;
}

static int put_set(items *of, PyObject *value)
{
    PyObject *iterator = PyObject_GetIter(value), *item = NULL;
    int failed = !iterator;

    while (!failed && !of->is_full && (item = PyIter_Next(iterator)) != NULL) {
        failed = put_item(of, NULL, item);
        Py_DECREF(item);
    }
    Py_XDECREF(iterator);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_RuntimeError)) {
        PyErr_Clear(); /* a finalizer changed it */
        failed = leave_out(of, of->to->length);
    }
    return failed || PyErr_Occurred() ? -1 : 0;
}

static Py_ssize_t size_of(PyObject *container)
{
    if (PyDict_CheckExact(container))
        return PyDict_GET_SIZE(container);
    return PyAnySet_CheckExact(container) ? PySet_GET_SIZE(container) : Py_SIZE(container);
}

static int put_items(buffer *to, PyObject *value, int depth, size_t most, const char *ends)
{
    items of = {to, depth + 1, most - BRACKETS, 0, false};
    int failed = sspy_text_append(ends, 1, to);

    if (failed)
        PyErr_NoMemory();
    else if (depth == SSPY_LOCAL_DEPTH && size_of(value))
        failed = leave_out(&of, to->length);
    else if (PyDict_CheckExact(value))
        failed = put_dict(&of, value);
    else if (PyAnySet_CheckExact(value))
        failed = put_set(&of, value);
    else
        failed = put_sequence(&of, value);
    if (!failed && PyTuple_CheckExact(value) && Py_SIZE(value) == 1 && !of.is_full)
        failed = put(to, ",");
    return failed || put(to, ends + 1) ? -1 : 0;
}

static int put_container(buffer *to, PyObject *value, int depth, size_t most)
{
    if (PyAnySet_CheckExact(value) && !size_of(value))
        return put(to, PySet_CheckExact(value) ? "set()" : "frozenset()");
    if (PyFrozenSet_CheckExact(value))
        return put(to, "frozenset(") || put_items(to, value, depth, most, "{})") ? -1 : 0;
    return put_items(to, value, depth, most,
                     PyList_CheckExact(value)    ? "[]"
                     : PyTuple_CheckExact(value) ? "()"
                                                 : "{}");
}

/* ---- Values -----------------------------------------------------------------------------------*/

static int put_type(buffer *to, PyObject *value)
{
    char text[SSPY_LOCAL_TYPE + 1];

    snprintf(text, sizeof text, "%s", Py_TYPE(value)->tp_name);
    return put(to, "<") || put(to, text) || put(to, ">") ? -1 : 0;
}

static int put_value(buffer *to, PyObject *value, int depth, size_t most)
{
    if (value == Py_None)
        return put(to, "None");
    if (PyBool_Check(value))
        return put(to, value == Py_True ? "True" : "False");
    if (PyLong_CheckExact(value))
        return put_int(to, value);
    if (PyFloat_CheckExact(value))
        return put_float(to, PyFloat_AS_DOUBLE(value));
    if (is_text(value))
        return put_quoted(to, value);
    return is_container(value) ? put_container(to, value, depth, most) : put_type(to, value);
}

PyObject *sspy_safe_text(PyObject *value)
{
    buffer to = {NULL, 0, 0};
    PyObject *text = NULL;

    if (!put_value(&to, value, 0, SSPY_LOCAL_BYTES))
        text = sspy_text_from_utf8(to.text ? to.text : "", to.length);
    free(to.text);
    return text;
}
