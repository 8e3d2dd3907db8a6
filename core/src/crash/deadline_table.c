#include "crash/deadlines.h"

#include "base/alloc.h"
#include "base/thread.h"

#include <stdatomic.h>

enum {
    CHUNK = 64,
    CHUNKS_MAX = 1024,
    BETWEEN_INTERRUPTS = 20 * 1000 * 1000, /* nanoseconds */
    INTERRUPTED_BETWEEN = 16               /* that many; if more are late, each waits longer */
};

typedef enum state { FREE, ARMED, MISSED, CALLING, INTERRUPTING } state;

typedef struct slot {
    ss_deadline deadline;
    state state;
    uint32_t uses;      /* makes its numbers differ */
    uint32_t next_free; /* index + 1 */
} slot;

SS_LOCK(lock);
static slot *chunks[CHUNKS_MAX]; /* (LOCK) never released */
static uint32_t slot_count;      /* (LOCK) */
static uint32_t first_free;      /* (LOCK) index + 1 */
static uint32_t interrupting;    /* (LOCK) how many slots are in that state */
static int64_t watched_until;    /* (LOCK) when the watcher looks again by itself */
static _Atomic uint32_t changes; /* (ATOMIC) */

static slot *slot_at(uint32_t index)
{
    return &chunks[index / CHUNK][index % CHUNK];
}

static void make_free(uint32_t index)
{
    slot *s = slot_at(index);

    if (s->state == INTERRUPTING)
        interrupting--;
    s->state = FREE;
    s->uses++;
    s->next_free = first_free;
    first_free = index + 1;
}

/* Only the forking thread is left: the others' deadlines would never end, nor are they watched. */
static void forget_all(void)
{
    for (uint32_t i = 0; i < slot_count; i++) {
        if (slot_at(i)->state != FREE)
            make_free(i);
    }
    watched_until = 0;
}

static ss_fork_hook forget_in_child = {forget_all, NULL};

static __attribute__((constructor)) void watch_forks(void)
{
    ss_fork_child(&forget_in_child);
}

/* ---- Slots -----------------------------------------------------------------------------------*/

static slot *find(stacksplice_deadline number, uint32_t *index)
{
    uint32_t at = (uint32_t)number - 1;
    slot *s = at < slot_count ? slot_at(at) : NULL;

    *index = at;
    return s && s->state != FREE && s->uses == number >> 32 ? s : NULL;
}

static void put(const ss_deadline *deadline, stacksplice_deadline *number, bool *wake)
{
    uint32_t index = first_free - 1;
    slot *s = slot_at(index);

    first_free = s->next_free;
    s->deadline = *deadline;
    s->state = ARMED;
    *number = (uint64_t)s->uses << 32 | (index + 1);
    *wake = deadline->at < watched_until;
    if (*wake)
        atomic_fetch_add(&changes, 1);
}

/* Take over CHUNK. */
static stacksplice_hresult add_chunk(slot *chunk)
{
    if (!ss_lock_take(&lock))
        return E_ILLEGAL_METHOD_CALL;
    if (slot_count < CHUNKS_MAX * CHUNK) {
        chunks[slot_count / CHUNK] = chunk;
        slot_count += CHUNK;
        for (uint32_t i = slot_count; i-- > slot_count - CHUNK;)
            make_free(i);
        chunk = NULL;
    }
    ss_lock_drop(&lock);
    ss_free(chunk);
    return chunk ? E_OUTOFMEMORY : S_OK;
}

stacksplice_hresult ss_deadlines_add(const ss_deadline *deadline, stacksplice_deadline *number,
                                     bool *wake)
{
    for (;;) {
        stacksplice_hresult hr;
        bool has_room;
        slot *chunk;

        if (!ss_lock_take(&lock))
            return E_ILLEGAL_METHOD_CALL; /* a signal handler interrupted one of these functions */
        has_room = first_free != 0;
        if (has_room)
            put(deadline, number, wake);
        ss_lock_drop(&lock);
        if (has_room)
            return S_OK;
        chunk = ss_alloc(CHUNK, sizeof *chunk);
        hr = chunk ? add_chunk(chunk) : E_OUTOFMEMORY;
        if (hr != S_OK)
            return hr;
    }
}

stacksplice_hresult ss_deadlines_remove(stacksplice_deadline number)
{
    stacksplice_hresult hr = E_INVALIDARG;
    uint32_t index;
    slot *s;

    if (!ss_lock_take(&lock))
        return E_ILLEGAL_METHOD_CALL;
    s = find(number, &index);
    if (s && s->state == CALLING) {
        hr = E_PENDING;
    } else if (s) {
        hr = s->state == ARMED ? S_OK : S_FALSE;
        make_free(index);
    }
    ss_lock_drop(&lock);
    return hr;
}

/* ---- The watcher -----------------------------------------------------------------------------*/

_Atomic uint32_t *ss_deadlines_changes(void)
{
    return &changes;
}

static bool is_due_ever(const slot *s)
{
    return s->state == ARMED || s->state == INTERRUPTING;
}

/* The slot that is due first, or NULL. */
static slot *earliest(uint32_t *index)
{
    slot *first = NULL;

    for (uint32_t i = 0; i < slot_count; i++) {
        slot *s = slot_at(i);

        if (is_due_ever(s) && (!first || s->deadline.at < first->deadline.at)) {
            first = s;
            *index = i;
        }
    }
    return first;
}

/* What FIRST is due for, and when it will be due next. */
static ss_due go_on(slot *first, int64_t now)
{
    if (first->state == INTERRUPTING) {
        first->deadline.at =
            now + BETWEEN_INTERRUPTS * (int64_t)(1 + interrupting / INTERRUPTED_BETWEEN);
        return SS_DUE_INTERRUPT;
    }
    first->state = MISSED;
    return SS_DUE_MISSED;
}

ss_due ss_deadlines_take(int64_t now, ss_deadline *deadline, stacksplice_deadline *number,
                         int64_t *until, uint32_t *seen)
{
    ss_due due = SS_DUE_NOTHING;
    uint32_t index = 0;
    slot *first;

    if (!ss_lock_take(&lock))
        return due; /* never: no handler runs in the watcher */
    first = earliest(&index);
    if (first && first->deadline.at <= now) {
        due = go_on(first, now);
        *deadline = first->deadline;
        *number = (uint64_t)first->uses << 32 | (index + 1);
        watched_until = 0; /* the watcher looks again anyway */
    } else {
        watched_until = *until = first ? first->deadline.at : SS_DEADLINE_NEVER;
        *seen = atomic_load(&changes);
    }
    ss_lock_drop(&lock);
    return due;
}

static bool change_state(stacksplice_deadline number, state from, state to)
{
    uint32_t index;
    slot *s;
    bool is_changed;

    if (!ss_lock_take(&lock))
        return false;
    s = find(number, &index);
    is_changed = s && s->state == from;
    if (is_changed)
        s->state = to;
    ss_lock_drop(&lock);
    return is_changed;
}

bool ss_deadlines_begin_call(stacksplice_deadline number)
{
    return change_state(number, MISSED, CALLING);
}

void ss_deadlines_end_call(stacksplice_deadline number)
{
    (void)change_state(number, CALLING, MISSED);
}

void ss_deadlines_begin_interrupts(stacksplice_deadline number, int64_t now)
{
    uint32_t index;
    slot *s;

    if (!ss_lock_take(&lock))
        return;
    s = find(number, &index);
    if (s && s->state == MISSED) {
        s->state = INTERRUPTING;
        s->deadline.at = now;
        interrupting++;
    }
    ss_lock_drop(&lock);
}

/* Waits for nothing: there will be another interrupt. */
void ss_deadlines_interrupt(stacksplice_deadline number)
{
    void (*interrupt)(void *data) = NULL;
    void *data = NULL;
    uint32_t index;
    slot *s;

    if (!ss_lock_try(&lock))
        return;
    s = find(number, &index);
    if (s && s->state == INTERRUPTING && s->deadline.thread_id == ss_thread_id()) {
        interrupt = s->deadline.interrupt;
        data = s->deadline.data;
    }
    ss_lock_drop(&lock);
    if (interrupt)
        interrupt(data);
}
