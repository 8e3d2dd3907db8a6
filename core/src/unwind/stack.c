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
 * Two sorted lists.  A change makes the spare one from the other, and then they change places.  So
 * a signal handler that interrupts a change reads a whole list, and a reader that two changes
 * overtake sees another version and looks again.
 */
typedef struct entry {
    atomic_uintptr_t low, high; /* (ATOMIC) */
} entry;

typedef struct list {
    size_t capacity;      /* (RO) */
    struct list *smaller; /* (RO) kept, because a reader may still use it */
    atomic_size_t count;  /* (ATOMIC) */
    entry entries[];      /* disjoint, ascending */
} list;

static list none;
static _Atomic(list *) sorted = &none; /* (ATOMIC) */
static list *spare = &none;            /* (LOCK) has room for all entries but one */
SS_LOCK(stacks_lock);

static ss_range stack_at(const list *l, size_t at)
{
    const entry *e = &l->entries[at];

    return (ss_range){atomic_load_explicit(&e->low, memory_order_acquire),
                      atomic_load_explicit(&e->high, memory_order_acquire)};
}

/* How many of the first SIZE entries of L begin at or below ADDRESS. */
static size_t entries_below(const list *l, size_t size, uintptr_t address)
{
    size_t low = 0;

    while (size) {
        size_t half = size / 2;

        if (stack_at(l, low + half).low <= address) {
            low += half + 1;
            size -= half + 1;
        } else {
            size = half;
        }
    }
    return low;
}

/* Find the added stack that holds SP.  CACHE receives the addresses and version of the answer. */
static bool find_added(uintptr_t sp, ss_range *stack, ss_stack_cache *cache)
{
    uint32_t version;
    bool found;

    do {
        const list *l;
        size_t size, below;

        version = atomic_load_explicit(&ss_stack_version, memory_order_acquire);
        l = atomic_load_explicit(&sorted, memory_order_acquire);
        size = atomic_load_explicit(&l->count, memory_order_acquire);
        below = entries_below(l, size, sp);
        *cache = (ss_stack_cache){.high = below < size ? stack_at(l, below).low : UINTPTR_MAX,
                                  .version = version};
        *stack = below ? stack_at(l, below - 1) : (ss_range){0, 0};
        found = sp < stack->high;
        cache->low = found ? stack->low : stack->high;
        if (found)
            cache->high = stack->high;
    } while (version != atomic_load_explicit(&ss_stack_version, memory_order_acquire));
    return found;
}

static void put(list *l, size_t at, ss_range stack)
{
    atomic_store_explicit(&l->entries[at].low, stack.low, memory_order_release);
    atomic_store_explicit(&l->entries[at].high, stack.high, memory_order_release);
}

/* Make the spare list from the other without the entry AT (ADDED is NULL), or with ADDED there. */
static void change_locked(size_t at, const ss_range *added)
{
    list *from = atomic_load(&sorted), *to = spare;
    size_t size = 0, count = atomic_load(&from->count);

    for (size_t i = 0; i < count; i++) {
        if (added && i == at)
            put(to, size++, *added);
        if (added || i != at)
            put(to, size++, stack_at(from, i));
    }
    if (added && at == count)
        put(to, size++, *added);
    atomic_store_explicit(&to->count, size, memory_order_release);
    atomic_store(&sorted, to);
    atomic_fetch_add(&ss_stack_version, 1);
    spare = from;
}

/* False when STACK overlaps another.  The caller made sure of room. */
static bool add_locked(const ss_range *stack)
{
    const list *l = atomic_load(&sorted);
    size_t size = atomic_load(&l->count), at = entries_below(l, size, stack->low);

    if ((at > 0 && stack_at(l, at - 1).high > stack->low) ||
        (at < size && stack_at(l, at).low < stack->high))
        return false;
    change_locked(at, stack);
    return true;
}

/* Take over LONGER if it is longer than the spare list; returns what is left of it. */
static list *take_longer(list *longer)
{
    if (!longer || longer->capacity <= spare->capacity)
        return longer;
    longer->smaller = spare;
    spare = longer;
    return NULL;
}

stacksplice_hresult stacksplice_add_stack(void *low, void *high)
{
    const ss_range stack = {(uintptr_t)low, (uintptr_t)high};
    list *longer = NULL;

    if (!low || stack.low >= stack.high)
        return E_INVALIDARG;
    /* False inside a signal handler that interrupted this very function. */
    while (ss_lock_take(&stacks_lock)) {
        size_t count = atomic_load(&atomic_load(&sorted)->count);
        bool has_room, added;

        longer = take_longer(longer);
        has_room = count < spare->capacity;
        added = has_room && add_locked(&stack);
        ss_lock_drop(&stacks_lock);
        ss_free(longer); /* other threads already need more than we allocated */
        if (has_room)
            return added ? S_OK : E_INVALIDARG;
        longer = ss_alloc(1, sizeof *longer + (2 * count + 64) * sizeof(entry));
        if (!longer)
            break;
        longer->capacity = 2 * count + 64;
    }
    ss_free(longer);
    return E_OUTOFMEMORY;
}

stacksplice_hresult stacksplice_remove_stack(void *low)
{
    const list *l;
    bool found;
    size_t at;

    if (!low || !ss_lock_take(&stacks_lock))
        return E_INVALIDARG;
    l = atomic_load(&sorted);
    at = entries_below(l, atomic_load(&l->count), (uintptr_t)low);
    found = at > 0 && stack_at(l, at - 1).low == (uintptr_t)low;
    if (found)
        change_locked(at - 1, NULL);
    ss_lock_drop(&stacks_lock);
    return found ? S_OK : E_INVALIDARG;
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
