/* The names of a type and of its bases, for those who cannot look at the type itself. */
#include "value/parts.h"

#include <stdlib.h>
#include <string.h>

PyObject *sspy_full_type_name(PyTypeObject *type)
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

static bool is_static(const PyTypeObject *type)
{
    return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE);
}

/* Whether MRO from index I on is nothing but static types, each the base of the one before: these
   neither die nor change, so they need not be copied. */
static bool is_static_chain(PyObject *mro, Py_ssize_t i)
{
    const PyTypeObject *type = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);

    for (; i < PyTuple_GET_SIZE(mro); i++, type = type->tp_base)
        if (!type || (PyObject *)type != PyTuple_GET_ITEM(mro, i) || !is_static(type))
            return false;
    return true;
}

/* Append the name of TYPE and another NUL behind it; -1 with an exception. */
static int add_name(sspy_bases *bases, size_t *length, PyTypeObject *type)
{
    PyObject *name = sspy_full_type_name(type), *text = NULL;
    char *grown = NULL;
    size_t size;

    if (name)
        text = PyUnicode_AsEncodedString(name, "utf-8", "surrogatepass");
    Py_XDECREF(name);
    if (!text)
        return -1;
    size = (size_t)PyBytes_GET_SIZE(text) + 1;
    grown = realloc(bases->names, *length + size + 1);
    if (grown) {
        memcpy(grown + *length, PyBytes_AS_STRING(text), size);
        *length += size;
        grown[*length] = '\0';
        bases->names = grown;
    } else {
        PyErr_NoMemory();
    }
    Py_DECREF(text);
    return grown ? 0 : -1;
}

int sspy_bases_take(sspy_bases *bases, PyTypeObject *type)
{
    PyObject *mro = type->tp_mro;
    size_t length = 0;
    int result = 0;

    *bases = (sspy_bases){NULL, NULL};
    if (is_static(type)) {
        bases->rest = type->tp_base;
        return 0;
    }
    if (!mro || !PyTuple_Check(mro))
        return 0;
    Py_INCREF(mro); /* asking for names can run code that changes it */
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(mro) && !result; i++) {
        if (is_static_chain(mro, i)) {
            bases->rest = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
            break;
        }
        result = add_name(bases, &length, (PyTypeObject *)PyTuple_GET_ITEM(mro, i));
    }
    Py_DECREF(mro);
    return result;
}

const char *sspy_bases_name(const sspy_bases *bases, uint32_t index)
{
    const PyTypeObject *type = bases->rest;

    for (const char *name = bases->names; name && *name; name += strlen(name) + 1)
        if (index-- == 0)
            return name;
    while (type && type->tp_base && index-- > 0)
        type = type->tp_base;
    return type && type->tp_base ? type->tp_name : NULL; /* object is the one without a base */
}
