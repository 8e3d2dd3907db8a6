#include "base/loader.h"

#include <stacksplice/source.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum {
    FORKING = 1 << 30,    /* set during a fork; the bits below count threads that iterate */
    PATIENCE = 100 * 1000 /* yields after which a fork stops waiting */
};

static atomic_int state;         /* (ATOMIC) */
static atomic_uint forks;        /* (ATOMIC) number of forks started */
static _Thread_local bool owned; /* (THREAD) a fork of this thread has set FORKING */

/*
 * (THREAD) The last fork that this thread gave up waiting for, and for how many milliseconds it
 * waited.
 */
static _Thread_local struct {
    unsigned fork;
    long waited;
} refused;

/*
 * Fork handlers that the host registered before ours run inside them, in the thread that forks.
 * OWNED lets them iterate.
 *
 * Waits only for running iterations, which wait for nothing that a fork holds.
 */
static void before_fork(void)
{
    for (int i = 0; i < PATIENCE && !owned; i++) {
        int none = 0;

        if (i == 0)
            atomic_fetch_add(&forks, 1);
        owned = atomic_compare_exchange_weak(&state, &none, FORKING);
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

/* Other threads that were about to fork do not exist here. */
static void after_fork_in_child(void)
{
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
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static long milliseconds(void)
{
    struct timespec now = {0, 0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

typedef enum entry { ENTERED, OWN_FORK, REFUSED } entry;

/* Whether this thread has already waited that long for the current fork. */
static bool in_vain(long patience)
{
    return refused.fork == atomic_load_explicit(&forks, memory_order_relaxed) &&
           refused.waited >= patience;
}

static entry give_up(long patience)
{
    refused.fork = atomic_load_explicit(&forks, memory_order_relaxed);
    refused.waited = patience;
    return REFUSED;
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
    long until = 0;

    while (!owned) {
        if (seen & FORKING) {
            if (in_vain((long)patience))
                return REFUSED;
            if (!until)
                until = milliseconds() + (long)patience;
            else if (milliseconds() > until)
                return give_up((long)patience);
            sched_yield();
            seen = atomic_load_explicit(&state, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak(&state, &seen, seen + 1)) {
            return ENTERED;
        }
    }
    return OWN_FORK;
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
