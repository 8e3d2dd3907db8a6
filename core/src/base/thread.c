#include "base/thread.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static ss_lock *locks;           /* (LOCK list) */
static _Atomic(ss_lock *) outer; /* (ATOMIC) */
static ss_fork_hook *hooks;      /* (LOCK list) */
static ss_lock *forking_with;    /* (LOCK list) the outer lock, if registered at the fork */

/* (THREAD) The lock that this thread holds or waits for; the same for the outer lock. */
static _Thread_local ss_lock *held, *held_outer;
static _Thread_local bool forking; /* (THREAD) it holds all locks: the host's fork handlers run */

static _Thread_local uint64_t own_id; /* (THREAD) cached answer of the kernel; 0: none yet */

uint64_t ss_thread_id(void)
{
    if (SS_UNLIKELY(!own_id))
        own_id = (uint64_t)syscall(SYS_gettid);
    return own_id;
}

/* The outer lock first: its holder may take or register another. */
static void take_all(void)
{
    ss_lock *first = atomic_load(&outer);

    if (first && first != held_outer)
        pthread_mutex_lock(&first->mutex);
    forking_with = first;
    pthread_mutex_lock(&list_lock);
    for (ss_lock *lock = locks; lock; lock = lock->next)
        if (lock != held)
            pthread_mutex_lock(&lock->mutex);
    forking = true;
}

static void drop_all(void)
{
    forking = false;
    for (ss_lock *lock = locks; lock; lock = lock->next)
        if (lock != held)
            pthread_mutex_unlock(&lock->mutex);
    pthread_mutex_unlock(&list_lock);
    if (forking_with && forking_with != held_outer)
        pthread_mutex_unlock(&forking_with->mutex);
}

static void drop_all_in_child(void)
{
    own_id = 0;
    drop_all();
    for (ss_fork_hook *hook = hooks; hook; hook = hook->next)
        hook->child();
}

static __attribute__((constructor)) void watch_forks(void)
{
    pthread_atfork(take_all, drop_all, drop_all_in_child);
}

static SS_COLD void make_known(ss_lock *lock)
{
    if (lock->outer) {
        atomic_store(&outer, lock);
        __atomic_store_n(&lock->listed, true, __ATOMIC_RELEASE);
        return;
    }
    pthread_mutex_lock(&list_lock);
    if (!lock->listed) {
        lock->next = locks;
        locks = lock;
        __atomic_store_n(&lock->listed, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&list_lock);
}

static ss_lock **place_of(const ss_lock *lock)
{
    return lock->outer ? &held_outer : &held;
}

/* The steps before the mutex; false when this thread must not wait. */
static bool begin_take(ss_lock *lock)
{
    if (held || *place_of(lock))
        return false;
    if (SS_UNLIKELY(!forking && !__atomic_load_n(&lock->listed, __ATOMIC_ACQUIRE)))
        make_known(lock);
    *place_of(lock) = lock; /* first: a handler that runs before the mutex is taken must not wait */
    return true;
}

bool ss_lock_take(ss_lock *lock)
{
    if (!begin_take(lock))
        return false;
    if (SS_LIKELY(!forking))
        pthread_mutex_lock(&lock->mutex);
    return true;
}

bool ss_lock_take_within(ss_lock *lock, long milliseconds)
{
    struct timespec until;

    if (forking)
        return ss_lock_take(lock);
    if (!__atomic_load_n(&lock->listed, __ATOMIC_ACQUIRE) ||
        clock_gettime(CLOCK_REALTIME, &until) != 0 || !begin_take(lock))
        return false;
    until.tv_nsec += milliseconds * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_mutex_timedlock(&lock->mutex, &until) == 0)
        return true;
    *place_of(lock) = NULL;
    return false;
}

bool ss_lock_try(ss_lock *lock)
{
    if (!begin_take(lock))
        return false;
    if (forking || pthread_mutex_trylock(&lock->mutex) == 0)
        return true;
    *place_of(lock) = NULL;
    return false;
}

void ss_lock_drop(ss_lock *lock)
{
    if (SS_LIKELY(!forking))
        pthread_mutex_unlock(&lock->mutex);
    *place_of(lock) = NULL;
}

bool ss_lock_is_mine(const ss_lock *lock)
{
    return *place_of(lock) == lock;
}

void ss_fork_child(ss_fork_hook *hook)
{
    if (__atomic_load_n(&hook->listed, __ATOMIC_ACQUIRE))
        return;
    if (!forking)
        pthread_mutex_lock(&list_lock);
    if (!hook->listed) {
        hook->next = hooks;
        hooks = hook;
        __atomic_store_n(&hook->listed, true, __ATOMIC_RELEASE);
    }
    if (!forking)
        pthread_mutex_unlock(&list_lock);
}
