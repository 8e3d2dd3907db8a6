#include "base/loader.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum {
    FORKING = 1 << 30,    /* set while a fork is under way; the bits below count who iterates */
    PATIENCE = 100 * 1000 /* yields of a fork until it goes on without waiting any longer */
};

static atomic_int state;         /* (ATOMIC) */
static _Thread_local bool owned; /* (THREAD) this thread's fork has set FORKING */

/* Waits only for iterations under way, which wait for nothing that a fork holds. */
static void before_fork(void)
{
    owned = false;
    for (int i = 0; i < PATIENCE && !owned; i++) {
        int none = 0;

        owned = atomic_compare_exchange_weak(&state, &none, FORKING);
        if (!owned)
            sched_yield();
    }
}

static void after_fork_in_parent(void)
{
    if (owned)
        atomic_store(&state, 0);
}

/* Whoever else was about to fork is not here. */
static void after_fork_in_child(void)
{
    if (owned)
        atomic_store(&state, 0);
    else
        atomic_fetch_and(&state, ~FORKING);
}

/*
 * Before other constructors: handlers run in reverse order, and a thread that holds a lock of
 * another part of the core may iterate.
 */
__attribute__((constructor(101))) static void guard_fork(void)
{
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void enter(void)
{
    int seen = atomic_load_explicit(&state, memory_order_relaxed);

    for (;;) {
        if (seen & FORKING) {
            sched_yield();
            seen = atomic_load_explicit(&state, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak(&state, &seen, seen + 1)) {
            return;
        }
    }
}

int ss_loader_iterate(int (*back)(struct dl_phdr_info *info, size_t size, void *data), void *data)
{
    int result;

    enter();
    result = dl_iterate_phdr(back, data);
    atomic_fetch_sub(&state, 1);
    return result;
}
