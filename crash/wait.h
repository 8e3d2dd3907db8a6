/* Waits of the program that a signal of ours interrupts, and that go on after it. */
#ifndef SS_WAIT_H
#define SS_WAIT_H

#include "base/platform.h"

#include <ucontext.h>

/* The system call in which a thread sleeps. */
typedef struct ss_wait {
    uint64_t call; /* its number */
    uint64_t arguments[6];
    uint64_t sp, pc; /* PC: behind the instruction that calls the kernel */
} ss_wait;

/*
 * Read the kernel's TEXT about a thread, /proc/.../syscall.  False: the thread runs, or sleeps in no
 * call.  Signal safe, as the next one.
 */
bool ss_wait_read(const char *text, ss_wait *wait);

/*
 * In the handler of a signal, which CONTEXT interrupted: if that ended WAIT, the call is made again
 * when the handler returns, for the time that is left.  What has a limit of time and does not tell
 * how much of it is left ends with EINTR, and so does all that a signal of the program has ended,
 * too.  The handler, of signal NUMBER, blocks the program's signals.
 */
void ss_wait_go_on(const ss_wait *wait, int number, ucontext_t *context);

#endif
