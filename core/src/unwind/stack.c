#include "unwind/stack.h"

#include "base/alloc.h"
#include "base/thread.h"

#include <signal.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

_Atomic uint32_t ss_stack_version;

/* ---- Stacks that the host added ---------------------------------------------------------------*/

/*
 * A record whose stack was removed serves the next that is added, after another version began.  So
 * a reader that takes the low end of one stack and the high end of the other looks again.
 */
typedef struct added {
    struct added *next;         /* (RO) */
    atomic_uintptr_t low, high; /* (ATOMIC) low is 0: none now */
} added;

static _Atomic(added *) all; /* (ATOMIC) grows only, at its head */
SS_LOCK(stacks_lock);

static ss_range stack_of(added *a)
{
    uintptr_t low = atomic_load_explicit(&a->low, memory_order_acquire);

    return (ss_range){low, low ? atomic_load_explicit(&a->high, memory_order_acquire) : 0};
}

/* Find the added stack that holds SP.  CACHE receives the addresses and version of the answer. */
static bool find_added(uintptr_t sp, ss_range *stack, ss_stack_cache *cache)
{
    bool found;

    do {
        *cache = (ss_stack_cache){.high = UINTPTR_MAX};
        cache->version = atomic_load_explicit(&ss_stack_version, memory_order_acquire);
        found = false;
        for (added *a = atomic_load(&all); a && !found; a = a->next) {
            *stack = stack_of(a);
            found = sp >= stack->low && sp < stack->high;
            if (found || (stack->high <= sp && stack->high > cache->low))
                cache->low = found ? stack->low : stack->high;
            if (found || (stack->low > sp && stack->low < cache->high))
                cache->high = found ? stack->high : stack->low;
        }
    } while (cache->version != atomic_load_explicit(&ss_stack_version, memory_order_acquire));
    return found;
}

bool ss_stack_is_added(uintptr_t sp)
{
    ss_stack_cache unused;
    ss_range stack;

    return find_added(sp, &stack, &unused);
}

/* False when STACK overlaps another.  Takes *SPARE if no record is free. */
static bool add_locked(ss_range stack, added **spare)
{
    added *to = NULL;

    for (added *a = atomic_load(&all); a; a = a->next) {
        ss_range other = stack_of(a);

        if (!other.low)
            to = a;
        else if (stack.low < other.high && other.low < stack.high)
            return false;
    }
    if (!to) {
        to = *spare;
        *spare = NULL;
        to->next = atomic_load(&all);
        atomic_store(&all, to);
    }
    atomic_store(&to->high, stack.high);
    atomic_store(&to->low, stack.low);
    atomic_fetch_add(&ss_stack_version, 1);
    return true;
}

stacksplice_hresult stacksplice_add_stack(void *low, void *high)
{
    const ss_range stack = {(uintptr_t)low, (uintptr_t)high};
    stacksplice_hresult hr = E_OUTOFMEMORY;
    added *spare;

    if (!low || stack.low >= stack.high)
        return E_INVALIDARG;
    spare = ss_alloc(1, sizeof *spare);
    /* False inside a signal handler that interrupted this very function. */
    if (spare && ss_lock_take(&stacks_lock)) {
        hr = add_locked(stack, &spare) ? S_OK : E_INVALIDARG;
        ss_lock_drop(&stacks_lock);
    }
    ss_free(spare);
    return hr;
}

stacksplice_hresult stacksplice_remove_stack(void *low)
{
    added *a;

    if (!low || !ss_lock_take(&stacks_lock))
        return E_INVALIDARG;
    for (a = atomic_load(&all); a && atomic_load(&a->low) != (uintptr_t)low;)
        a = a->next;
    if (a) {
        atomic_store(&a->low, 0);
        atomic_fetch_add(&ss_stack_version, 1);
    }
    ss_lock_drop(&stacks_lock);
    return a ? S_OK : E_INVALIDARG;
}

/* ---- Any --------------------------------------------------------------------------------------*/

static bool find_alternate(uintptr_t sp, ss_range *stack)
{
    stack_t s;

    if (sigaltstack(NULL, &s) != 0 || !(s.ss_flags & SS_ONSTACK))
        return false;
    *stack = (ss_range){(uintptr_t)s.ss_sp, (uintptr_t)s.ss_sp + s.ss_size};
    return sp >= stack->low && sp < stack->high;
}

bool ss_stack_find_anew(ss_stack_cache *cache, uintptr_t sp, ss_range *stack)
{
    ss_stack_cache fresh;
    bool found = find_added(sp, stack, &fresh);

    if (!found) {
        if (!ss_own_stack_find(sp, stack))
            return find_alternate(sp, stack); /* not cached: the alternate stack may change */
        if (fresh.low < stack->low)
            fresh.low = stack->low;
        if (fresh.high > stack->high)
            fresh.high = stack->high;
    }
    fresh.stack = *stack;
    *cache = fresh;
    return true;
}

#define MOST_READABLE ((uintptr_t)8 << 20)

bool ss_stack_find_readable(uintptr_t sp, ss_range *stack)
{
    uintptr_t low = sp / SS_READABLE_STEP * SS_READABLE_STEP, high;

    if (!ss_is_readable(low))
        low += SS_READABLE_STEP; /* the stack is used up: SP lies below it */
    for (high = low; high - low < MOST_READABLE && ss_is_readable(high);)
        high += SS_READABLE_STEP;
    *stack = (ss_range){low, high};
    return high > low;
}

bool ss_stack_find(uintptr_t sp, ss_range *stack)
{
    ss_stack_cache unused;

    return ss_stack_find_anew(&unused, sp, stack);
}
