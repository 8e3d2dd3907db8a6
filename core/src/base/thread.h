/*
 * Threads and forks: thread ids, and locks that a forked child can still take.
 */
#ifndef SS_THREAD_H
#define SS_THREAD_H

#include "base/platform.h"

#include <pthread.h>

/* What gettid() returns, cached: asked again in a child of fork, but not in one that no fork
   handler ran in (_Fork, clone).  Signal safe. */
uint64_t ss_thread_id(void);

/*
 * A lock that a forked child finds as its own thread left it: a fork takes all, but for those that
 * the forking thread holds already, as when it forks in a signal handler or in the host's
 * allocator.  Host's handlers of the fork may take any of them.
 *
 * A lock is held for a few instructions, in which no code of the host (its allocator too) runs; at
 * most one at a time.  The outer lock is held for long, and its holder may take another.
 */
typedef struct ss_lock {
    pthread_mutex_t mutex;
    struct ss_lock *next; /* (LOCK list) */
    bool listed;          /* (LOCK list) known to the fork handlers */
    bool outer;           /* (RO) */
} ss_lock;

#define SS_LOCK_INIT                                  \
    {                                                 \
        PTHREAD_MUTEX_INITIALIZER, NULL, false, false \
    }

/* There is one. */
#define SS_OUTER_LOCK_INIT                           \
    {                                                \
        PTHREAD_MUTEX_INITIALIZER, NULL, false, true \
    }

/*
 * False, with nothing taken, when this thread holds the lock already, or one of those that are held
 * for a few instructions: then a signal handler runs that interrupted the holder, or the host's
 * allocator called back, and waiting would be for ever.
 */
bool ss_lock_take(ss_lock *lock);

/* The same for a signal handler, which may have interrupted what a fork waits for: false too when
   the lock is not to be had within that time, and before its first use. */
bool ss_lock_take_within(ss_lock *lock, long milliseconds);
void ss_lock_drop(ss_lock *lock);

/* Whether this thread holds LOCK. */
bool ss_lock_is_mine(const ss_lock *lock);

/* The same without waiting: false also while another thread holds it. */
bool ss_lock_try(ss_lock *lock);

/* Something to set right in the child after a fork; static, named once. */
typedef struct ss_fork_hook {
    void (*child)(void);
    struct ss_fork_hook *next; /* (LOCK list) */
    bool listed;               /* (LOCK list) */
} ss_fork_hook;

/*
 * Run HOOK->child in every child forked from now on, in the one thread that it has.  The locks are
 * free then; HOOK may not allocate, since the host's allocator may not be ready yet.
 */
void ss_fork_child(ss_fork_hook *hook);

#endif
