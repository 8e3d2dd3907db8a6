/* The memory of a language exception, its lifelong references, and the value it keeps. */
#include "script/exception.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "script/owner.h"

/* Guards values of languages that allow any thread to drop them. */
SS_LOCK(value_lock);

bool ss_exception_lock_value(const stacksplice_exception *x)
{
    return ss_owner_any_thread(x->owner) && ss_lock_take(&value_lock);
}

void ss_exception_unlock_value(bool locked)
{
    if (locked)
        ss_lock_drop(&value_lock);
}

IScriptErrorInfo *stacksplice_exception_related(const stacksplice_exception *x, uint32_t index)
{
    if (index == 0)
        return atomic_load(&x->cause);
    return index <= x->member_count ? x->members[index - 1] : NULL;
}

void ss_exception_each_related(const stacksplice_exception *x,
                               void (*visit)(IScriptErrorInfo *error))
{
    for (uint32_t i = 0; i <= x->member_count; i++) {
        IScriptErrorInfo *error = stacksplice_exception_related(x, i);

        if (error)
            visit(error);
    }
}

void ss_related_wake(IScriptErrorInfo *error)
{
    error->lpVtbl->AddRef(error);
}

void ss_related_sleep(IScriptErrorInfo *error)
{
    error->lpVtbl->Release(error);
}

void ss_related_hold(IScriptErrorInfo *error)
{
    error->lpVtbl->AddInside(error);
}

static void release_inside(IScriptErrorInfo *error)
{
    error->lpVtbl->ReleaseInside(error);
}

bool ss_exception_sleeps(const stacksplice_exception *x)
{
    return !ss_owner_any_thread(x->owner);
}

static void free_exception(stacksplice_exception *x)
{
    if (!ss_exception_sleeps(x))
        ss_exception_each_related(x, ss_related_sleep);
    ss_exception_each_related(x, release_inside);
    stacksplice_owner_unref(x->owner);
    ss_free(x);
}

void stacksplice_exception_ref(stacksplice_exception *x)
{
    atomic_fetch_add(&x->inside, 1);
}

void ss_exception_unref(stacksplice_exception *x)
{
    if (atomic_fetch_sub(&x->inside, 1) == 1)
        free_exception(x);
}

void *ss_exception_take_value(stacksplice_exception *x)
{
    bool locked = ss_exception_lock_value(x);
    void *value = NULL;

    if (atomic_load(&x->outside) == 0)
        value = atomic_exchange(&x->value, NULL);
    ss_exception_unlock_value(locked);
    return value;
}

void *stacksplice_exception_value(const stacksplice_exception *x)
{
    return atomic_load(&x->value);
}
