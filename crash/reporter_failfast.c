#include "crash/crash.h"

#include "base/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum { MOMENT_MS = 2, LONGEST_FOR_NOW_MS = 15000 };

static _Atomic uint64_t reporter; /* (ATOMIC) the thread that reports, 0: none */
static atomic_bool is_for_now;    /* (ATOMIC) its report is no end */
static int cancel_before;         /* (THREAD reporter) */

/* The reporting thread does not exist in a child, which may fail, too. */
static void forget_reporter(void)
{
    atomic_store(&is_for_now, false);
    atomic_store(&reporter, 0);
}

static ss_fork_hook forget_reporter_in_child = {forget_reporter, NULL};

static __attribute__((constructor)) void watch_forks(void)
{
    ss_fork_child(&forget_reporter_in_child);
}

/* Become the reporter if there is none. */
static ss_reporter ss_reporter_become(void)
{
    uint64_t now = 0, me = ss_thread_id();

    if (atomic_compare_exchange_strong(&reporter, &now, me))
        return SS_REPORTER_NOW;
    if (now != me)
        return SS_REPORTER_OTHER;
    return atomic_exchange(&is_for_now, false) ? SS_REPORTER_NOW : SS_REPORTER_AGAIN;
}

/* End the turn of a reporter that is it for now. */
static void depose(void)
{
    uint64_t now = atomic_load(&reporter);

    if (atomic_exchange(&is_for_now, false))
        (void)atomic_compare_exchange_strong(&reporter, &now, 0);
}

ss_reporter ss_reporter_become_waiting(void)
{
    const struct timespec moment = {0, MOMENT_MS * 1000 * 1000};
    ss_reporter who;

    for (int waited = 0; (who = ss_reporter_become()) == SS_REPORTER_OTHER; waited += MOMENT_MS) {
        if (waited == LONGEST_FOR_NOW_MS)
            depose();
        (void)nanosleep(&moment, NULL);
    }
    return who;
}

void ss_reporter_become_for_now(void)
{
    (void)ss_reporter_become_waiting();
    atomic_store(&is_for_now, true);
}

void ss_reporter_is_done(void)
{
    uint64_t me = ss_thread_id();

    if (atomic_load(&reporter) != me)
        return;
    atomic_store(&is_for_now, false);
    (void)atomic_compare_exchange_strong(&reporter, &me, 0);
}

void ss_reporter_set_signals(void)
{
    sigset_t signals;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_before);
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    sigaddset(&signals, SIGXFSZ);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    ss_faults_unblock();
}

void ss_reporter_drop_signal(int number)
{
    const struct timespec at_once = {0, 0};
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, number);
    while (sigtimedwait(&signals, NULL, &at_once) == number)
        continue;
}

void ss_reporter_reset_signals(void)
{
    ss_reporter_drop_signal(SIGPIPE);
    ss_reporter_drop_signal(SIGXFSZ);
    (void)pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
    (void)pthread_setcancelstate(cancel_before, NULL);
}
