#include "crash/deadlines.h"

#include "base/thread.h"
#include "crash/threads.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* For the host's function; the report itself needs far less. */
enum { STACK_SIZE = 256 << 10, NANOSECONDS = 1000 * 1000 * 1000 };

#define EXIT_WAITS_FOR ((int64_t)5 * NANOSECONDS)

/* Not every C library comes with the kernel's headers. */
enum futex_call {
    WAKE = 1 | 128,      /* FUTEX_WAKE, FUTEX_PRIVATE_FLAG */
    WAIT_UNTIL = 9 | 128 /* FUTEX_WAIT_BITSET: until a time of CLOCK_MONOTONIC */
};

#define ANY_WAKER UINT32_MAX

typedef enum state { NONE, STARTING, RUNNING } state;

static _Atomic state watcher;        /* (ATOMIC) */
static atomic_bool is_reporting;     /* (ATOMIC) */
static _Thread_local bool is_myself; /* (THREAD) */

static void forget_watcher(void)
{
    atomic_store(&watcher, NONE);
    atomic_store(&is_reporting, false);
    is_myself = false;
}

static ss_fork_hook forget_in_child = {forget_watcher, NULL};

static __attribute__((constructor)) void watch_forks(void)
{
    ss_fork_child(&forget_in_child);
}

int64_t ss_deadline_now(void)
{
    struct timespec now = {0, 0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NANOSECONDS + now.tv_nsec;
}

bool ss_deadline_is_watcher(void)
{
    return is_myself;
}

/* ---- The thread ------------------------------------------------------------------------------*/

/* Sleep until the time, or a change of the table since SEEN.  No condition variable: a lock of
   ours is never waited with. */
static void sleep_until(int64_t time, uint32_t seen)
{
    const struct timespec until = {.tv_sec = time / NANOSECONDS, .tv_nsec = time % NANOSECONDS};

    (void)syscall(SYS_futex, ss_deadlines_changes(), WAIT_UNTIL, seen,
                  time == SS_DEADLINE_NEVER ? NULL : &until, NULL, ANY_WAKER);
}

void ss_deadline_wake(void)
{
    (void)syscall(SYS_futex, ss_deadlines_changes(), WAKE, 1, NULL, NULL, 0);
}

static void miss(const ss_deadline *deadline, stacksplice_deadline number)
{
    const char *file;

    atomic_store(&is_reporting, true);
    file = ss_deadline_report(deadline, ss_deadline_now());
    atomic_store(&is_reporting, false);
    if (deadline->missed && ss_deadlines_begin_call(number)) {
        deadline->missed(file, deadline->data);
        ss_deadlines_end_call(number);
    }
    if (deadline->interrupt)
        ss_deadlines_begin_interrupts(number, ss_deadline_now());
}

static void *watch(void *unused)
{
    is_myself = true;
    ss_threads_never_ask(ss_thread_id());
    while (is_myself) { /* not in a child that the host's function forked */
        stacksplice_deadline number;
        ss_deadline deadline;
        int64_t until = 0;
        uint32_t seen = 0;

        switch (ss_deadlines_take(ss_deadline_now(), &deadline, &number, &until, &seen)) {
        case SS_DUE_NOTHING:
            sleep_until(until, seen);
            break;
        case SS_DUE_MISSED:
            miss(&deadline, number);
            break;
        case SS_DUE_INTERRUPT:
            ss_threads_interrupt(deadline.thread_id, number);
            break;
        }
    }
    return unused;
}

/* A report that has begun is completed before the process ends, unless it takes long. */
static __attribute__((destructor)) void finish_report(void)
{
    const struct timespec moment = {0, 500 * 1000};
    int64_t until = ss_deadline_now() + EXIT_WAITS_FOR;

    while (atomic_load(&is_reporting) && !is_myself && ss_deadline_now() < until)
        (void)nanosleep(&moment, NULL);
}

/* ---- Its start -------------------------------------------------------------------------------*/

/*
 * The host's signals are for its own threads.  A fault stays one: the kernel kills a process that
 * faults while it blocks the signal, without a report.
 */
static void block_signals(sigset_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP};
    sigset_t signals;

    sigfillset(&signals);
    for (size_t i = 0; i < SS_COUNT_OF(faults); i++)
        sigdelset(&signals, faults[i]);
    (void)pthread_sigmask(SIG_BLOCK, &signals, before);
}

static bool start(void)
{
    pthread_attr_t attributes;
    sigset_t before;
    pthread_t thread;
    bool is_started;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    ss_deadline_report_prepare();
    block_signals(&before);
    is_started = pthread_attr_setstacksize(&attributes, STACK_SIZE) == 0 &&
                 pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
                 pthread_create(&thread, &attributes, watch, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return is_started;
}

bool ss_deadline_watch(void)
{
    const struct timespec moment = {0, 500 * 1000};
    state now;

    for (;;) {
        now = NONE;
        if (SS_LIKELY(atomic_load(&watcher) == RUNNING))
            return true;
        if (atomic_compare_exchange_strong(&watcher, &now, STARTING)) {
            bool is_started = start();

            atomic_store(&watcher, is_started ? RUNNING : NONE);
            return is_started;
        }
        (void)nanosleep(&moment, NULL); /* another thread starts it */
    }
}
