/*
 * Interrupts a step of the report that takes too long, such as a wait for a lock of the C library.
 * Signal safe.
 */
#ifndef SS_WATCHDOG_H
#define SS_WATCHDOG_H

#include "base/platform.h"

#include <signal.h>

/* Send SIGNAL to this thread if the watchdog is not restarted in time.  It may be unavailable. */
void ss_watchdog_begin(int number);

/* Whether it is there: else nothing may wait for a lock. */
bool ss_watchdog_is_on(void);
void ss_watchdog_restart(uint32_t seconds);
void ss_watchdog_end(void);

/* Whether INFO is of its signal. */
bool ss_watchdog_sent(const siginfo_t *info);

#endif
