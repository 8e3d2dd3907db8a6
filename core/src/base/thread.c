#include "base/thread.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The linker's names for the ends of the section: an array of all locks.  Weak: a program that takes only
   parts of the core may have none. */
extern ss_lock __start_ss_locks[] __attribute__((visibility("hidden"), weak));
extern ss_lock __stop_ss_locks[] __attribute__((visibility("hidden"), weak));

static _Atomic(ss_fork_hook *) hooks; /* (ATOMIC) */

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

int64_t ss_now(void)
{
    struct timespec now = {0, 0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void ss_rest(void)
{
    const struct timespec moment = {0, 500 * 1000};

    (void)nanosleep(&moment, NULL);
}

/* Not every C library comes with the kernel's headers. */
enum futex_call {
    WAKE = 1 | 128,      /* FUTEX_WAKE, FUTEX_PRIVATE_FLAG */
    WAIT_UNTIL = 9 | 128 /* FUTEX_WAIT_BITSET: until a time of CLOCK_MONOTONIC */
};

#define ANY_WAKER UINT32_MAX

void ss_sleep_until(int64_t time, const _Atomic uint32_t *word, uint32_t seen)
{
    const struct timespec until = {.tv_sec = time / 1000000000, .tv_nsec = time % 1000000000};

    (void)syscall(SYS_futex, word, WAIT_UNTIL, seen, &until, NULL, ANY_WAKER);
}

void ss_wake_all(const _Atomic uint32_t *word)
{
    (void)syscall(SYS_futex, word, WAKE, INT32_MAX, NULL, NULL, 0);
}

static ss_lock **place_of(const ss_lock *lock)
{
    return lock->outer ? &held_outer : &held;
}

static void for_all_locks(bool outer, int (*act)(pthread_mutex_t *mutex))
{
    for (ss_lock *lock = __start_ss_locks; lock < __stop_ss_locks; lock++)
        if (lock->outer == outer && lock != *place_of(lock))
            (void)act(&lock->mutex);
}

/* The outer lock first: its holder may take another. */
static void take_all(void)
{
    for_all_locks(true, pthread_mutex_lock);
    for_all_locks(false, pthread_mutex_lock);
    forking = true;
}

static void drop_all(void)
{
    forking = false;
    for_all_locks(false, pthread_mutex_unlock);
    for_all_locks(true, pthread_mutex_unlock);
}

static void drop_all_in_child(void)
{
    own_id = 0;
    drop_all();
    for (ss_fork_hook *hook = atomic_load(&hooks); hook; hook = hook->next)
        hook->child();
}

static __attribute__((constructor)) void watch_forks(void)
{
    pthread_atfork(take_all, drop_all, drop_all_in_child);
}

/* The steps before the mutex; false when this thread must not wait. */
static bool begin_take(ss_lock *lock)
{
    if (held || *place_of(lock))
        return false;
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
    if (clock_gettime(CLOCK_REALTIME, &until) != 0 || !begin_take(lock))
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

static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS};

void ss_signals_all(sigset_t *signals)
{
    sigfillset(signals);
    sigdelset(signals, SIGTRAP);
    sigdelset(signals, SIGABRT);
    for (size_t i = 0; i < SS_COUNT_OF(faults); i++)
        sigdelset(signals, faults[i]);
}

void ss_signals_block(sigset_t *before)
{
    sigset_t signals;

    ss_signals_all(&signals);
    (void)pthread_sigmask(SIG_BLOCK, &signals, before);
}

void ss_signal_mask(int how, int number)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, number);
    (void)pthread_sigmask(how, &signals, NULL);
}

void ss_faults_unblock(void)
{
    for (size_t i = 0; i < SS_COUNT_OF(faults); i++)
        ss_signal_mask(SIG_UNBLOCK, faults[i]);
}

void ss_fork_child(ss_fork_hook *hook)
{
    hook->next = atomic_load(&hooks);
    while (!atomic_compare_exchange_weak(&hooks, &hook->next, hook))
        continue;
}
