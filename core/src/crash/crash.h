/*
 * Ends a process whose error nobody handled: a few words, records, a report on stderr, a report
 * file, SIGABRT.  This path needs no memory and waits for no lock of ours.  A thread that has never
 * captured requests its capture memory here; without it the report lacks the thread's stack.
 */
#ifndef SS_CRASH_H
#define SS_CRASH_H

#include "report/report.h"

/*
 * End the process with FACTS, whose memory the caller never releases.  EVENT, a literal, names the
 * function that ended it; ABOVE is its frame address.  If two threads get here at once, one reports
 * and the other waits for the end.  If a fault in the report brings a thread here again, through a
 * handler of the host, it writes a short report.
 */
__attribute__((noreturn)) void ss_crash(const ss_facts *facts, const char *event,
                                        const void *above);

/*
 * Write the report file, and tell STDERR_WRITER where it is or why there is none.  SCRATCH is the
 * report's.
 */
void ss_crash_write_file(const ss_facts *facts, const char *event, ss_binary *scratch,
                         ss_writer *stderr_writer);

/* A write callback; DATA points to a file descriptor. */
int ss_crash_write(const char *text, size_t length, void *data);

/* Stderr's descriptor, for ss_crash_write. */
extern int ss_crash_stderr;

#endif
