/*
 * Deadlines: a report of every thread when something is not done in time, or when a signal asks for it.
 *
 * A thread begins a deadline before work that may hang, and ends it after.  If the deadline passes
 * in between, the stacks of all threads are written, the late one's first: to stderr as text, and
 * to a file like that of a crash.  Then the process goes on.  The page docs/how-to/sandboxes-and-limits.md has more.
 *
 * The general rules are those of stacksplice.h.
 */
#ifndef STACKSPLICE_DEADLINE_H
#define STACKSPLICE_DEADLINE_H

#include "stacksplice.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A deadline that was begun; 0 is none.  A number is never given out twice. */
typedef uint64_t stacksplice_deadline;

enum {
    STACKSPLICE_DEADLINE_NO_TEXT = 1, /* write nothing to stderr */
    STACKSPLICE_DEADLINE_NO_FILE = 2  /* write no file; with both, ask no thread for its stack */
};

enum { STACKSPLICE_DEADLINE_NAME_MAX = 63 };

/* How many bytes of NAME a report shows: a longer one is cut between two characters. */
static inline size_t stacksplice_deadline_name_length(const char *name)
{
    size_t length = 0;

    while (length < STACKSPLICE_DEADLINE_NAME_MAX && name[length])
        length++;
    while (length && name[length] && ((unsigned char)name[length] & 0xC0) == 0x80)
        length--;
    return length;
}

typedef struct stacksplice_deadline_options {
    size_t size;      /* sizeof(stacksplice_deadline_options) */
    const char *name; /* of the work, for the report: UTF-8, cut at 63 bytes; NULL: none */
    uint32_t flags;
    /*
     * Called in the late thread, in a signal handler, after the report and then about every 20
     * milliseconds, or less often if many are late, until the deadline is ended, which that thread
     * has to do itself.  It may do only what a signal handler may.  A system call in which the thread
     * waits returns EINTR after it, unless SA_RESTART begins it again.
     */
    void (*interrupt)(void *data);
    void *data;
} stacksplice_deadline_options;

/*
 * Begin a deadline of the calling thread, MILLISECONDS from now.  OPTIONS may be NULL.  Deadlines
 * nest: each is watched on its own, and each that is missed has its own report.
 *
 * The first call of a process starts the thread that watches.  Later ones start and allocate
 * nothing, and seldom need a system call.  A forked child has none of its parent's deadlines; it
 * may begin its own.  Files go to the folder of the crash handler's options, or, if it was not
 * installed with one, to that of fail-fast reports.  Other threads have as long to answer as those
 * options say.
 *
 * Of many that are missed, the first 60 are reported and then one each minute; in a quiet time this
 * room comes back, one report each minute.  The next report says how many were left out.
 *
 * A report asks each thread by a signal.  Most waits go on after it; poll and epoll_wait with a limit
 * of time and a few others return EINTR.  The page has them all.
 *
 * Returns S_OK.  Errors: E_POINTER if deadline is NULL; E_INVALIDARG if options is of unknown size
 * or has unknown flags; E_OUTOFMEMORY if no thread can be started, or with 16,384 of them begun.
 * [own: options copied, but data lives until the end | thread: any | alloc: seldom | signal: no]
 */
STACKSPLICE_API stacksplice_hresult
stacksplice_deadline_begin(uint32_t milliseconds, const stacksplice_deadline_options *options,
                           stacksplice_deadline *deadline);

/*
 * End a deadline.
 *
 * Returns S_OK; S_FALSE if the deadline was missed.  Errors: E_INVALIDARG if there is no such
 * deadline: it was ended before, or belongs to the process that forked this one.
 * [thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_deadline_end(stacksplice_deadline deadline);

/*
 * Have signal NUMBER, such as SIGUSR1, report every thread: their stacks are written as those of a missed
 * deadline, that of the thread that got the signal first, and the process goes on.  Nobody needs rights to
 * look into the process: who may send it the signal gets a report.  Calling it again changes nothing.
 *
 * Replaces the handler that NUMBER has; another handler, or SIG_DFL, set by sigaction replaces this one.
 * The handler does what signal handlers may: it wakes the thread that watches deadlines, which this call
 * starts.  A forked child has no such thread: until it makes this call itself a signal writes a line to
 * stderr that says so.  Of signals that come while a report is written the last one has its own.  Reports
 * are bounded together with those of deadlines.
 *
 * Returns S_OK.  Errors: E_INVALIDARG for a signal that cannot be caught or that is of a crash (SIGSEGV,
 * SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS); E_OUTOFMEMORY if no thread can be started.
 * [thread: any | alloc: first call | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_report_on_signal(int number);

#ifdef __cplusplus
}
#endif
#endif
