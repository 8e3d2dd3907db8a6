/*
 * The text of a value, made without any code of the program: no __repr__, no __str__, no __len__,
 * no property.  Values of exactly the builtin types are written as Python writes them, others as
 * their type in <>.
 *
 * Objects that are made for these texts may start the garbage collector, and that may run
 * finalizers.  So each item is held while it is written, and sizes are read anew.
 */
#include "value/safe_text.h"

#include "life/text.h"
#include "shared/value_text.h"

#include <math.h>

static const double LARGE = 1e100; /* larger numbers are not written out */

static void put_value(ss_value_text *to, PyObject *value);

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

/* TEXT, which may be NULL with an exception, is what Python made: "..." without memory. */
static void put_made(ss_value_text *to, const char *text)
{
    ss_value_put(to, text ? text : "...");
    PyErr_Clear();
}

static void put_int(ss_value_text *to, PyObject *value)
{
    double size = PyLong_AsDouble(value);
    bool is_large = PyErr_Occurred() || fabs(size) >= LARGE;
    PyObject *text = is_large ? NULL : PyObject_Repr(value);

    PyErr_Clear();
    put_made(to, is_large ? "<int, very large>" : text ? PyUnicode_AsUTF8(text) : NULL);
    Py_XDECREF(text);
}

static void put_float(ss_value_text *to, double value)
{
    char *text = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);

    put_made(to, text);
    PyMem_Free(text);
}

static size_t escape(uint32_t c, char out[SS_VALUE_ESCAPED])
{
    return c >= 0x80 && Py_UNICODE_ISPRINTABLE(c) ? 0 : ss_value_python_escape(c, out);
}

static void put_str(ss_value_text *to, PyObject *value)
{
    static const ss_value_quoting quoting = {
        .before = "", .quote = '\'', .other = '"', .escape = escape};
    PyObject *part = PyUnicode_Substring(value, 0, SS_VALUE_SEARCHED);
    PyObject *bytes = part ? sspy_utf8_from_text(part) : NULL;

    if (bytes)
        ss_value_quoted(to, &quoting, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes),
                        (uint64_t)PyUnicode_GET_LENGTH(value));
    else
        put_made(to, NULL);
    Py_XDECREF(bytes);
    Py_XDECREF(part);
}

/* ---- Containers -------------------------------------------------------------------------------*/

/* Write an item, which is released; KEY is NULL, or that of a dict.  False: no more are written. */
static bool put_item(ss_value_text *to, PyObject *key, PyObject *value)
{
    bool goes_on = ss_value_item(to);

    if (goes_on) {
        const char *name = key && PyUnicode_CheckExact(key) ? PyUnicode_AsUTF8(key) : NULL;

        PyErr_Clear(); /* a key with surrogates is no name */
        if (key)
            put_value(to, key);
        ss_value_put(to, key ? ": " : "");
        if (!name || !ss_value_secret(to, name, "'"))
            put_value(to, value);
        goes_on = ss_value_fits(to);
    }
    Py_XDECREF(key);
    Py_DECREF(value);
    return goes_on;
}

static void put_sequence(ss_value_text *to, PyObject *value)
{
    bool is_list = PyList_CheckExact(value);

    for (Py_ssize_t i = 0; i < Py_SIZE(value); i++) {
        PyObject *item = is_list ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i);

        if (!put_item(to, NULL, Py_NewRef(item)))
            return;
    }
}

static void put_dict(ss_value_text *to, PyObject *value)
{
    PyObject *key, *item;
    Py_ssize_t at = 0;

    while (PyDict_Next(value, &at, &key, &item)) {
        Py_INCREF(key);
        Py_INCREF(item);
        if (!put_item(to, key, item))
            return;
    }
}

static void put_set(ss_value_text *to, PyObject *value)
{
    PyObject *iterator = PyObject_GetIter(value), *item = NULL;

    while (iterator && (item = PyIter_Next(iterator)) != NULL && put_item(to, NULL, item))
        ;
    Py_XDECREF(iterator);
    if (PyErr_Occurred()) { /* a finalizer changed it */
        PyErr_Clear();
        ss_value_leave_out(to);
    }
}

static void put_tuple(ss_value_text *to, PyObject *value)
{
    ss_value_begin(to, "(");
    put_sequence(to, value);
    ss_value_end(to, Py_SIZE(value) == 1 && ss_value_count(to) ? ",)" : ")");
}

static void put_container(ss_value_text *to, PyObject *value)
{
    bool is_frozen = PyFrozenSet_CheckExact(value);

    if (PyTuple_CheckExact(value)) {
        put_tuple(to, value);
    } else if (PyList_CheckExact(value)) {
        ss_value_begin(to, "[");
        put_sequence(to, value);
        ss_value_end(to, "]");
    } else if (PyDict_CheckExact(value)) {
        ss_value_begin(to, "{");
        put_dict(to, value);
        ss_value_end(to, "}");
    } else if (PySet_GET_SIZE(value)) {
        ss_value_begin(to, is_frozen ? "frozenset({" : "{");
        put_set(to, value);
        ss_value_end(to, is_frozen ? "})" : "}");
    } else {
        ss_value_put(to, is_frozen ? "frozenset()" : "set()");
    }
}

/* ---- Values -----------------------------------------------------------------------------------*/

static void put_type(ss_value_text *to, const char *name)
{
    ss_value_put(to, "<");
    ss_value_put_bytes(to, name, strnlen(name, SS_VALUE_TYPE));
    ss_value_put(to, ">");
}

static void put_value(ss_value_text *to, PyObject *value)
{
    if (value == Py_None)
        ss_value_put(to, "None");
    else if (PyBool_Check(value))
        ss_value_put(to, value == Py_True ? "True" : "False");
    else if (PyLong_CheckExact(value))
        put_int(to, value);
    else if (PyFloat_CheckExact(value))
        put_float(to, PyFloat_AS_DOUBLE(value));
    else if (PyUnicode_CheckExact(value))
        put_str(to, value);
    else if (PyBytes_CheckExact(value))
        ss_value_quoted(to, &ss_value_of_python_bytes, PyBytes_AS_STRING(value),
                        (size_t)PyBytes_GET_SIZE(value), (uint64_t)PyBytes_GET_SIZE(value));
    else if (is_container(value))
        put_container(to, value);
    else
        put_type(to, Py_TYPE(value)->tp_name);
}

PyObject *sspy_safe_text(PyObject *value)
{
    ss_value_text text;

    ss_value_text_init(&text, false);
    put_value(&text, value);
    return sspy_text_from_utf8(text.bytes, text.length);
}
