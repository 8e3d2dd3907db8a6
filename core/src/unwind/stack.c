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
 * Each stack is stored twice.  Slots never move, and each is consistent at any time: a writer
 * clears `low` first and sets it last.  The sorted list makes look-ups fast.  A reader that meets
 * it during a change (also a signal handler inside the writer) scans all slots instead, and never
 * waits.
 */
#define SLOTS_PER_CHUNK 64

typedef struct slot {
    atomic_uintptr_t low;  /* (ATOMIC) 0: free */
    atomic_uintptr_t high; /* (ATOMIC) */
    struct slot *next;     /* (LOCK) of the free ones */
} slot;

typedef struct chunk {
    slot slots[SLOTS_PER_CHUNK];
    _Atomic(struct chunk *) next; /* (ATOMIC) chunks are never freed */
} chunk;

typedef struct entry {
    atomic_uintptr_t low; /* (ATOMIC) */
    _Atomic(slot *) slot; /* (ATOMIC) */
} entry;

typedef struct list {
    size_t capacity;       /* (RO) */
    struct list *previous; /* (RO) kept, because a reader may still use it */
    entry entries[];       /* disjoint, ascending */
} list;

static _Atomic(chunk *) chunks; /* (ATOMIC) */
static slot *free_slots;        /* (LOCK) */
static size_t slot_count;       /* (LOCK) */
static _Atomic(list *) sorted;  /* (ATOMIC) of capacity slot_count or more */
static atomic_size_t count;     /* (ATOMIC) entries of sorted that are in use */
SS_LOCK(stacks_lock);

/* How many entries of L begin at or below ADDRESS. */
static size_t entries_below(const list *l, size_t size, uintptr_t address)
{
    size_t low = 0;

    while (size) {
        size_t half = size / 2;

        if (atomic_load_explicit(&l->entries[low + half].low, memory_order_acquire) <= address) {
            low += half + 1;
            size -= half + 1;
        } else {
            size = half;
        }
    }
    return low;
}

static bool read_slot(const slot *s, ss_range *stack)
{
    stack->low = atomic_load_explicit(&s->low, memory_order_acquire);
    stack->high = atomic_load_explicit(&s->high, memory_order_acquire);
    return stack->low && stack->low == atomic_load_explicit(&s->low, memory_order_relaxed);
}

static bool scan_slots(uintptr_t sp, ss_range *stack)
{
    for (chunk *c = atomic_load_explicit(&chunks, memory_order_acquire); c;
         c = atomic_load_explicit(&c->next, memory_order_acquire))
        for (size_t i = 0; i < SLOTS_PER_CHUNK; i++)
            if (read_slot(&c->slots[i], stack) && sp >= stack->low && sp < stack->high)
                return true;
    return false;
}

/* Find the added stack that holds SP.  CACHE receives the addresses and version of the answer. */
static bool find_added(uintptr_t sp, ss_range *stack, ss_stack_cache *cache)
{
    uint32_t version = atomic_load_explicit(&ss_stack_version, memory_order_acquire);
    const list *l = atomic_load_explicit(&sorted, memory_order_acquire);
    size_t size = atomic_load_explicit(&count, memory_order_acquire), below;
    bool found = false;

    *cache = (ss_stack_cache){.high = UINTPTR_MAX, .version = version};
    if (version % 2 == 0 && l && size <= l->capacity) {
        below = entries_below(l, size, sp);
        if (below < size)
            cache->high = atomic_load_explicit(&l->entries[below].low, memory_order_acquire);
        if (below > 0) {
            slot *s = atomic_load_explicit(&l->entries[below - 1].slot, memory_order_acquire);

            found = s && read_slot(s, stack) && sp < stack->high;
            cache->low = found ? stack->low : s ? stack->high : 0;
            if (found)
                cache->high = stack->high;
        }
    }
    if (version % 2 == 0 &&
        version == atomic_load_explicit(&ss_stack_version, memory_order_acquire))
        return found;
    *cache = (ss_stack_cache){.version = version}; /* matches nothing */
    return scan_slots(sp, stack);
}

static void begin_change(void)
{
    atomic_fetch_add(&ss_stack_version, 1);
}

static void end_change(void)
{
    atomic_fetch_add(&ss_stack_version, 1);
}

static void move_entry(entry *to, const entry *from)
{
    atomic_store_explicit(&to->low, atomic_load_explicit(&from->low, memory_order_relaxed),
                          memory_order_release);
    atomic_store_explicit(&to->slot, atomic_load_explicit(&from->slot, memory_order_relaxed),
                          memory_order_release);
}

/* False when [LOW, HIGH) overlaps another.  The caller made sure of a free slot and list room. */
static bool add_locked(uintptr_t low, uintptr_t high)
{
    list *l = atomic_load(&sorted);
    size_t size = atomic_load(&count), at = entries_below(l, size, low);
    slot *s = free_slots;

    if (at > 0 && atomic_load(&atomic_load(&l->entries[at - 1].slot)->high) > low)
        return false;
    if (at < size && atomic_load(&l->entries[at].low) < high)
        return false;
    free_slots = s->next;
    begin_change();
    atomic_store_explicit(&s->high, high, memory_order_release);
    atomic_store_explicit(&s->low, low, memory_order_release);
    for (size_t i = size; i > at; i--)
        move_entry(&l->entries[i], &l->entries[i - 1]);
    atomic_store_explicit(&l->entries[at].low, low, memory_order_release);
    atomic_store_explicit(&l->entries[at].slot, s, memory_order_release);
    atomic_store(&count, size + 1);
    end_change();
    return true;
}

/* Install more slots, and a list with room for all. */
static void use_locked(chunk *more, list *longer)
{
    list *l = atomic_load(&sorted);
    size_t size = atomic_load(&count);

    for (size_t i = 0; i < SLOTS_PER_CHUNK; i++) {
        more->slots[i].next = free_slots;
        free_slots = &more->slots[i];
    }
    slot_count += SLOTS_PER_CHUNK;
    atomic_store(&more->next, atomic_load(&chunks));
    atomic_store_explicit(&chunks, more, memory_order_release);
    longer->previous = l;
    for (size_t i = 0; i < size; i++)
        move_entry(&longer->entries[i], &l->entries[i]);
    begin_change();
    atomic_store(&sorted, longer);
    end_change();
}

static chunk *new_chunk(size_t slots, list **longer)
{
    size_t capacity = slots * 2 + SLOTS_PER_CHUNK;
    chunk *more = ss_alloc(1, sizeof *more);

    *longer = more ? ss_alloc(1, sizeof **longer + capacity * sizeof(entry)) : NULL;
    if (*longer) {
        (*longer)->capacity = capacity;
        return more;
    }
    ss_free(more);
    return NULL;
}

stacksplice_hresult stacksplice_add_stack(void *low, void *high)
{
    stacksplice_hresult hr = E_OUTOFMEMORY;
    chunk *more = NULL;
    list *longer = NULL;
    size_t slots = 0;

    if (!low || (uintptr_t)low >= (uintptr_t)high)
        return E_INVALIDARG;
    /* False inside a signal handler that interrupted this very function. */
    while (ss_lock_take(&stacks_lock)) {
        bool room = free_slots != NULL;

        if (!room && more && longer->capacity >= slot_count + SLOTS_PER_CHUNK) {
            use_locked(more, longer);
            more = NULL;
            longer = NULL;
            room = true;
        }
        slots = slot_count;
        if (room)
            hr = add_locked((uintptr_t)low, (uintptr_t)high) ? S_OK : E_INVALIDARG;
        ss_lock_drop(&stacks_lock);
        if (room)
            break;
        ss_free(more); /* other threads already need more than we allocated */
        ss_free(longer);
        more = new_chunk(slots, &longer);
        if (!more)
            break;
    }
    ss_free(more);
    ss_free(longer);
    return hr;
}

stacksplice_hresult stacksplice_remove_stack(void *low)
{
    stacksplice_hresult hr = E_INVALIDARG;
    size_t size, at;
    list *l;

    if (!low || !ss_lock_take(&stacks_lock))
        return hr;
    l = atomic_load(&sorted);
    size = atomic_load(&count);
    at = l ? entries_below(l, size, (uintptr_t)low) : 0;
    if (at > 0 && atomic_load(&l->entries[at - 1].low) == (uintptr_t)low) {
        slot *s = atomic_load(&l->entries[at - 1].slot);

        begin_change();
        atomic_store_explicit(&s->low, 0, memory_order_release);
        for (size_t i = at; i < size; i++)
            move_entry(&l->entries[i - 1], &l->entries[i]);
        atomic_store(&count, size - 1);
        end_change();
        s->next = free_slots;
        free_slots = s;
        hr = S_OK;
    }
    ss_lock_drop(&stacks_lock);
    return hr;
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
