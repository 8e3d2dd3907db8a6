/*
 * Sections, and where releases from anywhere meet the interpreter.
 *
 * A release asks the interpreter nothing.  After finalization even PyGILState_Check lies, so the
 * only thing that says "the lock is ours" is a section that we entered ourselves on this thread.
 * Elsewhere what was released goes onto the record's list and one pending call is asked for.
 */
#include "life/life.h"

#include <pthread.h>
#include <stdlib.h>

static _Thread_local sspy_interp *current_section;

static struct {
    _Atomic(void (*)(void)) left;
    _Atomic(void (*)(PyInterpreterState *)) ended;
} watcher;

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

/* ---- What is held -----------------------------------------------------------------------------*/

void sspy_held_begin(sspy_held *held, sspy_interp *interp, void (*destroy)(sspy_held *held))
{
    atomic_init(&held->inside, 1);
    sspy_interp_ref(interp);
    held->interp = interp;
    held->destroy = destroy;
}

void sspy_held_ref_inside(sspy_held *held)
{
    atomic_fetch_add(&held->inside, 1);
}

void sspy_held_unref_inside(sspy_held *held)
{
    sspy_interp *interp = held->interp;

    if (atomic_fetch_sub(&held->inside, 1) != 1)
        return;
    held->destroy(held);
    sspy_interp_unref(interp);
}

void sspy_held_keep(sspy_held *held, PyObject *object)
{
    sspy_held **list = &held->interp->holding;

    if (held->interp->ends)
        return;
    held->object = Py_NewRef(object);
    held->next_holding = *list;
    held->holding_link = list;
    if (*list)
        (*list)->holding_link = &held->next_holding;
    *list = held;
}

/* HELD's object, which is the caller's now; NULL if it holds none. */
static PyObject *take(sspy_held *held)
{
    PyObject *object = held->object;

    if (object) {
        *held->holding_link = held->next_holding;
        if (held->next_holding)
            held->next_holding->holding_link = held->holding_link;
    }
    held->object = NULL;
    return object;
}

/* Around code that drops objects: what is dropped may run Python code that crosses borders. */
typedef struct aside {
    stacksplice_saved_error error;
    PyObject *pending;
} aside;

static void put_aside(aside *a)
{
    (void)stacksplice_save_error(&a->error);
    a->pending = sspy_take_pending();
}

static void put_back(aside *a)
{
    sspy_set_pending(a->pending);
    (void)stacksplice_restore_error(&a->error);
}

void sspy_held_let_go(sspy_interp *interp)
{
    sspy_held *list = interp->holding;
    aside a;

    if (!list)
        return;
    interp->holding = NULL;
    list->holding_link = &list;
    put_aside(&a);
    while (list)
        Py_DECREF(take(list));
    put_back(&a);
}

/* ---- What was released ------------------------------------------------------------------------*/

/* Take over the list of INTERP; unless it is abandoned, drop the objects that nobody uses. */
static void empty_list(sspy_interp *interp, bool abandoned)
{
    sspy_held *held = atomic_exchange(&interp->released, NULL);

    while (held) {
        sspy_held *next = held->next_released;

        /* Cleared before the count is read: a release after this puts it on the list anew. */
        atomic_store(&held->queued, false);
        if (!abandoned && atomic_load(&held->outside) == 0)
            Py_XDECREF(take(held));
        sspy_held_unref_inside(held);
        held = next;
    }
}

void sspy_held_drain(sspy_interp *interp)
{
    aside a;

    if (!atomic_load(&interp->released))
        return;
    put_aside(&a);
    empty_list(interp, false);
    put_back(&a);
}

/* Py_AddPendingCall's call-back.  It may run in another interpreter than was meant: then the list
   waits for the next entry of its own. */
static int drain_pending(void *data)
{
    sspy_interp *interp = data;

    atomic_store(&interp->wake_pending, false);
    if (!atomic_load(&interp->dead) && PyInterpreterState_Get() == interp->state)
        sspy_held_drain(interp);
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

void sspy_held_released(sspy_held *held)
{
    sspy_interp *interp = held->interp;
    sspy_held *head;

    if (atomic_load(&interp->dead) || atomic_exchange(&held->queued, true)) {
        sspy_held_unref_inside(held); /* abandoned, or on the list already */
        return;
    }
    head = atomic_load(&interp->released);
    do {
        held->next_released = head;
    } while (!atomic_compare_exchange_weak(&interp->released, &head, held));
    if (atomic_load(&interp->dead))
        empty_list(interp, true);
    else if (current_section != interp)
        wake(interp);
}

/* ---- Sections ---------------------------------------------------------------------------------*/

void sspy_watch_sections(void (*left)(void), void (*ended)(PyInterpreterState *interp))
{
    atomic_store(&watcher.left, left);
    atomic_store(&watcher.ended, ended);
}

bool sspy_is_in_section(void)
{
    return current_section != NULL;
}

sspy_section sspy_enter(sspy_interp *interp)
{
    sspy_section section = {current_section};

    current_section = interp;
    return section;
}

void sspy_leave(sspy_section section)
{
    void (*left)(void) = atomic_load_explicit(&watcher.left, memory_order_relaxed);
    sspy_interp *interp = current_section;

    current_section = section.outer;
    if (left)
        left();
    /* An inner section leaves the work to the outermost: Python code must not run inside one. */
    if (!section.outer && interp)
        sspy_held_drain(interp);
}

void sspy_release(sspy_interp *interp, void *object)
{
    sspy_section section = sspy_enter(interp);

    sspy_unknown_release(object);
    sspy_leave(section);
}

void sspy_sections_begin(void)
{
    pthread_once(&fork_once, register_fork_handlers);
}

void sspy_sections_end(sspy_interp *interp)
{
    void (*ended)(PyInterpreterState *) = atomic_load(&watcher.ended);

    pthread_mutex_lock(&wake_lock);
    atomic_store(&interp->dead, true);
    pthread_mutex_unlock(&wake_lock);
    if (ended)
        ended(interp->state);
    empty_list(interp, true);
}
