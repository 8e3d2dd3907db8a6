/*
 * Sections, and what the core asks of an interpreter: to drop an exception, and to wake up.
 *
 * A release asks the interpreter nothing.  After finalization even PyGILState_Check is wrong.  Only
 * a section that we entered on this thread proves that we hold the lock.  Elsewhere the core puts
 * what was released on the owner's list, and asks for one pending call.
 */
#include "life/life.h"

#include <stdlib.h>

static _Thread_local unsigned sections; /* that this thread is in */

static struct {
    _Atomic(void (*)(void)) left;
    _Atomic(void (*)(PyInterpreterState *)) ended;
} watcher;

void sspy_interp_ref(sspy_interp *interp)
{
    atomic_fetch_add(&interp->refs, 1);
}

void sspy_interp_unref(sspy_interp *interp)
{
    if (!interp || atomic_fetch_sub(&interp->refs, 1) != 1)
        return;
    stacksplice_owner_unref(interp->owner);
    free(interp);
}

/* Dropping may run any Python code; the pending exception stays. */
static void drop(void *context, void *data, void *value)
{
    PyObject *pending = sspy_take_pending();

    (void)context;
    (void)data;
    Py_DECREF((PyObject *)value);
    sspy_set_pending(pending);
}

/* The callback of Py_AddPendingCall.  It may run in another interpreter than intended.  Then the
   list waits for that interpreter's next section. */
static int drain_pending(void *data)
{
    stacksplice_owner *owner = data;
    const sspy_interp *interp = stacksplice_owner_data(owner); /* NULL once it is closed */

    if (interp && PyInterpreterState_Get() == interp->state)
        stacksplice_owner_drain(owner, NULL);
    stacksplice_owner_unref(owner);
    return 0;
}

static int wake(stacksplice_owner *owner)
{
    stacksplice_owner_ref(owner);
    if (Py_AddPendingCall(drain_pending, owner) == 0)
        return 1;
    stacksplice_owner_unref(owner);
    return 0;
}

static const stacksplice_language python = {
    .size = sizeof python, .name = "python", .drop = drop, .wake = wake};

bool sspy_owner_begin(sspy_interp *interp)
{
    interp->owner = stacksplice_owner_new(&python, interp);
    if (!interp->owner)
        return false;
    stacksplice_owner_show(interp->owner, interp->state, Py_GetVersion());
    stacksplice_owner_ref(interp->owner); /* closing gives up the other reference */
    return true;
}

void sspy_owner_end(sspy_interp *interp)
{
    void (*ended)(PyInterpreterState *) = atomic_load(&watcher.ended);

    interp->ends = true;
    stacksplice_owner_drop_all(interp->owner, NULL);
    stacksplice_owner_close(interp->owner);
    if (ended)
        ended(interp->state);
}

/* ---- Sections ---------------------------------------------------------------------------------*/

void sspy_watch_sections(void (*left)(void), void (*ended)(PyInterpreterState *interp))
{
    atomic_store(&watcher.left, left);
    atomic_store(&watcher.ended, ended);
}

bool sspy_is_in_section(void)
{
    return sections != 0;
}

stacksplice_section sspy_enter(sspy_interp *interp)
{
    sections++;
    return stacksplice_section_enter(interp->owner);
}

void sspy_leave(stacksplice_section section)
{
    void (*left)(void) = atomic_load_explicit(&watcher.left, memory_order_relaxed);

    sections--;
    if (left)
        left();
    stacksplice_section_leave(section, NULL);
}

void sspy_release(sspy_interp *interp, void *object)
{
    stacksplice_section section = sspy_enter(interp);

    sspy_unknown_release(object);
    sspy_leave(section);
}
