/*
 * A report of a crash, made by the crashing process itself: SIGSEGV, SIGBUS, SIGFPE, SIGILL,
 * SIGABRT and SIGSYS.
 *
 * The report has the combined stack of the crashing thread through the signal frame, the thread's
 * current error with its chain, and the stacks of the other threads.  It goes to stderr as text and
 * to a file.  Then the signal goes on to the handler that was there before, or to the default
 * action.  Both see the registers and the siginfo of the crash, so a core file shows the crash.
 *
 * Until then the other threads stay where they are, and exit() waits, so that none of them ends the
 * process in its own way.  If a handler was there before, they go on two seconds after it began.
 *
 * The report takes no memory of the heap, waits for no lock of ours and runs no script.  If it
 * faults itself, it goes on without the part that faulted.  The page docs/how-to/crashes.md has more.
 *
 * The general rules are those of stacksplice.h.
 */
#ifndef STACKSPLICE_CRASH_H
#define STACKSPLICE_CRASH_H

#include "stacksplice.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stacksplice_crash_options {
    size_t size; /* sizeof(stacksplice_crash_options) */
    /* The folder of report files; "": no file; NULL: that of fail-fast reports. */
    const char *directory;
    /* How many milliseconds to wait for the stacks of all other threads together; 0: 2000. */
    uint32_t thread_timeout;
    /*
     * Nonzero: the handlers that were there before ours run first.  What they return from is
     * handled; what they reset to the default action is reported.  For processes with a runtime
     * that handles faults of its own code, such as that of Java.
     */
    uint32_t others_first;
} stacksplice_crash_options;

/*
 * Report the crashes of this process and of its forked children from now on.  OPTIONS may be NULL.
 * A signal that the process ignores stays ignored.  The calling thread gets an alternate signal
 * stack, as by stacksplice_crash_thread.
 *
 * Nothing of this costs anything until a crash.  A handler that is installed later comes first; if
 * it then calls or restores ours, the report follows.
 *
 * Returns S_OK; S_FALSE if the handler was installed before: then only the options change, and NULL
 * keeps them.
 * Errors: E_INVALIDARG if options is of unknown size or its directory too long; E_OUTOFMEMORY.
 * [own: options copied | thread: any | alloc: maps a stack | signal: no]
 */
STACKSPLICE_API stacksplice_hresult
stacksplice_install_crash_handler(const stacksplice_crash_options *options);

/*
 * Put the former handlers back, except where a later one has taken our place: there ours stays and
 * only passes the signal on.  Alternate stacks stay, too.
 *
 * Returns S_OK; S_FALSE if there was none.
 * [thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_remove_crash_handler(void);

/*
 * Give the calling thread an alternate signal stack, unless it has one, and what a capture needs,
 * and unblock the signals of faults.  Only a thread with such a stack can report that it has used
 * up its own, and one that blocks SIGSEGV can report no fault at all; they crash without a report
 * otherwise.  For all other crashes this call is not needed.  The stack goes when the thread ends.
 *
 * Returns S_OK; S_FALSE if the thread had an alternate stack.  Errors: E_OUTOFMEMORY.
 * [own: the thread's | thread: any | alloc: maps a stack | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_crash_thread(void);

#ifdef __cplusplus
}
#endif
#endif
