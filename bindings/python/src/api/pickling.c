/*
 * Errors in other processes.
 *
 * An exception that crossed a border pickles with one item more in its __dict__: the report of its
 * error in JSON.  Names mean something in another process and addresses do not, and unpickling
 * needs none of our code.  Copies have no item more.
 */
#include "api/api.h"

/* The report of TIES's error for another process, which keeps REMOTE, a former one or NULL; NULL,
   maybe with an exception, when there is none. */
static PyObject *report_of(sspy_ties *ties, PyObject *remote)
{
    sspy_state *state = ties->interp->module_state;
    PyObject *module, *info, *report;

    if (!ties->core.error || !state)
        return NULL;
    /* By value: the pickler need not have the exception itself. */
    module = PyImport_ImportModule("stacksplice._errors.remote");
    info = module ? sspy_error_wrap(state, ties->core.error, NULL) : NULL;
    report =
        info ? PyObject_CallMethod(module, "report", "OO", info, remote ? remote : Py_None) : NULL;
    Py_XDECREF(info);
    Py_XDECREF(module);
    return report;
}

/* Put the report of TIES's error into ITEMS, if there is one; -1 with an exception. */
static int add_report(PyObject *items, sspy_ties *ties)
{
    PyObject *key = ties->interp->ties_key;
    PyObject *remote = key ? PyDict_GetItemWithError(items, key) : NULL, *report;
    int failed = 0;

    if (remote && !PyUnicode_CheckExact(remote))
        remote = NULL;
    report = key && !PyErr_Occurred() ? report_of(ties, remote) : NULL;
    if (report)
        failed = PyDict_SetItem(items, key, report);
    else if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        return -1; /* an interrupt */
    else
        PyErr_Clear(); /* an exception always pickles */
    Py_XDECREF(report);
    return failed;
}

/* Reduce to dict(items), with the report. */
static PyObject *carrying_dict_reduce(PyObject *self, PyObject *arguments)
{
    PyObject *items = PyDict_Copy(self);

    (void)arguments;
    if (items && add_report(items, sspy_carrying_dict_ties(self)))
        Py_CLEAR(items);
    return items ? Py_BuildValue("(O(N))", (PyObject *)&PyDict_Type, items) : NULL;
}

static PyObject *carrying_dict_copy(PyObject *self, PyObject *arguments)
{
    (void)arguments;
    return PyDict_Copy(self);
}

static PyObject *carrying_dict_deepcopy(PyObject *self, PyObject *memo)
{
    PyObject *module = PyImport_ImportModule("copy"), *items = PyDict_Copy(self);
    PyObject *result =
        module && items ? PyObject_CallMethod(module, "deepcopy", "OO", items, memo) : NULL;

    Py_XDECREF(items);
    Py_XDECREF(module);
    return result;
}

PyMethodDef sspy_carrying_dict_methods[] = {
    {"__reduce__", carrying_dict_reduce, METH_NOARGS, NULL},
    {"__reduce_ex__", carrying_dict_reduce, METH_O, NULL},
    {"__copy__", carrying_dict_copy, METH_NOARGS, NULL},
    {"__deepcopy__", carrying_dict_deepcopy, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

PyObject *sspy_remote_info(sspy_state *state, PyObject *exc)
{
    PyObject *report = sspy_remote_report(state->interp, exc), *module, *info;

    if (!report)
        Py_RETURN_NONE;
    Py_INCREF(report);
    module = PyImport_ImportModule("stacksplice._errors.remote");
    info = module ? PyObject_CallMethod(module, "read", "O", report) : NULL;
    Py_XDECREF(module);
    Py_DECREF(report);
    return info;
}
