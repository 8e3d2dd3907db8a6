/*
 * A native module whose errors are born in C, with causes, members and notes; and which reads those
 * of Python through the interfaces.  What it offers is said at each function.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "error_double.h"

#include <stacksplice/python.h>
#include <stacksplice/script.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 };

/* A language exception of C, and what it owns. */
typedef struct exception {
    error_double object;
    IRestrictedErrorInfo *members[MOST];
    const char *notes[MOST];
} exception;

static void drop(void *object)
{
    IUnknown *unknown = object;

    if (unknown)
        unknown->lpVtbl->Release(unknown);
}

static void end_exception(error_double *object)
{
    exception *x = (exception *)object;

    drop(object->cause);
    for (uint32_t i = 0; i < object->member_count; i++)
        drop(x->members[i]);
    for (uint32_t i = 0; i < object->note_count; i++)
        free((void *)x->notes[i]);
    free(x);
}

/* EXC's error with a reference, or NULL with an exception. */
static IRestrictedErrorInfo *error_of(PyObject *exc)
{
    IRestrictedErrorInfo *error = NULL;

    PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
    (void)stacksplice_python_originate();
    if (GetRestrictedErrorInfo(&error) != S_OK)
        PyErr_SetString(PyExc_RuntimeError, "no error");
    return error;
}

/* fail(cause, is_context, members, notes): an error of C, E_FAIL, arrives in Python. */
static PyObject *fail(PyObject *self, PyObject *arguments)
{
    PyObject *cause, *members, *notes;
    exception *x = calloc(1, sizeof *x);
    int is_context;

    if (!x || !PyArg_ParseTuple(arguments, "OpO!O!", &cause, &is_context, &PyList_Type, &members,
                                &PyList_Type, &notes)) {
        free(x);
        return NULL;
    }
    error_double_init(&x->object, 1);
    x->object.ended = end_exception;
    x->object.language = "c";
    x->object.type = "failure";
    x->object.message = "in C";
    x->object.message_length = 4;
    x->object.notes = x->notes;
    x->object.relation = is_context ? STACKSPLICE_RELATION_CONTEXT : STACKSPLICE_RELATION_CAUSE;
    if (cause != Py_None)
        x->object.cause = error_of(cause);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(members) && i < MOST; i++)
        x->members[x->object.member_count++] = error_of(PyList_GET_ITEM(members, i));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(notes) && i < MOST; i++)
        x->notes[x->object.note_count++] = strdup(PyUnicode_AsUTF8(PyList_GET_ITEM(notes, i)));
    x->object.members = x->object.member_count ? x->members : NULL;
    (void)stacksplice_originate(E_FAIL, "in C", 4, error_double_unknown(&x->object), NULL);
    drop(error_double_unknown(&x->object));
    return stacksplice_python_raise(E_FAIL);
}

/* transform(exc, hresult): C makes an error of its own of the one that EXC leaves with. */
static PyObject *transform(PyObject *self, PyObject *arguments)
{
    PyObject *exc;
    unsigned int hr;
    HRESULT old;

    if (!PyArg_ParseTuple(arguments, "OI", &exc, &hr))
        return NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
    old = stacksplice_python_originate();
    (void)RoTransformError(old, (HRESULT)hr, NULL);
    return stacksplice_python_raise((HRESULT)hr);
}

/* note(exc, text): C adds a note to the error that EXC leaves with, which comes back. */
static PyObject *note(PyObject *self, PyObject *arguments)
{
    IRestrictedErrorInfo *error;
    const char *text;
    PyObject *exc;
    HRESULT hr;

    if (!PyArg_ParseTuple(arguments, "Os", &exc, &text))
        return NULL;
    error = error_of(exc);
    hr = error ? stacksplice_add_note((IUnknown *)error, text, strlen(text)) : E_FAIL;
    drop(error);
    return PyLong_FromLong(hr);
}

static int append(const char *text, size_t length, void *data)
{
    PyObject *item = PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "replace");
    int failed = PyList_Append(data, item);

    Py_DECREF(item);
    return failed;
}

/* read(exc): (relation, members, members left out, notes, depth) of EXC's error, as C reads them.
 */
static PyObject *read_error(PyObject *self, PyObject *exc)
{
    IRestrictedErrorInfo *error = error_of(exc), *cause = NULL, *member = NULL;
    stacksplice_relation relation = STACKSPLICE_RELATION_NONE;
    uint32_t members = 0, left_out = 0, depth = 0, found = 0;
    PyObject *notes = PyList_New(0);

    (void)stacksplice_error_cause((IUnknown *)error, &cause, &relation);
    (void)stacksplice_error_group((IUnknown *)error, &members, &left_out);
    while (stacksplice_error_member((IUnknown *)error, found, &member) == S_OK) {
        drop(member);
        found++;
    }
    (void)stacksplice_error_notes((IUnknown *)error, append, notes);
    (void)stacksplice_error_depth((IUnknown *)error, &depth);
    drop(cause);
    drop(error);
    if (found != members)
        return PyErr_Format(PyExc_AssertionError, "%u members, not %u", found, members);
    return Py_BuildValue("(iIINI)", (int)relation, members, left_out, notes, depth);
}

/* set_cause(exc, object): what only C can do. */
static PyObject *set_cause(PyObject *self, PyObject *arguments)
{
    PyObject *exc, *cause;

    if (!PyArg_ParseTuple(arguments, "OO", &exc, &cause))
        return NULL;
    PyException_SetCause(exc, Py_NewRef(cause));
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"fail", fail, METH_VARARGS, NULL},           {"transform", transform, METH_VARARGS, NULL},
    {"note", note, METH_VARARGS, NULL},           {"read", read_error, METH_O, NULL},
    {"set_cause", set_cause, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "related_module",
                                        .m_methods = methods, .m_size = -1};

PyMODINIT_FUNC PyInit_related_module(void);
PyMODINIT_FUNC PyInit_related_module(void)
{
    return FAILED(stacksplice_python_import()) ? NULL : PyModule_Create(&definition);
}
