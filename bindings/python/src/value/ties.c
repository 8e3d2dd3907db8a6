/*
 * The ties of an exception: a private object that goes with it and keeps its error object.
 *
 * They stand in a word that every exception has and that CPython clears, copies nowhere and does
 * not use itself: `notes`, made for __notes__, which then became an attribute.  So no program sees
 * them.
 *
 * An unpickled exception has a str among the items of its __dict__, a report (api/pickling.c).
 */
#include "value/parts.h"

#include <stdlib.h>

/* Remove the entry KEY of TABLE, unless it now names another exception. */
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
    sspy_interp_unref(self->interp);
    sspy_set_pending(pending);
    type->tp_free(object);
    Py_DECREF(type);
}

PyTypeObject *sspy_ties_type(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_tp_dealloc, ties_dealloc},
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

static PyObject **ties_place(PyObject *exc)
{
    return &((PyBaseExceptionObject *)exc)->notes;
}

int sspy_ties_check(void)
{
    PyObject *exc = PyObject_CallNoArgs(PyExc_Exception);
    PyObject *result = exc ? PyObject_CallMethod(exc, "add_note", "s", "note") : NULL;
    bool is_used = result && *ties_place(exc);

    if (is_used)
        PyErr_SetString(PyExc_ImportError, "this version of CPython has no place for ties");
    Py_XDECREF(result);
    Py_XDECREF(exc);
    return result && !is_used ? 0 : -1;
}

sspy_ties *sspy_ties_of(sspy_interp *interp, PyObject *exc)
{
    bool is_exception = PyExceptionInstance_Check(exc); /* C code can set any object as a cause */
    PyObject *found = is_exception ? *ties_place(exc) : NULL;
    bool is_ours = found && interp->ties_type && Py_IS_TYPE(found, interp->ties_type);

    return is_ours ? (sspy_ties *)found : NULL;
}

PyObject *sspy_remote_report(sspy_interp *interp, PyObject *exc)
{
    PyObject *key = interp->ties_key, *dict = ((PyBaseExceptionObject *)exc)->dict;
    PyObject *found = key && dict && PyDict_Check(dict) ? PyDict_GetItemWithError(dict, key) : NULL;

    if (!found)
        PyErr_Clear();
    return found && PyUnicode_CheckExact(found) ? found : NULL;
}

static sspy_ties *new_ties(sspy_interp *interp, PyObject *exc)
{
    sspy_ties *ties;

    if (!interp->ties_type) {
        PyErr_SetString(PyExc_RuntimeError, "the interpreter is being finalized");
        return NULL;
    }
    if (*ties_place(exc)) {
        PyErr_SetString(PyExc_TypeError, "the place of the ties is taken");
        return NULL;
    }
    ties = (sspy_ties *)interp->ties_type->tp_alloc(interp->ties_type, 0);
    if (ties) {
        ties->interp = interp;
        sspy_interp_ref(interp);
        *ties_place(exc) = (PyObject *)ties;
    }
    return ties;
}

sspy_ties *sspy_ties_make(sspy_interp *interp, PyObject *exc)
{
    sspy_ties *ties = sspy_ties_of(interp, exc);

    return ties ? ties : new_ties(interp, exc);
}

sspy_ties *sspy_ties_make_to_cross(sspy_interp *interp, PyObject *exc)
{
    sspy_ties *ties = sspy_ties_make(interp, exc);

    if (ties && interp->module_state && !ties->is_carried) {
        ties->is_carried = true; /* also where it cannot be: ask once */
        sspy_carrying_dict_install(interp->module_state->carrying_dict_type, exc, ties);
    }
    return ties;
}

void sspy_ties_set_error(sspy_ties *ties, IScriptErrorInfo *error, bool foreign)
{
    stacksplice_section section;

    Py_INCREF(ties); /* dropping may be the end of the exception */
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
