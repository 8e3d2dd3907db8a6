#include "base/thread.h"

#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static ss_lock *locks;      /* (LOCK list) */
static ss_fork_hook *hooks; /* (LOCK list) */

static _Thread_local ss_lock *held; /* (THREAD) the lock that this thread has or waits for */
static _Thread_local uint64_t id;   /* (THREAD) 0: not asked yet */
static _Thread_local bool forking;  /* (THREAD) it has all locks: handlers of the host run */

uint64_t ss_thread_id(void)
{
    if (SS_UNLIKELY(!id))
        id = (uint64_t)syscall(SYS_gettid);
    return id;
}

/* A thread that forks from a signal handler may hold one of the locks itself. */
static void take_all(void)
{
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
}

static void drop_all_in_child(void)
{
    id = 0;
    drop_all();
    for (ss_fork_hook *hook = hooks; hook; hook = hook->next)
        hook->child();
}

/* At load, so that the cached thread id is dropped in a child even if no lock was ever taken. */
__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(take_all, drop_all, drop_all_in_child);
}

bool ss_lock_take(ss_lock *lock)
{
    if (held)
        return false;
    if (SS_UNLIKELY(forking)) {
        held = lock;
        return true;
    }
    if (SS_UNLIKELY(!__atomic_load_n(&lock->listed, __ATOMIC_ACQUIRE))) {
        pthread_mutex_lock(&list_lock);
        if (!lock->listed) {
            lock->next = locks;
            locks = lock;
            __atomic_store_n(&lock->listed, true, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&list_lock);
    }
    held = lock; /* first: a handler that runs between these two lines must not wait for us */
    pthread_mutex_lock(&lock->mutex);
    return true;
}

void ss_lock_drop(ss_lock *lock)
{
    if (SS_LIKELY(!forking))
        pthread_mutex_unlock(&lock->mutex);
    held = NULL;
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
