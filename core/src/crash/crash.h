/*
 * Ends a process whose error nobody handled: a few words, records, a report on stderr, a report
 * file, SIGABRT.  This path needs no memory and waits for no lock of ours.  A thread that has never
 * captured requests its capture memory here; without it the report lacks the thread's stack.
 */
#ifndef SS_CRASH_H
#define SS_CRASH_H

#include "report/json.h"
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
 * The reporting thread is here again: a fault or the end interrupted its report.  Write the short
 * report, unless it was that one, and end the process.  Returns if the end has begun.
 */
void ss_crash_again(void);

/* What a report file has beside the error. */
typedef struct ss_crash_more {
    const char *directory;          /* NULL: the usual one */
    uintptr_t struck;               /* as in ss_report */
    bool without_modules;           /* their list needs a lock of the loader */
    void (*put_header)(ss_emit *e); /* more members of the header */
    void (*put_members)(const ss_report *r, ss_emit *e);
} ss_crash_more;

/*
 * Write the report file, and tell STDERR_WRITER where it is or why there is none.  MORE may be
 * NULL.  SCRATCH is the report's.  Returns its path until the next file, or NULL.
 */
const char *ss_crash_write_file(const ss_facts *facts, const char *event, const ss_crash_more *more,
                                ss_binary *scratch, ss_writer *stderr_writer);

/* A write callback; DATA points to a file descriptor. */
int ss_crash_write(const char *text, size_t length, void *data);

/* As open, MODE 0600; beyond the soft limit of descriptors, if all of these are in use. */
int ss_crash_open(const char *path, int flags);

/* Stderr's descriptor, for ss_crash_write. */
extern int ss_crash_stderr;

/* Text that ends with a NUL, written by ss_crash_append, a write callback.  Never cut. */
typedef struct ss_crash_text {
    char *to;
    size_t used, size;
} ss_crash_text;

int ss_crash_append(const char *bytes, size_t length, void *data);

#endif
