/*
 * The stacks of the other threads of a crashed process.  A signal asks each to capture its own.
 * Static memory, no lock; signal safe.
 */
#ifndef SS_THREADS_H
#define SS_THREADS_H

#include "base/platform.h"
#include "report/json.h"
#include "report/report.h"

enum { SS_THREADS_MAX = 256, SS_THREAD_FRAMES = 128, SS_THREAD_NAME = 16 };

typedef struct ss_other_thread {
    uint64_t id;
    char name[SS_THREAD_NAME]; /* ends with a NUL */
    uint32_t count;
    uintptr_t frames[SS_THREAD_FRAMES];
} ss_other_thread;

/* Ask all threads but this one, and wait for their answers at most MILLISECONDS in all. */
void ss_threads_ask(uint32_t milliseconds);

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

/* ---- In reports ------------------------------------------------------------------------------*/

/* The stacks that ss_threads_ask got, in reports: all but that of one thread.  Signal safe. */

/* As text; EXCEPT is a thread's id, or 0. */
void ss_threads_tell(const ss_report *r, uint64_t except);

/* As the members `threads` and `threads_left_out` (null: they are unknown) of a report file. */
void ss_threads_put(const ss_report *r, ss_emit *e, uint64_t except);

#endif
