/* Thread ids, and locks that a forked child can still take. */
#ifndef SS_THREAD_H
#define SS_THREAD_H

#include "base/platform.h"

#include <pthread.h>
#include <signal.h>

/*
 * The cached result of gettid().  A child of fork asks again, unless no fork handler ran in it
 * (_Fork, clone).  Signal safe.
 */
uint64_t ss_thread_id(void);

/* The time in nanoseconds, of the clock that nobody sets.  Signal safe, as the next one. */
int64_t ss_now(void);

/* Sleep for a moment, half a millisecond. */
void ss_rest(void);

/*
 * Sleep until this time of ss_now, or until a thread wakes those that sleep at WORD, unless WORD is
 * not SEEN any more.  May wake earlier.  No condition variable: a lock of ours is never waited with.
 */
void ss_sleep_until(int64_t time, const _Atomic uint32_t *word, uint32_t seen);
void ss_wake_all(const _Atomic uint32_t *word);

/*
 * A lock that a forked child finds as its own thread left it.  A fork takes all locks, except those
 * that the forking thread already holds.  It may hold one if it forks in a signal handler or in the
 * host's allocator.  The host's fork handlers may take any of them.
 *
 * A thread holds at most one lock, for a few instructions.  While it does, it runs no code of the
 * host, not even the host's allocator.  The outer lock is different: its holder keeps it for long,
 * and may take another.
 */
typedef struct ss_lock {
    pthread_mutex_t mutex;
    bool outer;                         /* (RO) */
} __attribute__((aligned(64))) ss_lock; /* no space between those of the section */

/*
 * Define a lock, with static storage.  The linker lists all of them: the first use of one may be in
 * a signal handler or in a forked child.
 */
#define SS_LOCK(name) \
    static ss_lock __attribute__((section("ss_locks"))) name = {PTHREAD_MUTEX_INITIALIZER, false}

/* The outer lock; there is only one. */
#define SS_OUTER_LOCK(name) \
    static ss_lock __attribute__((section("ss_locks"))) name = {PTHREAD_MUTEX_INITIALIZER, true}

/*
 * False, without taking it, when this thread already holds LOCK or any inner lock.  Then a signal
 * handler interrupted the holder, or the host's allocator called back, and waiting would never end.
 */
bool ss_lock_take(ss_lock *lock);

/*
 * The same for a signal handler, which may have interrupted a thread that a fork waits for.  Also
 * false after a timeout.
 */
bool ss_lock_take_within(ss_lock *lock, long milliseconds);
void ss_lock_drop(ss_lock *lock);

/* Whether this thread holds LOCK. */
bool ss_lock_is_mine(const ss_lock *lock);

/* The same without waiting: also false while another thread holds it. */
bool ss_lock_try(ss_lock *lock);

/*
 * All signals but those that the processor raises: the kernel ends a process that raises one while
 * it is blocked, and no handler hears of it.  Signal safe, as the next ones.
 */
void ss_signals_all(sigset_t *signals);

/* Block those signals of this thread. */
void ss_signals_block(sigset_t *before);

/* Unblock those that the processor raises. */
void ss_faults_unblock(void);

/* SIG_BLOCK or SIG_UNBLOCK one signal of this thread.  Signal safe. */
void ss_signal_mask(int how, int number);

/* A repair in the child after a fork; static, registered once. */
typedef struct ss_fork_hook {
    void (*child)(void);
    struct ss_fork_hook *next; /* (RO) once it is registered */
} ss_fork_hook;

/*
 * At load: run HOOK->child in every child forked from now on, in its only thread.  The locks are
 * free then.  HOOK must not allocate, since the host's allocator may not be ready yet.
 */
void ss_fork_child(ss_fork_hook *hook);

#endif
