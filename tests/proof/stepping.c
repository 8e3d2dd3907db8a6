#define _GNU_SOURCE /* the registers' names */

#include "stepping.h"

#include "unwind_probe.h"

#include <errno.h>
#include <stddef.h>

#if defined(__x86_64__)

#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

#define TRAP_FLAG 0x100
#define TIMER_MICROSECONDS 1000
#define PLACES (1u << 18)

static uintptr_t seen[PLACES]; /* a hash table; at three quarters, what is new counts as seen */
static unsigned each_time, left;
static uint64_t steps, places;

static bool is_new(uintptr_t address)
{
    uint32_t at = (uint32_t)((uint64_t)address * UINT64_C(0x9e3779b97f4a7c15) >> 46);

    while (seen[at % PLACES] && seen[at % PLACES] != address)
        at++;
    if (seen[at % PLACES] || places >= PLACES / 4 * 3)
        return false;
    seen[at % PLACES] = address;
    places++;
    return true;
}

/*
 * Once, and again only after the steps that follow: these take longer than the timer, and a program
 * of nothing but steps would fill a block of memory for minutes.
 */
static bool set_timer(unsigned microseconds)
{
    const struct itimerval timer = {{0, 0}, {0, microseconds}};

    return setitimer(ITIMER_PROF, &timer, NULL) == 0;
}

static void on_step(int number, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    int saved = errno;

    steps++;
    if (is_new((uintptr_t)registers[REG_RIP]))
        (void)probe_compare();
    if (--left == 0) {
        registers[REG_EFL] &= ~(greg_t)TRAP_FLAG;
        if (each_time)
            (void)set_timer(TIMER_MICROSECONDS);
    }
    errno = saved;
}

static void on_time(int number, siginfo_t *info, void *context)
{
    left = each_time;
    if (left)
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

bool stepping_begin(unsigned count)
{
    struct sigaction step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigaction time = {.sa_sigaction = on_time, .sa_flags = SA_SIGINFO | SA_RESTART};

    /* A trap while its signal is blocked would end the process. */
    (void)sigaddset(&step.sa_mask, SIGPROF);
    if (!set_timer(0))
        return false;
    each_time = count;
    if (!count)
        return true;
    (void)probe_compare(); /* the memory that a thread's first capture needs */
    return sigaction(SIGTRAP, &step, NULL) == 0 && sigaction(SIGPROF, &time, NULL) == 0 &&
           set_timer(TIMER_MICROSECONDS);
}

#else

static uint64_t steps, places;

bool stepping_begin(unsigned count)
{
    errno = ENOTSUP;
    return count == 0;
}

#endif

uint64_t stepping_steps(void)
{
    return steps;
}

uint64_t stepping_places(void)
{
    return places;
}
