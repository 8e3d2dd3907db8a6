#include "crash/fault.h"

#include "base/thread.h"

#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* (THREAD reporter) */
static int timer;               /* the kernel's number */
static volatile bool has_timer; /* a filter of system calls may interrupt one of them */

/* The system calls themselves: the C library's functions may allocate. */
void ss_watchdog_begin(int number)
{
    struct sigevent event;

    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = number;
    event.sigev_value.sival_ptr = &timer;
    event.sigev_notify_thread_id = (pid_t)ss_thread_id();
    has_timer = syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == 0;
}

bool ss_watchdog_is_on(void)
{
    return has_timer;
}

void ss_watchdog_restart(uint32_t seconds)
{
    const struct itimerspec once = {.it_value = {.tv_sec = (time_t)seconds}};

    if (has_timer) {
        has_timer = false;
        has_timer = syscall(SYS_timer_settime, timer, 0, &once, NULL) == 0;
    }
}

void ss_watchdog_end(void)
{
    if (has_timer)
        (void)syscall(SYS_timer_delete, timer);
    has_timer = false;
}

bool ss_watchdog_sent(const siginfo_t *info)
{
    return info->si_code == SI_TIMER && info->si_value.sival_ptr == &timer;
}
