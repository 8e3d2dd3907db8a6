/* The handler of signals that end the process: who reports, and what comes after the report. */
#include "base/thread.h"
#include "crash/context.h"
#include "crash/crash.h"
#include "crash/fault_report.h"
#include "crash/reporter.h"
#include "crash/watchdog.h"

#include <stacksplice/crash.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DEFAULT_TIMEOUT = 1000 };

static ss_lock lock = SS_LOCK_INIT;
static bool installed; /* (LOCK) */
static ss_crash_choice choice;
static atomic_bool is_on; /* (ATOMIC) reports are wanted */

/* Of each signal: what was there before us, and the last thread in which that had its turn. */
static struct sigaction previous[SS_FAULT_KINDS];
static _Atomic uint64_t handed_over_in[SS_FAULT_KINDS]; /* (ATOMIC) */

/* (THREAD reporter) */
static ss_fault fault;
static ss_context crashed;
static bool reported;

static size_t kind_of(int number)
{
    size_t i = 0;

    while (i < SS_FAULT_KINDS - 1 && ss_fault_kinds[i].number != number)
        i++;
    return i;
}

static void on_signal(int number, siginfo_t *info, void *context);

static bool is_ours(const struct sigaction *action)
{
    return action->sa_flags & SA_SIGINFO && action->sa_sigaction == on_signal;
}

/* Whether it is a function. */
static bool is_handler(const struct sigaction *action)
{
    return action->sa_flags & SA_SIGINFO ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

/* ---- After the report ------------------------------------------------------------------------*/

/*
 * Let the signal strike again where it struck, with all that the kernel said about it: it is
 * blocked until the handler returns.
 */
static void strike_again(int number, siginfo_t *info)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, number);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)ss_thread_id(), number, info) != 0)
        (void)raise(number);
}

static void end_by_default(int number, siginfo_t *info)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};

    (void)sigaction(number, &plain, NULL);
    strike_again(number, info);
}

/*
 * Give the signal to the former handler, or the default action.  One that is back here has been
 * there, or our turn came twice: two libraries that each call the other one would never end.
 */
static void hand_over(int number, siginfo_t *info)
{
    size_t kind = kind_of(number);

    if (atomic_exchange(&handed_over_in[kind], ss_thread_id()) == ss_thread_id()) {
        end_by_default(number, info);
        return;
    }
    (void)sigaction(number, &previous[kind], NULL);
    strike_again(number, info);
    if (is_handler(&previous[kind]))
        ss_reporter_is_done(); /* such a handler may let the process go on */
}

/* ---- The signal ------------------------------------------------------------------------------*/

static void note_fault(int number, const siginfo_t *info, const ucontext_t *context)
{
    fault.kind = &ss_fault_kinds[kind_of(number)];
    fault.info = *info;
    fault.pc = ss_context_pc(context);
    fault.sp = ss_context_sp(context);
    ss_context_save(context, &crashed);
}

/* The watchdog sends the signal of the crash, too. */
static void set_signals(int number)
{
    sigset_t signals;

    ss_reporter_set_signals();
    sigemptyset(&signals);
    sigaddset(&signals, number);
    (void)pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

/* A fault interrupted the report: complete it, and end as if the first signal had done it alone. */
static void end_cut_report(const siginfo_t *info, ucontext_t *context)
{
    set_signals(fault.kind->number);
    ss_fault_report_go_on(ss_watchdog_sent(info));
    ss_context_restore(context, &crashed);
    end_by_default(fault.kind->number, &fault.info);
}

/* Let the former handler try.  It has handled the signal if it leaves us in our place. */
static bool is_handled_by_former(int number, siginfo_t *info, void *context)
{
    const struct sigaction *former = &previous[kind_of(number)];
    struct sigaction now;

    if (!is_handler(former))
        return false;
    if (former->sa_flags & SA_SIGINFO)
        former->sa_sigaction(number, info, context);
    else
        former->sa_handler(number);
    if (sigaction(number, NULL, &now) != 0 || is_ours(&now))
        return true;
    atomic_store(&handed_over_in[kind_of(number)], ss_thread_id());
    return false;
}

/* Noinline: frames outside of this one are the program's. */
static SS_NOINLINE void on_signal(int number, siginfo_t *info, void *context)
{
    int before = errno;
    ss_reporter who;

    if (atomic_load(&is_on) && choice.others_first && is_handled_by_former(number, info, context))
        return;
    who = atomic_load(&is_on) ? ss_reporter_become_waiting() : SS_REPORTER_OTHER;

    if (ss_watchdog_sent(info) && !ss_fault_report_is_cut())
        return; /* the report was complete just in time */
    if (who == SS_REPORTER_AGAIN && ss_fault_report_is_cut()) {
        end_cut_report(info, context);
        return;
    }
    if (who == SS_REPORTER_AGAIN)
        ss_crash_again(); /* of a fail fast; returns if its end is this signal */
    if (who == SS_REPORTER_NOW && !reported) {
        reported = true;
        note_fault(number, info, context);
        set_signals(number);
        ss_fault_report(&fault, &choice, SS_HERE(), __builtin_return_address(0));
    }
    hand_over(number, info);
    errno = before;
}

/* ---- Public ----------------------------------------------------------------------------------*/

static bool is_ignored(const struct sigaction *action)
{
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == SIG_IGN;
}

static void install(void)
{
    struct sigaction action, now;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (size_t i = 0; i < SS_FAULT_KINDS; i++) {
        int number = ss_fault_kinds[i].number;

        if (sigaction(number, NULL, &now) != 0 || is_ours(&now) || is_ignored(&now))
            continue;
        previous[i] = now;
        (void)sigaction(number, &action, NULL);
    }
}

static bool is_valid(const stacksplice_crash_options *options)
{
    return options->size == sizeof *options &&
           (!options->directory || strlen(options->directory) < SS_CRASH_DIRECTORY_MAX);
}

static void choose(const stacksplice_crash_options *options)
{
    choice.has_directory = options && options->directory;
    if (choice.has_directory)
        strcpy(choice.directory, options->directory);
    choice.others_first = options && options->others_first;
    choice.thread_timeout =
        options && options->thread_timeout ? options->thread_timeout : DEFAULT_TIMEOUT;
}

stacksplice_hresult stacksplice_install_crash_handler(const stacksplice_crash_options *options)
{
    stacksplice_hresult hr;
    bool was_installed;

    if (options && !is_valid(options))
        return E_INVALIDARG;
    hr = stacksplice_crash_thread();
    if (hr < 0)
        return hr;
    if (!ss_lock_take(&lock))
        return E_ILLEGAL_METHOD_CALL; /* a signal handler interrupted this very function */
    was_installed = installed;
    choose(options);
    atomic_store(&is_on, true);
    if (!was_installed)
        install();
    installed = true;
    ss_lock_drop(&lock);
    return was_installed ? S_FALSE : S_OK;
}

stacksplice_hresult stacksplice_remove_crash_handler(void)
{
    struct sigaction now;
    bool was_installed;

    if (!ss_lock_take(&lock))
        return E_ILLEGAL_METHOD_CALL;
    was_installed = installed;
    installed = false;
    atomic_store(&is_on, false);
    for (size_t i = 0; was_installed && i < SS_FAULT_KINDS; i++) {
        if (sigaction(ss_fault_kinds[i].number, NULL, &now) == 0 && is_ours(&now))
            (void)sigaction(ss_fault_kinds[i].number, &previous[i], NULL);
    }
    ss_lock_drop(&lock);
    return was_installed ? S_OK : S_FALSE;
}
