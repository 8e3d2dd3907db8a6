#include "stack/variables.h"

#include "stack/stack.h"
#include "value/safe_text.h"

bool sspy_shows_locals(void)
{
    const sspy_interp *interp = sspy_interp_current();
    bool shows = interp && interp->module_state && interp->module_state->shows_locals;

    PyErr_Clear();
    return shows;
}

/* Whether NAME is one that a program gave: not ".0" of a comprehension, nor "__class__". */
static bool is_name(PyObject *name)
{
    return PyUnicode_CheckExact(name) && PyUnicode_IsIdentifier(name) == 1 &&
           !(PyUnicode_GET_LENGTH(name) > 1 && PyUnicode_READ_CHAR(name, 0) == '_' &&
             PyUnicode_READ_CHAR(name, 1) == '_');
}

/* -1 with an exception.  The caller holds both. */
static int add(PyObject *found, PyObject *name, PyObject *value)
{
    PyObject *text = sspy_safe_text(value);
    int failed = text ? PyDict_SetItem(found, name, text) : -1;

    Py_XDECREF(text);
    return failed;
}

static bool is_full(PyObject *found)
{
    return PyDict_GET_SIZE(found) >= SSPY_LOCAL_VARIABLES;
}

/* ---- Functions --------------------------------------------------------------------------------*/

#if PY_VERSION_HEX >= 0x030C0000

/* Before 3.12, Python copies all variables at once; from then on nothing is changed in FRAME. */
static PyObject *begin_values(PyFrameObject *frame)
{
    return Py_NewRef((PyObject *)frame);
}

/* The value of NAME (new reference), or NULL without an exception: it has none now. */
static PyObject *value_of(PyObject *values, PyObject *name)
{
    PyObject *value = PyFrame_GetVar((PyFrameObject *)values, name);

    if (!value && PyErr_ExceptionMatches(PyExc_NameError))
        PyErr_Clear();
    return value;
}

#else

static PyObject *begin_values(PyFrameObject *frame)
{
    return PyFrame_GetLocals(frame);
}

static PyObject *value_of(PyObject *values, PyObject *name)
{
    PyObject *value = PyDict_CheckExact(values) ? PyDict_GetItemWithError(values, name) : NULL;

    return Py_XNewRef(value);
}

#endif

/* Add those of NAMES, a tuple, which is released. */
static int add_names(PyObject *found, PyObject *values, PyObject *names)
{
    Py_ssize_t count = names ? PyTuple_GET_SIZE(names) : 0;
    int failed = !names;

    for (Py_ssize_t i = 0; !failed && i < count && !is_full(found); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i), *value;

        if (!is_name(name) || PyDict_Contains(found, name))
            continue;
        value = value_of(values, name);
        failed = value ? add(found, name, value) : PyErr_Occurred() != NULL;
        Py_XDECREF(value);
    }
    Py_XDECREF(names);
    return failed;
}

static int add_of_function(PyObject *found, PyFrameObject *frame, PyCodeObject *code)
{
    PyObject *values = begin_values(frame);
    int failed = !values || add_names(found, values, PyCode_GetVarnames(code)) ||
                 add_names(found, values, PyCode_GetCellvars(code)) ||
                 add_names(found, values, PyCode_GetFreevars(code));

    Py_XDECREF(values);
    return failed;
}

/* ---- Modules and classes ----------------------------------------------------------------------*/

/* Without what a module is made of: modules, functions, classes. */
static int add_of_module(PyObject *found, PyFrameObject *frame)
{
    PyObject *values = PyFrame_GetLocals(frame), *name, *value;
    Py_ssize_t at = 0;
    int failed = !values;

    /* A metaclass can give a class another mapping, whose methods are code of the program. */
    while (!failed && PyDict_CheckExact(values) && !is_full(found) &&
           PyDict_Next(values, &at, &name, &value)) {
        if (!is_name(name) || !sspy_is_plain(value))
            continue;
        Py_INCREF(name);
        Py_INCREF(value);
        failed = add(found, name, value);
        Py_DECREF(name);
        Py_DECREF(value);
    }
    Py_XDECREF(values);
    return failed;
}

/* ---- Frames -----------------------------------------------------------------------------------*/

/* Python's tracebacks sort them, too. */
static PyObject *sorted(PyObject *found)
{
    PyObject *names = PyDict_Keys(found), *result = PyDict_New();
    int failed = !names || !result || PyList_Sort(names);

    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(names); i++) {
        PyObject *name = PyList_GET_ITEM(names, i);

        failed = PyDict_SetItem(result, name, PyDict_GetItemWithError(found, name));
    }
    Py_XDECREF(names);
    if (failed)
        Py_CLEAR(result);
    return result;
}

PyObject *sspy_variables_of(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyObject *found = PyDict_New(), *result = NULL;
    int failed = !found;

    if (!failed && code->co_flags & CO_OPTIMIZED)
        failed = add_of_function(found, frame, code);
    else if (!failed && !(sspy_may_be_foreign(code) && sspy_foreign_frame(frame, NULL)))
        failed = add_of_module(found, frame);
    if (!failed)
        result = sorted(found);
    Py_XDECREF(found);
    Py_DECREF(code);
    return result;
}
