/*
 * HResultError and its twins: the Python exceptions for errors that Python did not originate.
 *
 * For E_INVALIDARG the exception is an HResultError and a ValueError, and so on, so that `except
 * ValueError` works.  Each twin is made when it is first asked for, by an error or by its name: a
 * class costs as much as many captures, and most programs need none.
 */
#include "value/value.h"

#include <errno.h>
#include <string.h>

#define MODULE_NAME "stacksplice" /* where users find them */

/* The builtin classes that have a twin; OSError's are found by errno. */
static PyObject **const twin_bases[] = {
    &PyExc_MemoryError, /* made at once, as is the next: what they report leaves no room for it */
    &PyExc_RecursionError,
    &PyExc_NotImplementedError,
    &PyExc_IndexError,
    &PyExc_ValueError,
    &PyExc_EOFError,
    &PyExc_OverflowError,
    &PyExc_ZeroDivisionError,
    &PyExc_ModuleNotFoundError,
    &PyExc_AttributeError,
    &PyExc_NameError,
    &PyExc_OSError,
    &PyExc_PermissionError,
    &PyExc_FileNotFoundError,
    &PyExc_FileExistsError,
    &PyExc_TimeoutError,
    &PyExc_BlockingIOError,
    &PyExc_ChildProcessError,
    &PyExc_BrokenPipeError,
    &PyExc_ConnectionAbortedError,
    &PyExc_ConnectionRefusedError,
    &PyExc_ConnectionResetError,
    &PyExc_InterruptedError,
    &PyExc_IsADirectoryError,
    &PyExc_NotADirectoryError,
    &PyExc_ProcessLookupError,
};

/* None where SELF has no such attribute; NULL with a MemoryError. */
static PyObject *attribute(PyObject *self, const char *name)
{
    PyObject *value = sspy_attribute(self, name);

    if (value || PyErr_ExceptionMatches(PyExc_MemoryError))
        return value;
    PyErr_Clear();
    return Py_NewRef(Py_None);
}

/* Initialise the builtin exception in TYPE's bases that is no HResultError.  Exception's own
   __init__ is not enough for OSError, whose errno and strerror it would not set. */
static int init_base(PyObject *self, HRESULT hr, PyObject *message)
{
    PyObject *result;
    int number = 0;

    (void)sspy_type_for(hr, &number);
    if (!PyObject_TypeCheck(self, (PyTypeObject *)PyExc_OSError))
        result = PyObject_CallMethod(PyExc_Exception, "__init__", "OO", self, message);
    else
        result = PyObject_CallMethod(PyExc_OSError, "__init__", "OiO", self, number, message);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

PyDoc_STRVAR(init_doc, "__init__($self, /, hresult=-2147467259, message='')\n--\n\n"
                       "hresult: a failing HRESULT, signed or unsigned; message: str.");
static PyObject *hresult_error_init(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"hresult", "message", NULL};
    PyObject *number = NULL, *message = NULL, *stored;
    HRESULT hr = E_FAIL;
    int failed;

    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OU:HResultError", names, &number,
                                     &message))
        return NULL;
    if (number && sspy_hresult_from(number, "hresult", &hr))
        return NULL;
    if (SUCCEEDED(hr)) {
        PyErr_SetString(PyExc_ValueError, "hresult must be a failure code (negative)");
        return NULL;
    }
    message = message ? Py_NewRef(message) : PyUnicode_FromString("");
    stored = PyLong_FromLong(hr);
    failed = !message || !stored || init_base(self, hr, message) ||
             PyObject_SetAttrString(self, "hresult", stored) ||
             PyObject_SetAttrString(self, "message", message);
    Py_XDECREF(message);
    Py_XDECREF(stored);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *hresult_error_str(PyObject *self, PyObject *arguments)
{
    PyObject *message = attribute(self, "message");
    PyObject *text = message ? PyObject_Str(message) : NULL;

    (void)arguments;
    Py_XDECREF(message);
    return text;
}

PyDoc_STRVAR(reduce_doc, "__reduce__($self, /)\n--\n\nFor pickle and copy.");
static PyObject *hresult_error_reduce(PyObject *self, PyObject *arguments)
{
    PyObject *number = attribute(self, "hresult");
    PyObject *message = number ? attribute(self, "message") : NULL;
    PyObject *dict = message ? PyObject_GenericGetDict(self, NULL) : NULL;
    PyObject *result = NULL;

    (void)arguments;
    if (dict)
        result = Py_BuildValue("(O(OO)O)", (PyObject *)Py_TYPE(self), number, message, dict);
    Py_XDECREF(number);
    Py_XDECREF(message);
    Py_XDECREF(dict);
    return result;
}

static PyMethodDef methods[] = {
    {"__init__", (PyCFunction)(void (*)(void))hresult_error_init, METH_VARARGS | METH_KEYWORDS,
     init_doc},
    {"__str__", hresult_error_str, METH_NOARGS, NULL},
    {"__reduce__", hresult_error_reduce, METH_NOARGS, reduce_doc},
};

PyDoc_STRVAR(
    class_doc,
    "HResultError(hresult=-2147467259, message='')\n--\n\n"
    "An error that Python did not originate.\n\n"
    "hresult is its HRESULT as a signed int, message its message.  For well-known HRESULTs\n"
    "the exception is also an instance of the builtin class that means the same.");

static PyObject *new_class(const char *name, PyObject *bases, PyObject *namespace)
{
    return PyObject_CallFunction((PyObject *)&PyType_Type, "sOO", name, bases, namespace);
}

static PyObject *make_hresult_error(void)
{
    PyObject *namespace = Py_BuildValue("{ssss}", "__module__", MODULE_NAME, "__doc__", class_doc);
    PyObject *bases = Py_BuildValue("(O)", PyExc_Exception);
    PyObject *class = NULL;
    bool failed = !namespace || !bases;

    for (size_t i = 0; !failed && i < SSPY_COUNT_OF(methods); i++) {
        PyObject *method = PyDescr_NewMethod((PyTypeObject *)PyExc_BaseException, &methods[i]);

        failed = !method || PyDict_SetItemString(namespace, methods[i].ml_name, method);
        Py_XDECREF(method);
    }
    if (!failed)
        class = new_class("HResultError", bases, namespace);
    Py_XDECREF(namespace);
    Py_XDECREF(bases);
    return class;
}

/* HResultError + BASE, called "HResult" and the name of BASE. */
static PyObject *make_twin(sspy_state *state, PyObject *base)
{
    PyObject *name = PyUnicode_FromFormat("HResult%s", ((PyTypeObject *)base)->tp_name);
    PyObject *bases = Py_BuildValue("(OO)", state->hresult_error, base);
    PyObject *namespace = Py_BuildValue("{ss}", "__module__", MODULE_NAME);
    PyObject *class = NULL;

    if (name && bases && namespace)
        class = PyObject_CallFunction((PyObject *)&PyType_Type, "OOO", name, bases, namespace);
    Py_XDECREF(namespace);
    Py_XDECREF(bases);
    Py_XDECREF(name);
    return class;
}

/* The twin of BASE, borrowed: the same for all who ask, also at once. */
static PyObject *twin_of(sspy_state *state, PyObject *base)
{
    PyObject *found = PyDict_GetItemWithError(state->back_types, base), *made;

    if (found || PyErr_Occurred())
        return found;
    made = make_twin(state, base);
    found = made ? PyDict_SetDefault(state->back_types, base, made) : NULL;
    Py_XDECREF(made);
    return found;
}

static bool has_twin(PyObject *base)
{
    for (size_t i = 0; i < SSPY_COUNT_OF(twin_bases); i++)
        if (*twin_bases[i] == base)
            return true;
    return false;
}

PyObject *sspy_twin_named(PyObject *module, PyObject *name)
{
    static const char prefix[] = "HResult";
    enum { LENGTH = sizeof prefix - 1 };
    const char *text = PyUnicode_AsUTF8(name);

    if (!text)
        return NULL;
    for (size_t i = 0; !strncmp(text, prefix, LENGTH) && i < SSPY_COUNT_OF(twin_bases); i++)
        if (!strcmp(((PyTypeObject *)*twin_bases[i])->tp_name, text + LENGTH))
            return Py_XNewRef(twin_of(PyModule_GetState(module), *twin_bases[i]));
    PyErr_Format(PyExc_AttributeError, "module '%s' has no attribute %R", MODULE_NAME, name);
    return NULL;
}

int sspy_hresult_error_init(PyObject *module, sspy_state *state)
{
    state->hresult_error = make_hresult_error();
    state->back_types = PyDict_New();
    if (!state->hresult_error || !state->back_types ||
        PyModule_AddObjectRef(module, "HResultError", state->hresult_error))
        return -1;
    return twin_of(state, PyExc_MemoryError) && twin_of(state, PyExc_RecursionError) ? 0 : -1;
}

/* The class that OSError itself chooses for NUMBER. */
static PyObject *os_error_class(int number)
{
    PyObject *sample = PyObject_CallFunction(PyExc_OSError, "is", number, "");
    PyObject *class = sample ? Py_NewRef(Py_TYPE(sample)) : NULL;

    Py_XDECREF(sample);
    return class;
}

PyObject *sspy_hresult_error_new(sspy_state *state, HRESULT hr, PyObject *message)
{
    int number = 0;
    PyObject *base = Py_NewRef(sspy_type_for(hr, &number));
    PyObject *class, *exc = NULL;

    if (number)
        Py_SETREF(base, os_error_class(number));
    if (!base)
        return NULL;
    if (number && !has_twin(base))
        Py_SETREF(base, Py_NewRef(PyExc_OSError));
    class = has_twin(base) ? twin_of(state, base) : state->hresult_error;
    if (class)
        exc = PyObject_CallFunction(class, "iO", (int)hr, message);
    Py_DECREF(base);
    return exc;
}
