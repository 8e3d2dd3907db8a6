/*
 * Ties in other processes.
 *
 * Ties copy as None.  They pickle as a str, the report of the error in JSON.  Names mean something
 * in another process and addresses do not, and unpickling needs none of our code.
 */
#include "api/api.h"

/*
 * The report of TIES's error for another process; NULL, maybe with an exception, when there is
 * none.  The ties can be those of a copy, so the exception itself is unknown here and the error is
 * held by value.
 */
static PyObject *report_of(sspy_ties *self)
{
    sspy_state *state = self->interp->module_state;
    PyObject *module, *info, *report;

    if (!self->core.error || !state)
        return Py_XNewRef(self->remote);
    module = PyImport_ImportModule("stacksplice._errors.remote");
    info = module ? sspy_error_wrap(state, self->core.error, NULL) : NULL;
    report = info ? PyObject_CallMethod(module, "report", "OO", info,
                                        self->remote ? self->remote : Py_None)
                  : NULL;
    Py_XDECREF(info);
    Py_XDECREF(module);
    return report;
}

/* Return str(report), or NoneType() without a report, so that an exception always pickles. */
static PyObject *ties_reduce(PyObject *self, PyObject *arguments)
{
    PyObject *report = report_of((sspy_ties *)self);

    (void)arguments;
    if (report)
        return Py_BuildValue("(O(N))", (PyObject *)&PyUnicode_Type, report);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        return NULL; /* an interrupt */
    PyErr_Clear();
    return Py_BuildValue("(O())", (PyObject *)Py_TYPE(Py_None));
}

static PyObject *ties_copy(PyObject *self, PyObject *arguments)
{
    (void)self;
    (void)arguments;
    Py_RETURN_NONE;
}

PyMethodDef sspy_ties_methods[] = {
    {"__reduce__", ties_reduce, METH_NOARGS, NULL},
    {"__reduce_ex__", ties_reduce, METH_O, NULL},
    {"__copy__", ties_copy, METH_NOARGS, NULL},
    {"__deepcopy__", ties_copy, METH_O, NULL},
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
