/*
 * Exceptions and HRESULTs, both columns of one table.
 *
 * On the way out the most derived match wins: we try the exception's classes in the order of its
 * MRO.  An exception's own integer `hresult` attribute, if it is a failure code, has precedence.
 */
#include "value/value.h"

#include <errno.h>
#include <string.h>

enum { BACK_NONE = -1 };

#define WIN32_HRESULT UINT32_C(0x80070000)

/* One exception class: the HRESULT it becomes, and what that HRESULT becomes. */
typedef struct class_row {
    PyObject **type; /* a builtin class */
    uint32_t hresult;
    PyObject **back; /* NULL: another row of this HRESULT has it */
    int back_errno;  /* of an OSError */
} class_row;

static const class_row class_rows[] = {
    {&PyExc_MemoryError, 0x8007000E, &PyExc_MemoryError, 0},
    {&PyExc_NotImplementedError, 0x80004001, &PyExc_NotImplementedError, 0},
    {&PyExc_IndexError, 0x8000000B, &PyExc_IndexError, 0},
    {&PyExc_KeyError, 0x8000000B, NULL, 0},
    {&PyExc_ValueError, 0x80070057, &PyExc_ValueError, 0},
    {&PyExc_TypeError, 0x80070057, NULL, 0},
    {&PyExc_UnicodeError, 0x80070459, &PyExc_ValueError, 0},
    {&PyExc_PermissionError, 0x80070005, &PyExc_OSError, EACCES},
    {&PyExc_FileNotFoundError, 0x80070002, &PyExc_OSError, ENOENT},
    {&PyExc_FileExistsError, 0x80070050, &PyExc_OSError, EEXIST},
    {&PyExc_TimeoutError, 0x800705B4, &PyExc_OSError, ETIMEDOUT},
    {&PyExc_KeyboardInterrupt, 0x800704C7, &PyExc_OSError, ECANCELED},
    {&PyExc_EOFError, 0x80070026, &PyExc_EOFError, 0},
    {&PyExc_OverflowError, 0x80070216, &PyExc_OverflowError, 0},
    {&PyExc_ZeroDivisionError, 0x80020012, &PyExc_ZeroDivisionError, 0},
    {&PyExc_RecursionError, 0x800703E9, &PyExc_RecursionError, 0},
    {&PyExc_ModuleNotFoundError, 0x8007007E, &PyExc_ModuleNotFoundError, 0},
    {&PyExc_AttributeError, 0x80020003, &PyExc_AttributeError, 0},
    {&PyExc_NameError, 0x80020006, &PyExc_NameError, 0},
};

/* Classes of modules that we do not import, recognised by where they are defined. */
static const struct {
    const char *module, *name;
    uint32_t hresult;
} named_rows[] = {
    {"asyncio.exceptions", "CancelledError", 0x800704C7},
    {"concurrent.futures._base", "CancelledError", 0x800704C7},
};

/* ---- Out --------------------------------------------------------------------------------------*/

/* An attribute of EXC that is a plain integer; errors of the lookup are ignored. */
static bool integer_attribute(PyObject *exc, PyObject *key, long long *value)
{
    PyObject *attribute = sspy_optional_attribute(exc, key);
    bool found = false;
    int overflow = 0;

    if (attribute && PyLong_Check(attribute) && !PyBool_Check(attribute)) {
        *value = PyLong_AsLongLongAndOverflow(attribute, &overflow);
        found = !overflow;
    }
    Py_XDECREF(attribute);
    PyErr_Clear();
    return found;
}

static bool named_integer(PyObject *exc, const char *name, long long *value)
{
    PyObject *key = PyUnicode_InternFromString(name);
    bool found = key && integer_attribute(exc, key, value);

    Py_XDECREF(key);
    PyErr_Clear();
    return found;
}

/* A failing HRESULT, signed or unsigned, as 32 bits; 0 when VALUE is none. */
static uint32_t failing(long long value)
{
    if (value < INT32_MIN || value > UINT32_MAX)
        return 0;
    return (uint32_t)value & 0x80000000u ? (uint32_t)value : 0;
}

static uint32_t hresult_of_os_error(PyObject *exc)
{
    long long value = 0;

    /* A Windows code in the range of HRESULT_FROM_WIN32, or an HRESULT, as PyWinRT sets it. */
    if (named_integer(exc, "winerror", &value)) {
        if (value > 0 && value <= 0xFFFF)
            return WIN32_HRESULT | (uint32_t)value;
        if (failing(value))
            return failing(value);
    }
    if (named_integer(exc, "errno", &value) && value > 0 && value <= 0xFFFF)
        return (uint32_t)stacksplice_hresult_from_errno((int)value);
    return 0;
}

static bool is_named(PyTypeObject *type, const char *module, const char *name)
{
    const char *own = strrchr(type->tp_name, '.');
    PyObject *where;
    bool same;

    if (strcmp(own ? own + 1 : type->tp_name, name) != 0)
        return false;
    where = sspy_attribute((PyObject *)type, "__module__");
    same = where && PyUnicode_Check(where) && PyUnicode_CompareWithASCIIString(where, module) == 0;
    Py_XDECREF(where);
    PyErr_Clear();
    return same;
}

/* The row of exactly TYPE, or 0. */
static uint32_t hresult_of_class(PyTypeObject *type, PyObject *exc)
{
    for (size_t i = 0; i < SSPY_COUNT_OF(class_rows); i++)
        if ((PyObject *)type == *class_rows[i].type)
            return class_rows[i].hresult;
    for (size_t i = 0; i < SSPY_COUNT_OF(named_rows); i++)
        if (is_named(type, named_rows[i].module, named_rows[i].name))
            return named_rows[i].hresult;
    return (PyObject *)type == PyExc_OSError ? hresult_of_os_error(exc) : 0;
}

HRESULT sspy_hresult_of(sspy_state *state, PyObject *exc)
{
    PyObject *mro = Py_TYPE(exc)->tp_mro;
    long long own = 0;
    uint32_t hresult = 0;

    if (integer_attribute(exc, state->hresult_key, &own))
        hresult = failing(own);
    for (Py_ssize_t i = 0; !hresult && i < PyTuple_GET_SIZE(mro); i++)
        hresult = hresult_of_class((PyTypeObject *)PyTuple_GET_ITEM(mro, i), exc);
    return hresult ? (HRESULT)hresult : E_FAIL;
}

/* ---- Back -------------------------------------------------------------------------------------*/

/* The builtin exception type (borrowed) for HR and the errno to give it (0: none). */
static PyObject *type_for(HRESULT hr, int *errno_out)
{
    uint32_t bits = (uint32_t)hr;

    *errno_out = 0;
    for (size_t i = 0; i < SSPY_COUNT_OF(class_rows); i++)
        if (class_rows[i].hresult == bits && class_rows[i].back) {
            *errno_out = class_rows[i].back_errno;
            return *class_rows[i].back;
        }
    *errno_out = stacksplice_errno_from_hresult(hr);
    return *errno_out ? PyExc_OSError : PyExc_Exception;
}

/* ---- For callers ------------------------------------------------------------------------------*/

int sspy_hresult_from(PyObject *number, const char *argument, HRESULT *hr)
{
    int overflow = 0;
    long long value;

    if (!PyLong_Check(number)) {
        PyErr_Format(PyExc_TypeError, "%s must be int, not %.200s", argument,
                     Py_TYPE(number)->tp_name);
        return -1;
    }
    value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow || value < INT32_MIN || value > UINT32_MAX) {
        PyErr_Format(PyExc_OverflowError, "%s must fit in 32 bits, signed or unsigned", argument);
        return -1;
    }
    *hr = (HRESULT)(uint32_t)value;
    return 0;
}

/* ---- Hresult error ---------------------------------------------------------------------------*/

/*
 * HResultError and its twins: the Python exceptions for errors that Python did not originate.
 *
 * For E_INVALIDARG the exception is an HResultError and a ValueError, and so on, so that `except
 * ValueError` works.  Each twin is made when it is first asked for, by an error or by its name: a
 * class costs as much as many captures, and most programs need none.  Two are made at once: what they
 * report leaves no room for it.
 */

#define MODULE_NAME "stacksplice" /* where users find them */

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

    (void)type_for(hr, &number);
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

static PyObject *hresult_error_str(PyObject *self, PyObject *Py_UNUSED(arguments))
{
    PyObject *message = attribute(self, "message");
    PyObject *text = message ? PyObject_Str(message) : NULL;

    Py_XDECREF(message);
    return text;
}

PyDoc_STRVAR(reduce_doc, "__reduce__($self, /)\n--\n\nFor pickle and copy.");
static PyObject *hresult_error_reduce(PyObject *self, PyObject *Py_UNUSED(arguments))
{
    PyObject *number = attribute(self, "hresult");
    PyObject *message = number ? attribute(self, "message") : NULL;
    PyObject *dict = message ? PyObject_GenericGetDict(self, NULL) : NULL;
    PyObject *result = NULL;

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
        class = PyObject_CallFunction((PyObject *)&PyType_Type, "sOO", "HResultError", bases,
                                      namespace);
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

/* Whether an HRESULT becomes BASE, or is an errno for which OSError chooses it. */
static bool has_twin(PyObject *base)
{
    if (PyType_IsSubtype((PyTypeObject *)base, (PyTypeObject *)PyExc_OSError))
        return true;
    for (size_t i = 0; i < SSPY_COUNT_OF(class_rows); i++)
        if (class_rows[i].back && *class_rows[i].back == base)
            return true;
    return false;
}

PyObject *sspy_twin_named(PyObject *module, PyObject *name)
{
    static const char prefix[] = "HResult";
    enum { LENGTH = sizeof prefix - 1 };
    const char *text = PyUnicode_AsUTF8(name);
    PyObject *builtins = text ? PyImport_ImportModule("builtins") : NULL, *base = NULL,
             *twin = NULL;

    if (!builtins)
        return NULL;
    if (!strncmp(text, prefix, LENGTH))
        base = PyDict_GetItemString(PyModule_GetDict(builtins), text + LENGTH);
    if (base && PyExceptionClass_Check(base) && has_twin(base) &&
        !strcmp(((PyTypeObject *)base)->tp_name, text + LENGTH))
        twin = Py_XNewRef(twin_of(PyModule_GetState(module), base));
    else
        PyErr_Format(PyExc_AttributeError, "module '%s' has no attribute %R", MODULE_NAME, name);
    Py_DECREF(builtins);
    return twin;
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
    PyObject *base = type_for(hr, &number), *class, *exc = NULL;

    base = number ? os_error_class(number) : Py_NewRef(base);
    if (!base)
        return NULL;
    class = base == PyExc_Exception ? state->hresult_error : twin_of(state, base);
    if (class)
        exc = PyObject_CallFunction(class, "iO", (int)hr, message);
    Py_DECREF(base);
    return exc;
}
