/*
 * The anchor: a private object in an exception's __dict__ that keeps its error object.
 *
 * It is put there past any __setattr__ (every BaseException has a __dict__) under one interned key.
 * A shallow copy of the exception shares the anchor, so it records whose it is; it copies as None.
 * It pickles as a str, the report of the error in JSON: names mean something in another process,
 * addresses do not, and who unpickles needs none of our code.  There the str stands in the
 * exception's __dict__ until the exception gets an anchor of its own, which keeps it.
 * Where a class has a __setattr__ of its own, the anchor is kept beside the items of the __dict__
 * instead (clean_dict.c), and is not pickled.
 */
#include "life/binding.h"

#include <stdlib.h>

/* The table of foreign errors' exceptions forgets this one, unless it names another by now, which
   has an anchor of its own: a copy that shares this anchor can outlive the exception. */
static void forget_foreign(sspy_anchor *self)
{
    sspy_state *state = self->interp->module_state;
    PyObject *key = state && state->foreign ? PyLong_FromVoidPtr(self->error) : NULL;
    PyObject *reference = key ? PyDict_GetItemWithError(state->foreign, key) : NULL;
    PyObject *exc = reference ? sspy_weakref_get(reference) : NULL;
    sspy_anchor *anchor = exc ? sspy_anchor_of(self->interp, exc) : NULL;

    if (reference && (!anchor || anchor == self))
        (void)PyDict_DelItem(state->foreign, key);
    Py_XDECREF(exc);
    Py_XDECREF(key);
    PyErr_Clear();
}

/* In no section: forgetting runs Python code. */
static void drop_error(sspy_anchor *self)
{
    IScriptErrorInfo *error = self->error;
    bool foreign = self->foreign;
    sspy_section section;

    if (!error)
        return;
    if (foreign)
        forget_foreign(self);
    self->error = NULL;
    section = sspy_enter(self->interp);
    if (foreign)
        error->lpVtbl->Release(error);
    else
        error->lpVtbl->ReleaseInside(error);
    sspy_leave(section);
}

static void anchor_dealloc(PyObject *object)
{
    sspy_anchor *self = (sspy_anchor *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject *pending = sspy_take_pending();

    drop_error(self);
    if (self->exception)
        sspy_exception_unref_inside(self->exception);
    free(self->raised);
    Py_XDECREF(self->remote);
    sspy_interp_unref(self->interp);
    sspy_set_pending(pending);
    type->tp_free(object);
    Py_DECREF(type);
}

/*
 * The report of ANCHOR's error for another process; NULL, maybe with an exception, when there is
 * none.  The exception itself is not in hand: the anchor can be that of a copy.  So the error is
 * held by value.
 */
static PyObject *report_of(sspy_anchor *self)
{
    sspy_state *state = self->interp->module_state;
    PyObject *module, *info, *report;

    if (!self->error || !state)
        return Py_XNewRef(self->remote);
    module = PyImport_ImportModule("stacksplice._remote");
    info = module ? sspy_error_wrap(state, self->error, NULL) : NULL;
    report = info ? PyObject_CallMethod(module, "report", "OO", info,
                                        self->remote ? self->remote : Py_None)
                  : NULL;
    Py_XDECREF(info);
    Py_XDECREF(module);
    return report;
}

/* str(report); NoneType() without one: an exception can always be pickled. */
static PyObject *anchor_reduce(PyObject *self, PyObject *arguments)
{
    PyObject *report = report_of((sspy_anchor *)self);

    (void)arguments;
    if (report)
        return Py_BuildValue("(O(N))", (PyObject *)&PyUnicode_Type, report);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        return NULL; /* an interrupt */
    PyErr_Clear();
    return Py_BuildValue("(O())", (PyObject *)Py_TYPE(Py_None));
}

static PyObject *anchor_copy(PyObject *self, PyObject *arguments)
{
    (void)self;
    (void)arguments;
    Py_RETURN_NONE;
}

static PyMethodDef anchor_methods[] = {
    {"__reduce__", anchor_reduce, METH_NOARGS, NULL},
    {"__reduce_ex__", anchor_reduce, METH_O, NULL},
    {"__copy__", anchor_copy, METH_NOARGS, NULL},
    {"__deepcopy__", anchor_copy, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot anchor_slots[] = {
    {Py_tp_dealloc, anchor_dealloc},
    {Py_tp_methods, anchor_methods},
    {Py_tp_doc, "Keeps the error object of an exception.  Private."},
    {0, NULL},
};

PyType_Spec sspy_anchor_spec = {
    .name = "stacksplice._stacksplice.Anchor",
    .basicsize = sizeof(sspy_anchor),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = anchor_slots,
};

static PyTypeObject *clean_type(const sspy_interp *interp)
{
    return interp->module_state ? interp->module_state->clean_dict_type : NULL;
}

static sspy_anchor *anchor_in(sspy_interp *interp, PyObject *dict, PyObject *key, PyObject *exc)
{
    PyObject **slot = sspy_clean_dict_anchor(clean_type(interp), dict);
    PyObject *found = slot ? *slot : PyDict_GetItemWithError(dict, key);
    sspy_anchor *anchor = (sspy_anchor *)found;

    if (!found) {
        PyErr_Clear();
        return NULL;
    }
    if (!interp->anchor_type || !Py_IS_TYPE(found, interp->anchor_type))
        return NULL;
    return anchor->owner == (uintptr_t)exc ? anchor : NULL;
}

sspy_anchor *sspy_anchor_of(sspy_interp *interp, PyObject *exc)
{
    bool is_exception = PyExceptionInstance_Check(exc); /* C code can set any object as a cause */
    PyObject *key = interp->anchor_key;
    PyObject *dict = is_exception ? ((PyBaseExceptionObject *)exc)->dict : NULL;
    sspy_anchor *anchor = NULL;

    if (key && dict && PyDict_Check(dict)) /* without one it has no anchor either */
        anchor = anchor_in(interp, dict, key, exc);
    return anchor;
}

PyObject *sspy_remote_report(sspy_interp *interp, PyObject *exc)
{
    sspy_anchor *anchor = sspy_anchor_of(interp, exc);
    PyObject *key = interp->anchor_key, *dict = ((PyBaseExceptionObject *)exc)->dict;
    PyObject *found = NULL;

    if (anchor)
        return anchor->remote;
    if (key && dict && PyDict_Check(dict))
        found = PyDict_GetItemWithError(dict, key);
    if (!found)
        PyErr_Clear();
    return found && PyUnicode_CheckExact(found) ? found : NULL;
}

/* EXC's __dict__ as a new reference, made a clean one where an item could not be set again. */
static PyObject *dict_for_anchor(sspy_interp *interp, PyObject *exc)
{
    PyTypeObject *type = clean_type(interp);
    PyObject *dict = PyObject_GenericGetDict(exc, NULL);
    PyObject *clean;

    if (!dict || !type || !PyDict_CheckExact(dict) ||
        Py_TYPE(exc)->tp_setattro == PyObject_GenericSetAttr)
        return dict;
    clean = sspy_clean_dict_install(type, exc, dict);
    Py_DECREF(dict);
    return clean;
}

/* Let DICT hold ANCHOR; -1 with an exception. */
static int put_anchor(sspy_interp *interp, PyObject *dict, PyObject *key, PyObject *anchor)
{
    PyObject **slot = sspy_clean_dict_anchor(clean_type(interp), dict);

    if (!slot)
        return PyDict_SetItem(dict, key, anchor);
    Py_XSETREF(*slot, Py_NewRef(anchor));
    return 0;
}

sspy_anchor *sspy_anchor_make(sspy_interp *interp, PyObject *exc)
{
    sspy_anchor *anchor = sspy_anchor_of(interp, exc);
    PyObject *key = interp->anchor_key, *dict;

    if (anchor)
        return anchor;
    if (!interp->anchor_type) {
        PyErr_SetString(PyExc_RuntimeError, "the interpreter is being finalized");
        return NULL;
    }
    dict = dict_for_anchor(interp, exc);
    anchor = dict ? (sspy_anchor *)interp->anchor_type->tp_alloc(interp->anchor_type, 0) : NULL;
    if (anchor) {
        anchor->owner = (uintptr_t)exc;
        anchor->interp = interp;
        sspy_interp_ref(interp);
        anchor->remote = Py_XNewRef(sspy_remote_report(interp, exc));
        if (put_anchor(interp, dict, key, (PyObject *)anchor))
            Py_CLEAR(anchor);
        else
            Py_DECREF(anchor); /* the dict holds it */
    }
    Py_XDECREF(dict);
    return anchor;
}

void sspy_anchor_set_error(sspy_anchor *anchor, IScriptErrorInfo *error, bool foreign)
{
    if (foreign)
        error->lpVtbl->AddRef(error);
    else
        error->lpVtbl->AddInside(error);
    Py_INCREF(anchor); /* what is dropped may empty the exception's __dict__ */
    drop_error(anchor);
    anchor->error = error;
    anchor->foreign = foreign;
    Py_DECREF(anchor);
}

void sspy_anchor_set_exception(sspy_anchor *anchor, sspy_exception *exception)
{
    sspy_exception *former = anchor->exception;

    sspy_exception_ref_inside(exception);
    anchor->exception = exception;
    if (former)
        sspy_exception_unref_inside(former);
}

IScriptErrorInfo *sspy_anchor_hold(sspy_anchor *anchor, PyObject *exc)
{
    IScriptErrorInfo *error = anchor->error;

    if (!error)
        return NULL;
    /* The error asks its language exception for an outside reference when its own count rises from
       0; with one taken here first, it finds the exception in hand. */
    if (anchor->exception)
        sspy_exception_hold(anchor->exception, exc);
    error->lpVtbl->AddRef(error);
    if (anchor->exception)
        sspy_exception_release(anchor->exception);
    return error;
}
