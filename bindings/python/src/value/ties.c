/*
 * The ties of an exception: a private object in its __dict__ that keeps its error object.
 *
 * We bypass any __setattr__ (every BaseException has a __dict__) and use one interned key.  A
 * shallow copy of the exception shares the ties, so they record their owner.
 *
 * An unpickled exception has a str instead, a report (api/pickling.c).  It stays in the __dict__
 * until the exception gets its own ties, which keep it.
 *
 * If a class has its own __setattr__, the ties are beside the items of the __dict__ instead
 * (clean_dict.c), and are not pickled.
 */
#include "value/parts.h"

#include <stdlib.h>

/* Remove the entry KEY of TABLE, unless it now names another exception with its own ties: a copy
   that shares these ties can outlive the exception. */
static void forget_in(PyObject *table, PyObject *key, const sspy_ties *self)
{
    PyObject *reference = table ? PyDict_GetItemWithError(table, key) : NULL;
    PyObject *exc = reference ? sspy_weakref_get(reference) : NULL;
    sspy_ties *ties = exc ? sspy_ties_of(self->interp, exc) : NULL;

    if (reference && (!ties || ties == self))
        (void)PyDict_DelItem(table, key);
    Py_XDECREF(exc);
}

/* Remove this exception from the tables of foreign errors. */
static void forget_foreign(sspy_ties *self)
{
    sspy_state *state = self->interp->module_state;
    PyObject *key = state ? PyLong_FromVoidPtr(self->core.error) : NULL;

    if (key) {
        forget_in(state->foreign, key, self);
        forget_in(state->told, key, self);
    }
    Py_XDECREF(key);
    PyErr_Clear();
}

static void ties_dealloc(PyObject *object)
{
    sspy_ties *self = (sspy_ties *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject *pending = sspy_take_pending();
    stacksplice_section section;

    if (self->core.foreign)
        forget_foreign(self);
    section = sspy_enter(self->interp);
    stacksplice_ties_drop(&self->core);
    sspy_leave(section);
    free(self->raised);
    Py_XDECREF(self->remote);
    sspy_interp_unref(self->interp);
    sspy_set_pending(pending);
    type->tp_free(object);
    Py_DECREF(type);
}

PyTypeObject *sspy_ties_type(PyObject *module, PyMethodDef *methods)
{
    PyType_Slot slots[] = {
        {Py_tp_dealloc, ties_dealloc},
        {Py_tp_methods, methods},
        {Py_tp_doc, "Keeps the error object of an exception.  Private."},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "stacksplice._stacksplice.Ties",
        .basicsize = sizeof(sspy_ties),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };

    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}

static PyTypeObject *clean_type(const sspy_interp *interp)
{
    return interp->module_state ? interp->module_state->clean_dict_type : NULL;
}

static sspy_ties *ties_in(sspy_interp *interp, PyObject *dict, PyObject *key, PyObject *exc)
{
    PyObject **slot = sspy_clean_dict_ties(clean_type(interp), dict);
    PyObject *found = slot ? *slot : PyDict_GetItemWithError(dict, key);
    sspy_ties *ties = (sspy_ties *)found;

    if (!found) {
        PyErr_Clear();
        return NULL;
    }
    if (!interp->ties_type || !Py_IS_TYPE(found, interp->ties_type))
        return NULL;
    return ties->owner == (uintptr_t)exc ? ties : NULL;
}

sspy_ties *sspy_ties_of(sspy_interp *interp, PyObject *exc)
{
    bool is_exception = PyExceptionInstance_Check(exc); /* C code can set any object as a cause */
    PyObject *key = interp->ties_key;
    PyObject *dict = is_exception ? ((PyBaseExceptionObject *)exc)->dict : NULL;
    sspy_ties *ties = NULL;

    if (key && dict && PyDict_Check(dict)) /* without one it has no ties either */
        ties = ties_in(interp, dict, key, exc);
    return ties;
}

PyObject *sspy_remote_report(sspy_interp *interp, PyObject *exc)
{
    sspy_ties *ties = sspy_ties_of(interp, exc);
    PyObject *key = interp->ties_key, *dict = ((PyBaseExceptionObject *)exc)->dict;
    PyObject *found = NULL;

    if (ties)
        return ties->remote;
    if (key && dict && PyDict_Check(dict))
        found = PyDict_GetItemWithError(dict, key);
    if (!found)
        PyErr_Clear();
    return found && PyUnicode_CheckExact(found) ? found : NULL;
}

/* EXC's __dict__ as a new reference.  It becomes a clean dict if items could not be restored. */
static PyObject *dict_for_ties(sspy_interp *interp, PyObject *exc)
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

/* Put TIES into DICT; -1 with an exception. */
static int put_ties(sspy_interp *interp, PyObject *dict, PyObject *key, PyObject *ties)
{
    PyObject **slot = sspy_clean_dict_ties(clean_type(interp), dict);

    if (!slot)
        return PyDict_SetItem(dict, key, ties);
    Py_XSETREF(*slot, Py_NewRef(ties));
    return 0;
}

sspy_ties *sspy_ties_make(sspy_interp *interp, PyObject *exc)
{
    sspy_ties *ties = sspy_ties_of(interp, exc);
    PyObject *key = interp->ties_key, *dict;

    if (ties)
        return ties;
    if (!interp->ties_type) {
        PyErr_SetString(PyExc_RuntimeError, "the interpreter is being finalized");
        return NULL;
    }
    dict = dict_for_ties(interp, exc);
    ties = dict ? (sspy_ties *)interp->ties_type->tp_alloc(interp->ties_type, 0) : NULL;
    if (ties) {
        ties->owner = (uintptr_t)exc;
        ties->interp = interp;
        sspy_interp_ref(interp);
        if (PyDict_GET_SIZE(dict))
            ties->remote = Py_XNewRef(sspy_remote_report(interp, exc));
        if (put_ties(interp, dict, key, (PyObject *)ties))
            Py_CLEAR(ties);
        else
            Py_DECREF(ties); /* the dict holds it */
    }
    Py_XDECREF(dict);
    return ties;
}

void sspy_ties_set_error(sspy_ties *ties, IScriptErrorInfo *error, bool foreign)
{
    stacksplice_section section;

    Py_INCREF(ties); /* dropping may empty the exception's __dict__ */
    if (ties->core.foreign)
        forget_foreign(ties); /* runs Python code, so outside any section */
    section = sspy_enter(ties->interp);
    stacksplice_ties_set_error(&ties->core, error, foreign);
    sspy_leave(section);
    Py_DECREF(ties);
}

uintptr_t *sspy_ties_take_raised(sspy_ties *ties, uint32_t *count)
{
    uintptr_t *frames = ties->raised;

    *count = ties->raised_count;
    (void)stacksplice_settle(frames, *count, ties->raised_epoch);
    ties->raised = NULL;
    ties->raised_count = 0;
    return frames;
}
