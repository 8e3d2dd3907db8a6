/*
 * The values of a report that was read back.  The dicts are what json.loads() gives, so none of
 * their values runs code, but they may hold anything.  A value of a kind that reports do not have
 * there raises an exception.
 */
#include "api/report_values.h"

#include <string.h>

typedef sspy_reader reader;

struct sspy_block {
    struct sspy_block *next;
    _Alignas(max_align_t) char bytes[];
};

void *sspy_take(reader *r, Py_ssize_t count, size_t size)
{
    struct sspy_block *b = PyMem_Calloc(1, sizeof *b + ((size_t)count ? (size_t)count : 1) * size);

    if (!b)
        return PyErr_NoMemory();
    b->next = r->blocks;
    r->blocks = b;
    return b->bytes;
}

int sspy_reader_begin(reader *r, sspy_state *state)
{
    *r = (reader){.state = state, .kept = PyList_New(0), .references = PyDict_New()};
    return r->kept && r->references ? 0 : -1;
}

void sspy_reader_end(reader *r)
{
    while (r->blocks) {
        struct sspy_block *next = r->blocks->next;

        PyMem_Free(r->blocks);
        r->blocks = next;
    }
    Py_CLEAR(r->kept);
    Py_CLEAR(r->references);
}

int sspy_refuse_value(const char *key, const char *wanted, PyObject *value)
{
    PyErr_Format(PyExc_TypeError, "%s must be %s, not %.100s", key, wanted,
                 Py_TYPE(value)->tp_name);
    return -1;
}

PyObject *sspy_value_of(PyObject *dict, const char *key)
{
    PyObject *value = PyDict_GetItemString(dict, key);

    return value == Py_None ? NULL : value;
}

int sspy_lend_text(reader *r, PyObject *value, stacksplice_told_text *out)
{
    Py_ssize_t length;
    PyObject *bytes;

    out->text = PyUnicode_AsUTF8AndSize(value, &length);
    if (!out->text) { /* lone surrogates, which the core shows as U+FFFD */
        PyErr_Clear();
        bytes = PyUnicode_AsEncodedString(value, "utf-8", "surrogatepass");
        if (!bytes || PyList_Append(r->kept, bytes)) {
            Py_XDECREF(bytes);
            return -1;
        }
        out->text = PyBytes_AS_STRING(bytes);
        length = PyBytes_GET_SIZE(bytes);
        Py_DECREF(bytes);
    }
    out->length = (size_t)length;
    return 0;
}

int sspy_read_text(reader *r, PyObject *dict, const char *key, stacksplice_told_text *out)
{
    PyObject *value = sspy_value_of(dict, key);

    if (!value)
        return 0;
    return PyUnicode_Check(value) ? sspy_lend_text(r, value, out)
                                  : sspy_refuse_value(key, "a text", value);
}

int sspy_read_name(reader *r, PyObject *dict, const char *key, const char **out)
{
    stacksplice_told_text text = {NULL, 0};

    if (sspy_read_text(r, dict, key, &text))
        return -1;
    *out = text.text;
    return 0;
}

int sspy_read_number(PyObject *dict, const char *key, uint64_t most, uint64_t *out)
{
    PyObject *value = sspy_value_of(dict, key), *number;
    unsigned long long found;

    *out = 0;
    if (!value)
        return 0;
    if (!PyLong_Check(value) && !PyUnicode_Check(value))
        return sspy_refuse_value(key, "a number", value);
    number = PyLong_Check(value) ? Py_NewRef(value) : PyLong_FromUnicodeObject(value, 16);
    if (!number)
        return -1;
    found = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    if (PyErr_Occurred())
        return -1;
    if (found > most) {
        PyErr_Format(PyExc_OverflowError, "%s is too large", key);
        return -1;
    }
    *out = found;
    return 0;
}

int sspy_read_count(PyObject *dict, const char *key, uint32_t *out)
{
    uint64_t number;

    if (sspy_read_number(dict, key, UINT32_MAX, &number))
        return -1;
    *out = (uint32_t)number;
    return 0;
}

int sspy_read_truth(PyObject *dict, const char *key, int *out)
{
    PyObject *value = sspy_value_of(dict, key);

    *out = value == Py_True;
    return value && !PyBool_Check(value) ? sspy_refuse_value(key, "true or false", value) : 0;
}

int sspy_read_list(PyObject *dict, const char *key, PyObject **list, Py_ssize_t *count)
{
    *list = sspy_value_of(dict, key);
    *count = 0;
    if (!*list)
        return 0;
    if (!PyList_Check(*list))
        return sspy_refuse_value(key, "a list", *list);
    *count = PyList_GET_SIZE(*list);
    return 0;
}

int sspy_check_dict(const char *what, PyObject *value)
{
    return PyDict_Check(value) ? 0 : sspy_refuse_value(what, "an object", value);
}
