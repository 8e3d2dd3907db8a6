#include "crash/fault.h"

#include "base/thread.h"
#include "crash/context.h"
#include "crash/crash.h"
#include "unwind/modules.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

ss_crash_choice ss_handler_choice = {.thread_timeout = SS_CRASH_THREAD_TIMEOUT};
atomic_bool ss_handler_is_on;
struct sigaction ss_handler_former[SS_FAULT_KINDS];

/* The last thread in which the former handler of a signal had its turn. */
static _Atomic uint64_t handed_over_in[SS_FAULT_KINDS]; /* (ATOMIC) */

/* (THREAD reporter) */
static ss_fault fault;
static ss_context crashed;
static bool reported;
static bool is_ending; /* from the report on: the process is to end by that signal */

/* The process that the handler reports.  A child of vfork is another one in the same memory. */
static pid_t process;

static void begin_process(void)
{
    process = getpid();
    reported = is_ending = false;
    ss_fault_report_forget();
}

static ss_fork_hook begin_in_child = {begin_process, NULL};

static __attribute__((constructor)) void begin(void)
{
    begin_process();
    ss_fork_child(&begin_in_child);
}

static size_t kind_of(int number)
{
    size_t i = 0;

    while (i < SS_FAULT_KINDS - 1 && ss_fault_kinds[i].number != number)
        i++;
    return i;
}

const char *ss_handler_directory(void)
{
    return ss_handler_choice.has_directory ? ss_handler_choice.directory : NULL;
}

bool ss_handler_is_ours(const struct sigaction *action)
{
    return action->sa_flags & SA_SIGINFO && action->sa_sigaction == ss_handle_fault;
}

/* Whether it is a function. */
static bool is_handler(const struct sigaction *action)
{
    return action->sa_flags & SA_SIGINFO ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

/* ---- After the report ------------------------------------------------------------------------*/

/* Whether the instruction will do it again. */
static bool is_fault(int number, const siginfo_t *info)
{
    bool can = number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL;

    return can && info->si_code > 0 && !(number == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

/*
 * Let the signal strike again where it struck, with all that the kernel said about it: when the
 * handler has returned, until when it is blocked.
 */
static void raise_again(int number, siginfo_t *info)
{
    sigset_t signals;

    if (is_fault(number, info))
        return;
    sigemptyset(&signals);
    sigaddset(&signals, number);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), number, info) != 0)
        (void)raise(number);
}

/* The last thread that has set the default action. */
static _Atomic pid_t ended_in; /* (ATOMIC) not the cached id: a child of vfork has its parent's */

/* A filter of system calls may refuse the default action, or claim that it is set. */
static void end_by_default(int number, siginfo_t *info)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    pid_t me = (pid_t)syscall(SYS_gettid);

    if (atomic_exchange(&ended_in, me) == me || sigaction(number, &plain, NULL) != 0)
        _exit(128 + number);
    raise_again(number, info);
}

/*
 * Give the signal to the former handler, or the default action.  One that is back here has been
 * there, or our turn came twice: two libraries that each call the other one would never end.
 */
static void hand_over(int number, siginfo_t *info)
{
    size_t kind = kind_of(number);

    if (atomic_exchange(&handed_over_in[kind], ss_thread_id()) == ss_thread_id()) {
        is_ending = reported;
        end_by_default(number, info);
        return;
    }
    if (sigaction(number, &ss_handler_former[kind], NULL) != 0)
        _exit(128 + number);
    raise_again(number, info);
    if (is_handler(&ss_handler_former[kind]) || is_fault(number, info)) {
        is_ending = false; /* the process may go on: that handler, or the memory is there now */
        ss_reporter_is_done();
    }
}

/* ---- The signal ------------------------------------------------------------------------------*/

/* Whether there is no code at the address of the next instruction. */
static bool is_failed_call(const ss_fault *f)
{
    return f->kind->number == SIGSEGV && ss_fault_has_address(f) &&
           (uintptr_t)f->info.si_addr == f->pc;
}

/*
 * A call of such an address has put only the return address on the stack.  No unwinder gets past a
 * function that is not there, so go back into the caller.  Returns the new place, or the old one.
 */
static uintptr_t leave_call(ucontext_t *context)
{
    uintptr_t back = ss_context_return_address(context);
    const uint8_t *low, *high;
    ss_module m;

    if (back && ss_module_find(back - 1, &m) == SS_MODULE_FOUND &&
        ss_module_segment(&m, back - 1, PF_X, &low, &high))
        ss_context_return(context, back - 1);
    return ss_context_pc(context);
}

static void note_fault(int number, const siginfo_t *info, ucontext_t *context)
{
    fault.kind = &ss_fault_kinds[kind_of(number)];
    fault.info = *info;
    fault.pc = ss_context_pc(context);
    fault.sp = ss_context_sp(context);
    ss_context_save(context, &crashed);
    fault.place = is_failed_call(&fault) ? leave_call(context) : fault.pc;
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
    ss_reporter_reset_signals();
    ss_context_restore(context, &crashed);
    end_by_default(fault.kind->number, &fault.info);
}

/* Let the former handler try.  It has handled the signal if it leaves us in our place. */
static bool is_handled_by_former(int number, siginfo_t *info, void *context)
{
    const struct sigaction *former = &ss_handler_former[kind_of(number)];
    struct sigaction now;

    if (!is_handler(former))
        return false;
    if (former->sa_flags & SA_SIGINFO)
        former->sa_sigaction(number, info, context);
    else
        former->sa_handler(number);
    if (sigaction(number, NULL, &now) != 0 || ss_handler_is_ours(&now))
        return true;
    ss_reporter_drop_signal(number); /* raised to end the process at once */
    atomic_store(&handed_over_in[kind_of(number)], ss_thread_id());
    return false;
}

/* Noinline: frames outside of this one are the program's. */
SS_NOINLINE void ss_handle_fault(int number, siginfo_t *info, void *context)
{
    int before = errno;
    ss_reporter who;

    if (getpid() != process) {
        end_by_default(number, info);
        return;
    }
    if (ss_watchdog_sent(info) && !ss_fault_report_is_cut())
        return; /* the report was complete just in time */
    if (atomic_load(&ss_handler_is_on) && ss_handler_choice.others_first &&
        !ss_fault_report_is_cut() && is_handled_by_former(number, info, context))
        return;
    who = atomic_load(&ss_handler_is_on) ? ss_reporter_become_waiting() : SS_REPORTER_OTHER;
    if (who == SS_REPORTER_AGAIN && ss_fault_report_is_cut()) {
        end_cut_report(info, context);
        return;
    }
    if (who == SS_REPORTER_AGAIN && is_ending)
        _exit(128 + fault.kind->number); /* a filter of system calls traps those of the end */
    if (who == SS_REPORTER_AGAIN)
        ss_crash_again(); /* of a fail fast; returns if its end is this signal */
    if (who == SS_REPORTER_NOW && !reported) {
        reported = is_ending = true;
        note_fault(number, info, context);
        set_signals(number);
        ss_fault_report(&fault, &ss_handler_choice, SS_HERE(), __builtin_return_address(0));
        ss_reporter_reset_signals();
        ss_context_restore(context, &crashed);
    }
    hand_over(number, info);
    errno = before;
}
