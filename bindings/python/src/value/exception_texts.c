/* The type and the message of an exception, for its language exception. */
#include "life/text.h"
#include "value/parts.h"

#include <string.h>

/* Takes over STRING, or the exception in place of it: then, and without memory, -1. */
static int encode(sspy_utf8 *text, PyObject *string)
{
    text->owner = string;
    if (!string)
        return -1;
    if (PyUnicode_IS_COMPACT_ASCII(string)) {
        text->bytes = (const char *)PyUnicode_DATA(string);
        text->length = (size_t)PyUnicode_GET_LENGTH(string);
        return 0;
    }
    text->owner = sspy_utf8_from_text(string);
    Py_DECREF(string);
    if (!text->owner)
        return -1;
    text->bytes = PyBytes_AS_STRING(text->owner);
    text->length = (size_t)PyBytes_GET_SIZE(text->owner);
    return 0;
}

int sspy_encode_type_name(sspy_utf8 *text, PyObject *object)
{
    const char *own = Py_TYPE(object)->tp_name;

    /* A type of the interpreter's own is called what its structure says. */
    if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE || strchr(own, '.'))
        return encode(text, sspy_full_type_name(Py_TYPE(object)));
    *text = (sspy_utf8){NULL, own, strlen(own)};
    return 0;
}

static PyObject *message_of(PyObject *object)
{
    const char *name = Py_TYPE(object)->tp_name, *dot;
    PyObject *text = PyObject_Str(object);

    if (text || PyErr_ExceptionMatches(PyExc_MemoryError))
        return text;
    PyErr_Clear(); /* an exception that cannot say its message is still an exception */
    dot = strrchr(name, '.');
    return PyUnicode_FromFormat("<unprintable %s object>", dot ? dot + 1 : name);
}

int sspy_encode_message(sspy_utf8 *text, PyObject *object)
{
    return encode(text, message_of(object));
}
