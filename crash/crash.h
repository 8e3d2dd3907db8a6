/*
 * Ends a process whose error nobody handled: a few words, a report on stderr, a report
 * file, SIGABRT.  This path needs no memory and waits for no lock of ours.  A thread that has never
 * captured requests its capture memory here; without it the report lacks the thread's stack.
 */
#ifndef SS_CRASH_H
#define SS_CRASH_H

#include "base/platform.h"
#include "report/report.h"
#include "report/visit.h"

#include <signal.h>
#include <stdatomic.h>

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

/*
 * Call F with DATA on a stack for reports: the thread's own may be nearly full, and alternate signal
 * stacks are small.  There are two in turn: a fault in one leaves it in use.
 */
void ss_crash_on_own_stack(void (*f)(void *), void *data);

/* What a report file has beside the error. */
typedef struct ss_crash_more {
    const char *directory;          /* NULL: the usual one */
    uintptr_t crashed_at;           /* as in ss_report */
    bool without_modules;           /* their list needs a lock of the loader */
    void (*put_header)(ss_emit *e); /* more members of the header */
    void (*put_members)(const ss_report *r, ss_emit *e);
} ss_crash_more;

/*
 * Write the report file, and tell STDERR_WRITER where it is or why there is none.  MORE may be
 * NULL.  SCRATCH is the report's.
 */
void ss_crash_write_file(const ss_facts *facts, const char *event, const ss_crash_more *more,
                         ss_binary *scratch, ss_writer *stderr_writer);

/* A write callback; DATA points to a file descriptor. */
int ss_crash_write(const char *text, size_t length, void *data);

/* As open, MODE 0600; beyond the soft limit of descriptors, if all of these are in use. */
int ss_crash_open(const char *path, int flags);

/* Stderr's descriptor, for ss_crash_write. */
extern int ss_crash_stderr;

/*
 * Captures may come in signal handlers from now on: this thread makes one, in which each source learns
 * what it cannot learn there.  The memory of this thread's captures exists then.  Not in a handler.
 */
void ss_captures_prepare(void);

/* ---- First words -----------------------------------------------------------------------------*/

/* The first output of a dying process, before it follows any object, each of which may be
   damaged. */

/*
 * Write EVENT and HR to stderr, and note the callers' addresses, which are written only if no handler
 * of ours would catch a fault in the report.  ABOVE is the frame address, which must be exact, of the
 * function whose callers are meant.  EVENT is a literal.  In a thread that has captured before,
 * allocates and locks nothing.  Signal safe.
 */
void ss_first_words(HRESULT hr, const char *event, const void *above);

/* Write these addresses, for a report that was interrupted: what follows may fail, too.  Signal safe. */
void ss_first_words_addresses(ss_writer *w);

/* Fill FACTS for HR without an error object, with the COUNT elements of FRAMES, which stay. */
void ss_crash_facts(ss_facts *facts, HRESULT hr, uint64_t thread_id, const uintptr_t *frames,
                    uint32_t count);

/* Fill FACTS for an error known only by these words; returns the event. */
const char *ss_first_words_facts(ss_facts *facts);

/* ---- The reporter ----------------------------------------------------------------------------*/

/* Which thread reports the end of the process.  Signal safe. */

typedef enum ss_reporter {
    SS_REPORTER_NOW,   /* this thread, from this call on */
    SS_REPORTER_AGAIN, /* this thread was it before: something interrupted its report */
    SS_REPORTER_OTHER  /* another thread */
} ss_reporter;

/*
 * The same, but wait while there is another.  One whose report ends nothing may wait for this very
 * thread, which crashed with a lock of the loader: it is waited for 15 seconds.
 */
ss_reporter ss_reporter_become_waiting(void);

/* The same for a report that ends nothing: a fault in it makes this thread reporter once more. */
void ss_reporter_become_for_now(void);

/* The report is complete, and the process may go on. */
void ss_reporter_is_done(void);

/*
 * A closed stderr or a limit on files must not end the process before the rest is written.  A fault
 * in the report must reach the handler that goes on with it: the kernel kills a process that faults
 * while it blocks the signal.  Nor may a cancellation that waits end this thread in the report.
 */
void ss_reporter_set_signals(void);

/*
 * Undo that for the crash that follows: what the report has raised must not strike in its place.  A
 * cancellation waits for a cancellation point.
 */
void ss_reporter_reset_signals(void);

/* Drop signal NUMBER, which this thread blocks, if it waits. */
void ss_reporter_drop_signal(int number);

/* ---- The handler of signals -------------------------------------------------------------------*/

enum { SS_CRASH_THREAD_TIMEOUT = 2000 };

/* What the host chose. */
typedef struct ss_crash_choice {
    const char *directory;   /* of report files; NULL: that of fail-fast reports */
    uint32_t thread_timeout; /* milliseconds */
    bool others_first;
} ss_crash_choice;

extern ss_crash_choice ss_handler_choice;
extern atomic_bool ss_handler_is_on; /* (ATOMIC) reports are wanted */

bool ss_handler_is_ours(const struct sigaction *action);

/* Put it in the place of each that does not ignore its signal, and take it away again. */
void ss_handler_install(void);
void ss_handler_remove(void);

/* ---- The other threads ------------------------------------------------------------------------*/

/* Their stacks, for which a signal asks each of them.  Static memory, no lock; signal safe. */

enum { SS_THREADS_MAX = 256, SS_THREAD_FRAMES = 128, SS_THREAD_NAME = 16 };

typedef struct ss_other_thread {
    uint64_t id;
    char name[SS_THREAD_NAME]; /* ends with a NUL */
    uint32_t count;
    uintptr_t frames[SS_THREAD_FRAMES];
} ss_other_thread;

/*
 * Ask all threads but this one.  A thread that has answered goes on with what it did, also with most
 * waits; while threads are held, it stays.
 */
void ss_threads_ask(void);

/* Wait for their answers as long as the host chose. */
void ss_threads_await(void);

/*
 * This thread ends the process: others stay where they answer, and in exit(), so that none ends it
 * in its own way before.  For a minute at most: a report that takes longer has stopped.
 */
void ss_threads_hold(void);

/* A handler of the host may have the process go on: let them go in two seconds.  Signal safe. */
void ss_threads_let_go(void);

/* Never ask thread ID, which is ours; 0: none. */
void ss_threads_never_ask(uint64_t id);

/* Have thread ID call WANTED, always the same one, with NUMBER, above 32 bits, in a signal handler. */
typedef void (*ss_thread_call)(uint64_t number);
void ss_threads_call(uint64_t id, ss_thread_call wanted, uint64_t number);

/* Forget the answers: one of them cannot be read. */
void ss_threads_forget(void);

/* The answer of thread ID, or NULL. */
const ss_other_thread *ss_threads_find(uint64_t id);

/*
 * Capture into FRAMES, with room for MAX, the stack of the code that a signal interrupted at PC.
 * HANDLER is the frame address of the handler, RETURN_ADDRESS its return address.  Returns the
 * number of elements; one of them is always PC, or the script frame that stands for it.
 */
uint32_t ss_capture_interrupted(const void *handler, const void *return_address, uintptr_t pc,
                                uint32_t max, uintptr_t *frames);

/* The stacks that ss_threads_ask got, in reports: all but that of one thread.  Signal safe. */

/* As text; EXCEPT is a thread's id, or 0. */
void ss_threads_tell(const ss_report *r, uint64_t except);

/* As the members `threads` and `threads_left_out` (null: they are unknown) of a report file. */
void ss_threads_put(const ss_report *r, ss_emit *e, uint64_t except);

#endif
