#include "crash/wait.h"

#include "crash/context.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

/* ---- What the kernel tells -------------------------------------------------------------------*/

/* Read a number in decimal or, behind "0x", in hexadecimal digits, and the blank behind it. */
static bool take_number(const char **text, uint64_t *number)
{
    const char *at = *text;
    unsigned base = at[0] == '0' && at[1] == 'x' ? 16 : 10;
    const char *first = at += base == 16 ? 2 : 0;

    for (*number = 0;; at++) {
        unsigned digit =
            *at >= 'a' && *at <= 'f' ? (unsigned)(*at - 'a') + 10 : (unsigned)(*at - '0');

        if (digit >= base)
            break;
        *number = *number * base + digit;
    }
    *text = at + (*at == ' ' || *at == '\n');
    return at > first && *text > at;
}

bool ss_wait_read(const char *text, ss_wait *wait)
{
    bool is_whole = take_number(&text, &wait->call);

    for (size_t i = 0; i < SS_COUNT_OF(wait->arguments); i++)
        is_whole = is_whole && take_number(&text, &wait->arguments[i]);
    return is_whole && take_number(&text, &wait->sp) && take_number(&text, &wait->pc);
}

/* ---- Which calls go on -----------------------------------------------------------------------*/

/* Not every C library comes with the kernel's headers. */
enum { WAIT_BITSET = 9, FLAGS = 128 | 256 /* of futex: private, the other clock */ };

/*
 * Whether the call, made again, ends when it would have ended.  So end those without a limit, those
 * that end at a time of a clock, and those for which the kernel has written what is left of their
 * time.  The calls that are missing here are begun again by the kernel, for SA_RESTART, or cannot be.
 */
static bool can_go_on(const ss_wait *wait)
{
    const uint64_t *argument = wait->arguments;

    switch (wait->call) {
#ifdef SYS_pause
    case SYS_pause:
#endif
#ifdef SYS_select
    case SYS_select:
#endif
    case SYS_pselect6:
    case SYS_ppoll:
    case SYS_rt_sigsuspend:
    case SYS_msgsnd:
    case SYS_msgrcv:
    case SYS_semop:
        return true;
#ifdef SYS_poll
    case SYS_poll:
        return (int)argument[2] < 0;
#endif
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
        return (int)argument[3] < 0;
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
#endif
    case SYS_semtimedop:
        return !argument[3];
    case SYS_io_getevents:
        return !argument[4];
    case SYS_nanosleep:
        return argument[1];
    case SYS_clock_nanosleep:
        return argument[1] & TIMER_ABSTIME || argument[3];
    case SYS_futex:
        return ((int)argument[1] & ~FLAGS) == WAIT_BITSET;
    default:
        return false;
    }
}

/* ---- Whether one was interrupted -------------------------------------------------------------*/

/* It is at the same place, which is told by its registers. */
static bool has_ended(const ss_wait *wait, ucontext_t *context)
{
    if (wait->pc != ss_context_pc(context) || wait->sp != ss_context_sp(context) ||
        ss_context_result(context) != -EINTR)
        return false;
    for (unsigned i = SS_FIRST_ARGUMENT_KEPT; i < SS_COUNT_OF(wait->arguments); i++)
        if (*ss_context_argument(context, i) != wait->arguments[i])
            return false;
    return true;
}

static bool has_handler(int number)
{
    struct sigaction now;

    return sigaction(number, NULL, &now) == 0 &&
           (now.sa_flags & SA_SIGINFO || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN));
}

/* Whether a handler of the program is to run, for a signal other than OURS that came since. */
static bool has_other_end(int ours, const ucontext_t *context)
{
    sigset_t pending;

    if (sigpending(&pending) != 0)
        return true;
    for (int number = 1; number <= SIGRTMAX; number++)
        if (number != ours && sigismember(&pending, number) == 1 &&
            sigismember(&context->uc_sigmask, number) == 0 && has_handler(number))
            return true;
    return false;
}

/* Make the call once more, for the time that is left where the kernel has written that elsewhere. */
static void call_again(const ss_wait *wait, ucontext_t *context)
{
    const uint64_t *argument = wait->arguments;

    *ss_context_argument(context, 0) = argument[0];
    if (wait->call == SYS_nanosleep)
        *ss_context_argument(context, 0) = argument[1];
    else if (wait->call == SYS_clock_nanosleep && !(argument[1] & TIMER_ABSTIME))
        *ss_context_argument(context, 2) = argument[3];
    ss_context_call_again(context, wait->call);
}

void ss_wait_go_on(const ss_wait *wait, int number, ucontext_t *context)
{
    if (has_ended(wait, context) && can_go_on(wait) && !has_other_end(number, context))
        call_again(wait, context);
}
