#include "base/loader.h"

#include <stacksplice/source.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum {
    FORKING = 1 << 30,    /* set while a fork is under way; the bits below count who iterates */
    PATIENCE = 100 * 1000 /* yields of a fork until it goes on without waiting any longer */
};

static atomic_int state;         /* (ATOMIC) */
static atomic_uint forks;        /* (ATOMIC) how many have begun */
static _Thread_local bool owned; /* (THREAD) a fork of this thread has set FORKING */

/* (THREAD) Which fork this thread has waited for in vain, and how many milliseconds. */
static _Thread_local struct {
    unsigned fork;
    long waited;
} refused;

/*
 * Handlers of the host that were there before ours run inside of them, in the thread that forks:
 * what OWNED is for.
 *
 * Waits only for iterations under way, which wait for nothing that a fork holds.
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

/* Whoever else was about to fork is not here. */
static void after_fork_in_child(void)
{
    if (owned)
        atomic_store(&state, 0);
    else
        atomic_fetch_and(&state, ~FORKING);
    owned = false;
}

/*
 * Before other constructors: handlers run in reverse order, and a thread that holds a lock of
 * another part of the core may iterate.
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

/* Whether waiting for the fork under way has been tried for that long. */
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
 * The fork may be waiting for this thread: a signal handler that captures can have interrupted a
 * holder of the allocator's lock, which the C library takes for the fork after our handlers ran.
 * Then it waits until the handler returns, so all captures of that are refused at once.
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
