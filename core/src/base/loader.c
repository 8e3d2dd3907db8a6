#include "base/loader.h"

#include "base/thread.h"

#include <stacksplice/source.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum {
    FORKING = 1 << 30,    /* set during a fork; the bits below count threads that iterate */
    PATIENCE = 100 * 1000 /* yields after which a fork stops waiting */
};

static atomic_int state;         /* (ATOMIC) */
static atomic_uint forks;        /* (ATOMIC) number of forks started */
static atomic_bool lock_is_lost; /* (ATOMIC) nobody in this process releases the list's lock */
static _Thread_local bool owned; /* (THREAD) a fork of this thread has set FORKING */

/*
 * (THREAD) The last fork that this thread gave up waiting for, and for how many milliseconds it
 * waited.
 */
static _Thread_local struct {
    unsigned fork;
    long waited;
} refused;

#ifdef __GLIBC__
static const struct r_debug *announced; /* (RO) */

/*
 * The program's dynamic section leads to the word that the loader writes.  A program that names
 * _r_debug itself has a copy of it from its start.
 */
static void find_announced(void)
{
    const ElfW(Dyn) *entry = _r_debug.r_map ? _r_debug.r_map->l_ld : NULL;

    for (; entry && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_DEBUG)
            announced = (const struct r_debug *)entry->d_un.d_ptr;
}

/*
 * What the loader tells debuggers.  It takes the lock only between a change of this word and the
 * return to RT_CONSISTENT.
 */
static bool loader_is(int wanted)
{
    int is =
        announced ? (int)__atomic_load_n(&announced->r_state, __ATOMIC_ACQUIRE) : RT_CONSISTENT;

    return is == wanted;
}
#else
/* musl frees nothing under its lock, and renews it in children. */
static void find_announced(void)
{
}

static bool loader_is(int wanted)
{
    return wanted == RT_CONSISTENT;
}
#endif

/*
 * Fork handlers that the host registered before ours run inside them, in the thread that forks.
 * OWNED lets them iterate.
 *
 * Waits for running iterations, which wait for nothing that a fork holds.  First it waits for
 * threads that load or unload; one of them may wait for this fork, so this takes half the patience.
 */
static void before_fork(void)
{
    for (int i = 0; i < PATIENCE && !owned; i++) {
        int none = 0;

        if (i == 0)
            atomic_fetch_add(&forks, 1);
        owned = (i >= PATIENCE / 2 || loader_is(RT_CONSISTENT)) &&
                atomic_compare_exchange_weak(&state, &none, FORKING);
        if (!owned)
            sched_yield();
    }
}

static void after_fork_in_parent(void)
{
    if (owned)
        atomic_store(&state, 0);
    owned = false;
}

/*
 * Other threads do not exist here: those that were about to fork, and whoever may have held the
 * lock.
 */
static void after_fork_in_child(void)
{
    if (!owned || !loader_is(RT_CONSISTENT))
        atomic_store(&lock_is_lost, true);
    if (owned)
        atomic_store(&state, 0);
    else
        atomic_fetch_and(&state, ~FORKING);
    owned = false;
}

/*
 * Runs before other constructors.  Prepare handlers run in reverse order, and a thread that holds a
 * lock of another part of the core may iterate.
 */
static __attribute__((constructor(101))) void guard_fork(void)
{
    find_announced();
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

typedef enum entry { ENTERED, OWN_FORK, REFUSED } entry;

/*
 * A thread that unloads holds the lock while it frees memory.  A capturing signal handler may have
 * interrupted the holder of the allocator's lock.
 */
static bool may_wait_for_us(int seen, ss_loader_patience patience)
{
    return seen & FORKING || (patience == SS_LOADER_BRIEFLY && loader_is(RT_DELETE));
}

/*
 * The fork may be waiting for this thread.  A capturing signal handler may have interrupted a
 * holder of the allocator's lock, which the C library takes for the fork after our handlers ran.
 * Then the fork waits until the handler returns.  So after one timeout, refuse all its captures at
 * once.
 */
static entry enter(ss_loader_patience patience)
{
    int seen = atomic_load_explicit(&state, memory_order_relaxed);
    int64_t until = 0;

    if (atomic_load_explicit(&lock_is_lost, memory_order_relaxed))
        return REFUSED;
    while (!owned) {
        if (may_wait_for_us(seen, patience)) {
            unsigned fork = atomic_load_explicit(&forks, memory_order_relaxed);

            if (seen & FORKING && refused.fork == fork && refused.waited >= (long)patience)
                return REFUSED;
            if (!until)
                until = ss_now() + (int64_t)patience * 1000000;
            else if (ss_now() > until)
                break;
            sched_yield();
            seen = atomic_load_explicit(&state, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak(&state, &seen, seen + 1)) {
            return ENTERED;
        }
    }
    if (owned)
        return OWN_FORK;
    if (seen & FORKING) {
        refused.fork = atomic_load_explicit(&forks, memory_order_relaxed);
        refused.waited = (long)patience;
    }
    return REFUSED;
}

int ss_loader_iterate(ss_loader_patience patience,
                      int (*back)(struct dl_phdr_info *info, size_t size, void *data), void *data)
{
    entry how = enter(patience);
    int result;

    if (how == REFUSED)
        return SS_LOADER_REFUSED;
    result = dl_iterate_phdr(back, data);
    if (how == ENTERED)
        atomic_fetch_sub(&state, 1);
    return result;
}

static int read_unloads(struct dl_phdr_info *info, size_t size, void *data)
{
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs)
        *(uint64_t *)data = info->dlpi_subs;
    return 1;
}

uint64_t stacksplice_unloads(void)
{
    uint64_t unloads = UINT64_MAX;

    (void)ss_loader_iterate(SS_LOADER_LONG, read_unloads, &unloads);
    return unloads;
}
