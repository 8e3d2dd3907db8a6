/*
 * The record of one interpreter, which outlives it.
 *
 * Errors outlive the interpreter, in slots and in C code, but only by value: an exception that one
 * of them held would keep its frames and their modules for ever.  So we drop each exception when
 * the program ends (atexit), and again when the record is destroyed.
 */
#include "life/life.h"

#include <stdlib.h>

#define RECORD_KEY "stacksplice._stacksplice.interp"
#define TIES_KEY "__stacksplice__" /* of reports in pickles */

static _Atomic(sspy_interp *) main_record; /* (ATOMIC) of the main interpreter, for quick lookup */

static PyObject *let_go_at_exit(PyObject *self, PyObject *unused)
{
    sspy_interp *interp = sspy_interp_current();

    (void)self;
    (void)unused;
    if (!interp)
        return NULL;
    stacksplice_owner_drop_all(interp->owner, NULL);
    Py_RETURN_NONE;
}

static PyMethodDef let_go_def = {"let_go", let_go_at_exit, METH_NOARGS, NULL};

/* -1 with an exception. */
static int let_go_when_it_ends(void)
{
    PyObject *module = PyImport_ImportModule("atexit");
    PyObject *function = module ? PyCFunction_New(&let_go_def, NULL) : NULL;
    PyObject *result = function ? PyObject_CallMethod(module, "register", "O", function) : NULL;

    Py_XDECREF(function);
    Py_XDECREF(module);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* Runs when the interpreter's dict is cleared: after all modules, but with a thread state. */
static void record_destructor(PyObject *capsule)
{
    sspy_interp *interp = PyCapsule_GetPointer(capsule, RECORD_KEY);

    sspy_owner_end(interp);
    interp->ties_type = NULL;
    if (atomic_load(&main_record) == interp)
        atomic_store(&main_record, NULL);
    Py_CLEAR(interp->ties_key);
    sspy_interp_unref(interp);
}

static sspy_interp *record_new(PyObject *dict)
{
    sspy_interp *interp = calloc(1, sizeof *interp);
    PyObject *capsule = NULL;
    int failed;

    if (!interp) {
        PyErr_NoMemory();
        return NULL;
    }
    atomic_init(&interp->refs, 1);
    interp->state = PyInterpreterState_Get();
    interp->id = PyInterpreterState_GetID(interp->state);
    interp->ties_key = PyUnicode_InternFromString(TIES_KEY);
    if (!sspy_owner_begin(interp))
        PyErr_NoMemory();
    else if (interp->ties_key)
        capsule = PyCapsule_New(interp, RECORD_KEY, record_destructor);
    if (!capsule) {
        Py_XDECREF(interp->ties_key);
        if (interp->owner)
            stacksplice_owner_close(interp->owner);
        sspy_interp_unref(interp);
        return NULL;
    }
    failed = PyDict_SetItemString(dict, RECORD_KEY, capsule);
    Py_DECREF(capsule);
    if (failed)
        return NULL;
    if (interp->state == PyInterpreterState_Main())
        atomic_store(&main_record, interp);
    if (let_go_when_it_ends())
        PyErr_Clear(); /* the end of the record drops the exceptions */
    return interp;
}

bool sspy_interp_lives(void)
{
    /* Py_IsInitialized is already false while modules, and the objects in them, are finalized. */
    return Py_IsInitialized() || atomic_load(&main_record);
}

PyThreadState *sspy_thread_state_here(void)
{
    PyThreadState *now = sspy_current_thread_state();

#if !SSPY_CURRENT_IS_THREAD_LOCAL
    if (now && now != PyGILState_GetThisThreadState())
        return NULL;
#endif
    return now;
}

sspy_interp *sspy_interp_current(void)
{
    PyInterpreterState *state = PyInterpreterState_Get();
    PyObject *dict, *capsule;

    /* The main interpreter outlives the others, and its record exists while its lock is held. */
    if (state == PyInterpreterState_Main() && atomic_load(&main_record))
        return atomic_load(&main_record);
    dict = PyInterpreterState_GetDict(state);
    capsule = dict ? PyDict_GetItemString(dict, RECORD_KEY) : NULL;
    if (!dict) {
        PyErr_SetString(PyExc_RuntimeError, "this interpreter has no dict");
        return NULL;
    }
    return capsule ? PyCapsule_GetPointer(capsule, RECORD_KEY) : record_new(dict);
}

sspy_state *sspy_state_current(void)
{
    sspy_interp *interp = sspy_interp_current();

    if (interp && !interp->module_state)
        PyErr_SetString(PyExc_SystemError, "stacksplice is not imported in this interpreter");
    return interp ? interp->module_state : NULL;
}

void *sspy_record(sspy_state *state, unsigned whose, size_t size)
{
    if (!state->records[whose])
        state->records[whose] = calloc(1, size);
    return state->records[whose];
}
