#include "unwind/stack.h"

#include "base/alloc.h"
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

/* ---- Stacks that the host made known ----------------------------------------------------------*/

#define SLOTS_PER_CHUNK 64

/* Free while low is 0.  A writer clears low first and sets it last. */
typedef struct slot {
    atomic_uintptr_t low;  /* (ATOMIC) */
    atomic_uintptr_t high; /* (ATOMIC) */
} slot;

typedef struct chunk {
    slot slots[SLOTS_PER_CHUNK];
    _Atomic(struct chunk *) next; /* (ATOMIC) set once; chunks are never freed */
} chunk;

static chunk first_chunk;
static ss_lock stacks_lock = SS_LOCK_INIT;

static bool read_slot(slot *s, ss_stack *stack)
{
    stack->low = atomic_load_explicit(&s->low, memory_order_acquire);
    stack->high = atomic_load_explicit(&s->high, memory_order_acquire);
    return stack->low && stack->low == atomic_load_explicit(&s->low, memory_order_relaxed);
}

/* The smallest that holds SP: a host may carve stacks out of a known one's locals. */
static bool find_added(uintptr_t sp, ss_stack *stack)
{
    bool found = false;

    for (chunk *c = &first_chunk; c; c = atomic_load_explicit(&c->next, memory_order_acquire)) {
        for (size_t i = 0; i < SLOTS_PER_CHUNK; i++) {
            ss_stack s;

            if (!read_slot(&c->slots[i], &s) || sp < s.low || sp >= s.high)
                continue;
            if (!found || s.high - s.low < stack->high - stack->low)
                *stack = s;
            found = true;
        }
    }
    return found;
}

/* The slot for a new stack, or NULL: no room (*last is where a chunk goes), or it overlaps. */
static slot *free_slot(uintptr_t low, uintptr_t high, chunk **last, bool *overlaps)
{
    slot *free = NULL;

    *overlaps = false;
    for (chunk *c = &first_chunk; c; c = atomic_load(&c->next)) {
        *last = c;
        for (size_t i = 0; i < SLOTS_PER_CHUNK; i++) {
            uintptr_t l = atomic_load(&c->slots[i].low);

            if (!l)
                free = free ? free : &c->slots[i];
            else if (low < atomic_load(&c->slots[i].high) && l < high)
                *overlaps = true;
        }
    }
    return *overlaps ? NULL : free;
}

stacksplice_hresult stacksplice_add_stack(void *low, void *high)
{
    chunk *fresh = NULL, *last;
    slot *free;
    bool overlaps;

    if (!low || (uintptr_t)low >= (uintptr_t)high)
        return E_INVALIDARG;
    for (;;) {
        if (!ss_lock_take(&stacks_lock))
            break; /* from a signal handler inside this very function */
        free = free_slot((uintptr_t)low, (uintptr_t)high, &last, &overlaps);
        if (!free && !overlaps && fresh) {
            free = &fresh->slots[0];
            atomic_store_explicit(&last->next, fresh, memory_order_release);
            fresh = NULL;
        }
        if (free) {
            atomic_store_explicit(&free->high, (uintptr_t)high, memory_order_release);
            atomic_store_explicit(&free->low, (uintptr_t)low, memory_order_release);
        }
        ss_lock_drop(&stacks_lock);
        if (free || overlaps) {
            ss_free(fresh); /* another thread made room meanwhile */
            return free ? S_OK : E_INVALIDARG;
        }
        fresh = ss_alloc(1, sizeof *fresh);
        if (!fresh)
            break;
    }
    return E_OUTOFMEMORY;
}

stacksplice_hresult stacksplice_remove_stack(void *low)
{
    stacksplice_hresult hr = E_INVALIDARG;

    if (!low || !ss_lock_take(&stacks_lock))
        return hr;
    for (chunk *c = &first_chunk; c; c = atomic_load(&c->next))
        for (size_t i = 0; i < SLOTS_PER_CHUNK; i++)
            if (atomic_load(&c->slots[i].low) == (uintptr_t)low) {
                atomic_store_explicit(&c->slots[i].low, 0, memory_order_release);
                hr = S_OK;
            }
    ss_lock_drop(&stacks_lock);
    return hr;
}

/* ---- The thread's own -------------------------------------------------------------------------*/

static _Thread_local ss_stack own; /* (THREAD) high is 0 until asked */

static void forget_own(void)
{
    own = (ss_stack){0, 0};
}

static ss_fork_hook forget_in_child = {forget_own, NULL, false};

static void ask_own(void)
{
    pthread_attr_t attr;
    void *low;
    size_t size;

    ss_fork_child(&forget_in_child);
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return; /* without /proc, on the main thread */
    if (pthread_attr_getstack(&attr, &low, &size) == 0)
        own = (ss_stack){(uintptr_t)low, (uintptr_t)low + size};
    pthread_attr_destroy(&attr);
}

/*
 * The main thread's stack grows downward, and its limit may have been raised since it was asked
 * for. The kernel maps nothing else into the 128 MiB below its end.  (Asking again is no way out:
 * it allocates, and SP may be foreign because a signal handler runs on a stack of its own.)
 */
#define MAIN_STACK_ROOM ((uintptr_t)128 << 20)

static bool find_own(uintptr_t sp, ss_stack *stack)
{
    if (!own.high)
        ask_own();
    *stack = own;
    if (sp < own.low && sp >= own.high - MAIN_STACK_ROOM && ss_thread_id() == (uint64_t)getpid())
        stack->low = own.high - MAIN_STACK_ROOM;
    return sp >= stack->low && sp < own.high;
}

static bool find_alternate(uintptr_t sp, ss_stack *stack)
{
    stack_t s;

    if (sigaltstack(NULL, &s) != 0 || !(s.ss_flags & SS_ONSTACK))
        return false;
    *stack = (ss_stack){(uintptr_t)s.ss_sp, (uintptr_t)s.ss_sp + s.ss_size};
    return sp >= stack->low && sp < stack->high;
}

bool ss_stack_find(uintptr_t sp, ss_stack *stack)
{
    return find_added(sp, stack) || find_own(sp, stack) || find_alternate(sp, stack);
}
