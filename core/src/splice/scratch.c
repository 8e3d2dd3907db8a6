#include "splice/scratch.h"

#include "base/alloc.h"
#include "base/thread.h"

#include <pthread.h>

#define FIRST_SPLICES 64
#define FIRST_TOKENS 256
#define KEPT_SPLICES 2048
#define KEPT_TOKENS 8192

static _Thread_local ss_scratch *mine; /* (THREAD) */
static _Thread_local bool busy;        /* (THREAD) */

static pthread_key_t key; /* (RO) its value, the same as mine, makes the thread's end known */
static bool have_key;     /* (RO) */
static ss_lock list_lock = SS_LOCK_INIT;
static ss_scratch *list;  /* (LOCK) of living threads */
static ss_scratch *spare; /* (LOCK) of threads that a fork left behind */

static void unlink_locked(ss_scratch *scratch)
{
    if (scratch->next)
        scratch->next->previous = scratch->previous;
    if (scratch->previous)
        scratch->previous->next = scratch->next;
    else
        list = scratch->next;
}

static void link_locked(ss_scratch *scratch)
{
    scratch->previous = NULL;
    scratch->next = list;
    if (list)
        list->previous = scratch;
    list = scratch;
}

static void free_scratch(ss_scratch *scratch)
{
    ss_unwind_trim(&scratch->unwind, true);
    ss_free(scratch->splices);
    ss_free(scratch->tokens);
    ss_free(scratch);
}

static void thread_ends(void *value)
{
    ss_scratch *scratch = value;

    if (!ss_lock_take(&list_lock))
        return; /* a thread that ends inside a signal handler: its memory stays */
    unlink_locked(scratch);
    ss_lock_drop(&list_lock);
    mine = NULL; /* a later destructor that captures begins anew */
    free_scratch(scratch);
}

/*
 * The other threads are gone; what they had serves the threads to come, unless it was being grown
 * or freed just then: that stays in the list, unused for ever.
 */
static void keep_spares(void)
{
    ss_scratch *next;

    for (ss_scratch *scratch = list; scratch; scratch = next) {
        next = scratch->next;
        if (scratch == mine || atomic_load(&scratch->in_use))
            continue;
        unlink_locked(scratch);
        scratch->next = spare;
        spare = scratch;
    }
}

static ss_fork_hook keep_spares_in_child = {keep_spares, NULL, false};

__attribute__((constructor)) static void begin(void)
{
    have_key = pthread_key_create(&key, thread_ends) == 0;
    ss_fork_child(&keep_spares_in_child);
}

static ss_scratch *take_spare_locked(void)
{
    ss_scratch *scratch = spare;

    if (scratch)
        spare = scratch->next;
    return scratch;
}

ss_scratch *ss_scratch_mine(void)
{
    ss_scratch *scratch;

    if (SS_LIKELY(mine != NULL)) {
        atomic_store_explicit(&mine->in_use, true, memory_order_release);
        atomic_signal_fence(memory_order_seq_cst); /* before what is done to it */
        return mine;
    }
    if (!have_key || !ss_lock_take(&list_lock))
        return NULL;
    scratch = take_spare_locked();
    ss_lock_drop(&list_lock);
    if (scratch) /* who had it may have been remembering something just then */
        ss_unwind_trim(&scratch->unwind, true);
    else
        scratch = ss_alloc(1, sizeof *scratch);
    if (!scratch)
        return NULL;
    if (pthread_setspecific(key, scratch) != 0) {
        free_scratch(scratch);
        return NULL;
    }
    atomic_store(&scratch->in_use, true);
    /* Cannot fail: the first take has shown that this thread holds no lock. */
    (void)ss_lock_take(&list_lock);
    link_locked(scratch);
    ss_lock_drop(&list_lock);
    mine = scratch;
    return scratch;
}

bool ss_scratch_enter(void)
{
    if (busy)
        return false;
    busy = true;
    return true;
}

void ss_scratch_leave(void)
{
    if (mine)
        atomic_store_explicit(&mine->in_use, false, memory_order_release);
    busy = false;
}

bool ss_scratch_grow_splices(ss_scratch *scratch)
{
    uint32_t wanted = scratch->splice_capacity ? scratch->splice_capacity * 2 : FIRST_SPLICES;
    ss_splice *grown = ss_realloc(scratch->splices, wanted, sizeof *grown);

    if (!grown)
        return false;
    scratch->splices = grown;
    scratch->splice_capacity = wanted;
    return true;
}

bool ss_scratch_grow_tokens(ss_scratch *scratch, uint32_t count)
{
    uint32_t wanted = scratch->token_capacity ? scratch->token_capacity * 2 : FIRST_TOKENS;
    uintptr_t *grown;

    while (wanted - scratch->token_count < count && wanted <= UINT32_MAX / 2)
        wanted *= 2;
    if (wanted - scratch->token_count < count)
        return false;
    grown = ss_realloc(scratch->tokens, wanted, sizeof *grown);
    if (!grown)
        return false;
    scratch->tokens = grown;
    scratch->token_capacity = wanted;
    return true;
}

void ss_scratch_trim(ss_scratch *scratch)
{
    ss_unwind_trim(&scratch->unwind, false);
    if (scratch->splice_capacity > KEPT_SPLICES) {
        ss_free(scratch->splices);
        scratch->splices = NULL;
        scratch->splice_capacity = 0;
    }
    if (scratch->token_capacity > KEPT_TOKENS) {
        ss_free(scratch->tokens);
        scratch->tokens = NULL;
        scratch->token_capacity = 0;
    }
}
