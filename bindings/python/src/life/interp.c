/*
 * The record of one interpreter: where releases from anywhere meet the interpreter.
 *
 * A release asks the interpreter nothing.  After finalization even PyGILState_Check lies, so the
 * only thing that says "the lock is ours" is a section that we entered ourselves on this thread.
 * Elsewhere the language exception goes onto the record's list and one pending call is asked for.
 *
 * Errors outlive the interpreter, in slots and in the hands of C, but as texts: an exception that
 * one of them held would keep its frames and their modules for ever.  So each exception is let go
 * when the program is through (atexit), and once more when the record goes.
 */
#include "life/binding.h"
#include "frames/token_cache.h"

#include <pthread.h>
#include <stdlib.h>

#define RECORD_KEY "stacksplice._stacksplice.interp"
#define ANCHOR_KEY "__stacksplice__" /* in the __dict__ of exceptions */

static _Thread_local sspy_interp *current_section;

static _Atomic(sspy_interp *) main_record; /* (ATOMIC) of the main interpreter, for quick finding */

/* Guards "not dead, so Py_AddPendingCall is allowed".  Nothing else happens under it. */
static pthread_mutex_t wake_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void lock_for_fork(void)
{
    pthread_mutex_lock(&wake_lock);
}

static void unlock_after_fork(void)
{
    pthread_mutex_unlock(&wake_lock);
}

static void register_fork_handlers(void)
{
    (void)pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
}

void sspy_interp_ref(sspy_interp *interp)
{
    atomic_fetch_add(&interp->refs, 1);
}

void sspy_interp_unref(sspy_interp *interp)
{
    if (interp && atomic_fetch_sub(&interp->refs, 1) == 1)
        free(interp);
}

/* The list, taken over, without running Python code: for an interpreter that is gone. */
static void abandon_released(sspy_interp *interp)
{
    sspy_exception *exception = atomic_exchange(&interp->released, NULL);

    while (exception) {
        sspy_exception *next = exception->next_released;

        atomic_store(&exception->queued, false);
        sspy_exception_unref_inside(exception);
        exception = next;
    }
}

/* ---- What is held -----------------------------------------------------------------------------*/

/* Put EXCEPTION at the head of LIST. */
static void link_holding(sspy_exception **list, sspy_exception *exception)
{
    exception->next_holding = *list;
    exception->holding_link = list;
    if (*list)
        (*list)->holding_link = &exception->next_holding;
    *list = exception;
}

static void unlink_holding(sspy_exception *exception)
{
    *exception->holding_link = exception->next_holding;
    if (exception->next_holding)
        exception->next_holding->holding_link = exception->holding_link;
}

void sspy_interp_hold(sspy_exception *exception, PyObject *object)
{
    sspy_interp *interp = exception->interp;

    if (interp->ends)
        return;
    exception->object = Py_NewRef(object);
    link_holding(&interp->holding, exception);
}

PyObject *sspy_interp_take(sspy_exception *exception)
{
    PyObject *object = exception->object;

    if (object)
        unlink_holding(exception);
    exception->object = NULL;
    return object;
}

/* Drop the Python objects of all errors that hold one now; the errors live on by value. */
static void let_go(sspy_interp *interp)
{
    sspy_exception *list = interp->holding;
    stacksplice_saved_error saved;
    PyObject *pending;

    if (!list)
        return;
    interp->holding = NULL;
    list->holding_link = &list;
    /* What is dropped may run code of Python that crosses borders itself. */
    (void)stacksplice_save_error(&saved);
    pending = sspy_take_pending();
    while (list)
        Py_DECREF(sspy_interp_take(list));
    sspy_set_pending(pending);
    (void)stacksplice_restore_error(&saved);
}

static PyObject *let_go_at_exit(PyObject *self, PyObject *unused)
{
    sspy_interp *interp = sspy_interp_current();

    (void)self;
    (void)unused;
    if (!interp)
        return NULL;
    let_go(interp);
    Py_RETURN_NONE;
}

static PyMethodDef let_go_def = {"let_go", let_go_at_exit, METH_NOARGS, NULL};

/* Where that fails, the end of the record has to do. */
static void register_at_exit(void)
{
    PyObject *module = PyImport_ImportModule("atexit");
    PyObject *function = module ? PyCFunction_New(&let_go_def, NULL) : NULL;
    PyObject *result = function ? PyObject_CallMethod(module, "register", "O", function) : NULL;

    PyErr_Clear();
    Py_XDECREF(result);
    Py_XDECREF(function);
    Py_XDECREF(module);
}

/* ---- The record -------------------------------------------------------------------------------*/

/* Runs when the interpreter's dict is cleared: after all modules, with a thread state still. */
static void record_destructor(PyObject *capsule)
{
    sspy_interp *interp = PyCapsule_GetPointer(capsule, RECORD_KEY);

    interp->ends = true;
    let_go(interp);
    pthread_mutex_lock(&wake_lock);
    atomic_store(&interp->dead, true);
    pthread_mutex_unlock(&wake_lock);
    interp->anchor_type = NULL;
    if (atomic_load(&main_record) == interp)
        atomic_store(&main_record, NULL);
    Py_CLEAR(interp->anchor_key);
    sspy_cache_end(interp->state);
    abandon_released(interp);
    sspy_interp_unref(interp);
}

static sspy_interp *record_new(PyObject *dict)
{
    sspy_interp *interp = calloc(1, sizeof *interp);
    PyObject *capsule;
    int failed;

    if (!interp) {
        PyErr_NoMemory();
        return NULL;
    }
    pthread_once(&fork_once, register_fork_handlers);
    atomic_init(&interp->refs, 1);
    interp->state = PyInterpreterState_Get();
    interp->id = PyInterpreterState_GetID(interp->state);
    interp->anchor_key = PyUnicode_InternFromString(ANCHOR_KEY);
    capsule = interp->anchor_key ? PyCapsule_New(interp, RECORD_KEY, record_destructor) : NULL;
    if (!capsule) {
        Py_XDECREF(interp->anchor_key);
        free(interp);
        return NULL;
    }
    failed = PyDict_SetItemString(dict, RECORD_KEY, capsule);
    Py_DECREF(capsule);
    if (failed)
        return NULL;
    if (interp->state == PyInterpreterState_Main())
        atomic_store(&main_record, interp);
    register_at_exit();
    return interp;
}

bool sspy_interp_lives(void)
{
    /* Py_IsInitialized says no already when modules, and the objects in them, are finalized. */
    return Py_IsInitialized() || atomic_load(&main_record);
}

sspy_interp *sspy_interp_current(void)
{
    PyInterpreterState *state = PyInterpreterState_Get();
    PyObject *dict, *capsule;

    /* The main interpreter outlives the others; its record does while its lock is held. */
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

sspy_interp *sspy_section_interp(void)
{
    return current_section;
}

sspy_section sspy_enter(sspy_interp *interp)
{
    sspy_section section = {current_section};

    current_section = interp;
    return section;
}

void sspy_leave(sspy_section section)
{
    sspy_interp *interp = current_section;

    current_section = section.outer;
    sspy_frames_learn();
    /* An inner section leaves the work to the outermost: Python code must not run inside one. */
    if (!section.outer && interp && atomic_load(&interp->released))
        sspy_interp_drain(interp);
}

void sspy_interp_drain(sspy_interp *interp)
{
    sspy_exception *exception = atomic_exchange(&interp->released, NULL);
    stacksplice_saved_error saved;
    PyObject *pending;

    if (!exception)
        return;
    /* What is dropped may run code of Python that crosses borders itself. */
    (void)stacksplice_save_error(&saved);
    pending = sspy_take_pending();
    while (exception) {
        sspy_exception *next = exception->next_released;

        /* Cleared before the count is read: a release after this puts it on the list anew. */
        atomic_store(&exception->queued, false);
        sspy_exception_drop(exception);
        sspy_exception_unref_inside(exception);
        exception = next;
    }
    sspy_set_pending(pending);
    (void)stacksplice_restore_error(&saved);
}

/* Py_AddPendingCall's call-back.  It may run in another interpreter than was meant: then the list
   waits for the next entry of its own. */
static int drain_pending(void *data)
{
    sspy_interp *interp = data;

    atomic_store(&interp->wake_pending, false);
    if (!atomic_load(&interp->dead) && PyInterpreterState_Get() == interp->state)
        sspy_interp_drain(interp);
    sspy_interp_unref(interp);
    return 0;
}

static void wake(sspy_interp *interp)
{
    bool asked = false;

    if (atomic_exchange(&interp->wake_pending, true))
        return;
    sspy_interp_ref(interp);
    pthread_mutex_lock(&wake_lock);
    if (!atomic_load(&interp->dead))
        asked = Py_AddPendingCall(drain_pending, interp) == 0;
    pthread_mutex_unlock(&wake_lock);
    if (!asked) {
        atomic_store(&interp->wake_pending, false);
        sspy_interp_unref(interp);
    }
}

void sspy_interp_released(sspy_interp *interp, sspy_exception *exception)
{
    sspy_exception *head;

    if (atomic_load(&interp->dead) || atomic_exchange(&exception->queued, true)) {
        sspy_exception_unref_inside(exception); /* abandoned, or on the list already */
        return;
    }
    head = atomic_load(&interp->released);
    do {
        exception->next_released = head;
    } while (!atomic_compare_exchange_weak(&interp->released, &head, exception));
    if (atomic_load(&interp->dead))
        abandon_released(interp);
    else if (current_section != interp)
        wake(interp);
}
