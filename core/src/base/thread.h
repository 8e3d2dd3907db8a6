/*
 * Threads and forks: thread ids, and locks that a forked child can still take.
 */
#ifndef SS_THREAD_H
#define SS_THREAD_H

#include "base/platform.h"

#include <pthread.h>

/* What gettid() returns, cached; right in a child too, however it was forked.  Signal safe. */
uint64_t ss_thread_id(void);

/*
 * A lock of a writer.  Readers never need one.  At most one is held at a time, for a few
 * instructions, and no code of the host (its allocator too) runs while it is held.
 */
typedef struct ss_lock {
    pthread_mutex_t mutex;
    struct ss_lock *next; /* (LOCK list) */
    bool listed;          /* (LOCK list) known to the fork handlers */
} ss_lock;

#define SS_LOCK_INIT                           \
    {                                          \
        PTHREAD_MUTEX_INITIALIZER, NULL, false \
    }

/*
 * False, with nothing taken, when this thread holds a lock already: then a signal handler runs that
 * interrupted the holder, and waiting would be for ever.
 */
bool ss_lock_take(ss_lock *lock);
void ss_lock_drop(ss_lock *lock);

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
