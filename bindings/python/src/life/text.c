/* Conversion between texts of the core and of Python. */
#include "life/text.h"

#include <stdlib.h>
#include <string.h>

PyObject *sspy_text_from_wide(const WCHAR *text, uint32_t units)
{
    int order = PY_BIG_ENDIAN ? 1 : -1;

    return PyUnicode_DecodeUTF16((const char *)text, (Py_ssize_t)units * 2, "surrogatepass",
                                 &order);
}

PyObject *sspy_text_from_utf8(const char *bytes, size_t length)
{
    PyObject *text = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)length, "surrogatepass");

    if (!text && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        PyErr_Clear(); /* not even that: the bytes come from another language */
        text = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)length, "replace");
    }
    return text;
}

PyObject *sspy_text_or_none(const char *text)
{
    return text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace")
                : Py_NewRef(Py_None);
}

PyObject *sspy_utf8_from_text(PyObject *text)
{
    return PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
}

PyObject *sspy_utf16_from_text(PyObject *text)
{
    return PyUnicode_AsEncodedString(text, "utf-16-le", "surrogatepass");
}

int sspy_append_new(PyObject *list, PyObject *item)
{
    int failed = item ? PyList_Append(list, item) : -1;

    Py_XDECREF(item);
    return failed;
}

int sspy_append_note(const char *text, size_t length, void *data)
{
    return sspy_append_new(data, sspy_text_from_utf8(text, length));
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
