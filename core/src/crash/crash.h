/*
 * The end of a process whose error nobody handled: a few words, records, a report on stderr, a
 * report file, SIGABRT.  Nothing on this path needs memory or waits for a lock of ours: a thread
 * that has never captured asks for its capture memory here, and without it the report has no stack
 * of its own.
 */
#ifndef SS_CRASH_H
#define SS_CRASH_H

#include "report/report.h"

/*
 * End the process with FACTS, whose memory the caller never releases.  EVENT is the function that
 * ended it, a literal, ABOVE its frame address.  Of two threads that come here at once, one reports
 * and the other waits for the end; a thread that comes here again, because a handler of the host
 * was called for a fault in the report, writes a short one.
 */
__attribute__((noreturn)) void ss_crash(const ss_facts *facts, const char *event,
                                        const void *above);

/*
 * Write the report file and say on STDERR_WRITER where it is, or why there is none.  SCRATCH is
 * that of the report.
 */
void ss_crash_write_file(const ss_facts *facts, const char *event, ss_binary *scratch,
                         ss_writer *stderr_writer);

/* A write call-back for a descriptor: DATA points to it. */
int ss_crash_write(const char *text, size_t length, void *data);

/* The descriptor of stderr, for it. */
extern int ss_crash_stderr;

#endif
