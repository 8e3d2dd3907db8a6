/* The outside count of a language exception, and what the exception holds while it is above 0. */
#include "script/exception.h"

#include "script/owner.h"
#include "script/release.h"

ULONG ss_exception_add_ref(stacksplice_exception *x)
{
    ULONG count = atomic_fetch_add(&x->outside, 1) + 1;

    if (count == 1) {
        stacksplice_exception_ref(x);
        if (ss_exception_sleeps(x))
            ss_exception_each_related(x, ss_related_wake);
    }
    return count;
}

ULONG ss_exception_release(stacksplice_exception *x)
{
    ULONG count = atomic_fetch_sub(&x->outside, 1) - 1;

    if (count)
        return count;
    /*
     * Enter the owner's list first: a thread that finds a related exception there must find this
     * one, too.
     */
    stacksplice_exception_ref(x);
    ss_release(x->owner, x);
    if (ss_exception_sleeps(x))
        ss_exception_each_related(x, ss_related_sleep);
    ss_exception_unref(x);
    return 0;
}

/* If it keeps a value and was never held from outside, drop that value first. */
void stacksplice_exception_unref(stacksplice_exception *x)
{
    if (!x)
        return;
    if (stacksplice_exception_value(x) && !atomic_load(&x->outside))
        ss_release(x->owner, x);
    else
        ss_exception_unref(x);
}

void stacksplice_exception_set_cause(stacksplice_exception *x, IScriptErrorInfo *cause,
                                     stacksplice_relation relation, uint32_t left_out)
{
    x->relation = relation;
    x->causes_left_out = left_out;
    if (!cause)
        return;
    ss_related_hold(cause);
    /*
     * Our own outside reference keeps other threads from adding the first or dropping the last one.
     */
    if (ss_exception_sleeps(x))
        ss_exception_add_ref(x);
    ss_related_wake(cause);
    atomic_store(&x->cause, cause);
    if (ss_exception_sleeps(x))
        ss_exception_release(x);
}

int stacksplice_exception_keep(stacksplice_exception *x, void *value)
{
    bool locked = ss_exception_lock_value(x), kept = false;

    if (!atomic_load(&x->value) && ss_release_can_keep(x->owner, x)) {
        atomic_store(&x->value, value);
        kept = true;
    }
    ss_exception_unlock_value(locked);
    return kept;
}

int stacksplice_exception_is_held(const stacksplice_exception *x)
{
    return atomic_load(&x->value) && atomic_load(&x->outside);
}
