/* Decides which thread drops a value, and when. */
#ifndef SS_RELEASE_H
#define SS_RELEASE_H

#include "base/platform.h"

#include <stacksplice/debugger.h>
#include <stacksplice/script.h>
#include <stdatomic.h>

/* ---- Owner -----------------------------------------------------------------------------------*/

/*
 * An interpreter as the core sees it.
 *
 * Any thread may release an exception at any time, even after the interpreter's end.  But only the
 * interpreter's thread may drop a value.  So a release calls nothing in the interpreter: it puts
 * the exception onto its owner's list.  It then wakes the owner, unless this thread is in one of
 * its sections.
 */

typedef struct ss_owner {
    stacksplice_owner public; /* waiting: (ATOMIC) the released exceptions, newest first */
    const stacksplice_language *language; /* (RO) */
    _Atomic(void *) data;                 /* (ATOMIC) NULL when closed */
    atomic_uint refs;                     /* (ATOMIC) of the interpreter and of every exception */
    atomic_bool closed;                   /* (ATOMIC) set once, under the lock of wake-ups */
    atomic_bool waking;                   /* (ATOMIC) a wake-up was requested */
    const char *version;                  /* (RO) once the owner is shown */
    stacksplice_entry *entry;             /* (RO) likewise: by which debuggers find it */
    stacksplice_exception *keeping;       /* owner's thread: the list of exceptions with values */
} ss_owner;

static inline ss_owner *ss_owner_of(const stacksplice_owner *owner)
{
    return (ss_owner *)(uintptr_t)owner; /* its first member */
}

/* Whether the releasing thread may drop OWNER's values itself. */
static inline bool ss_owner_any_thread(const stacksplice_owner *owner)
{
    return ss_owner_of(owner)->language->flags & STACKSPLICE_LANGUAGE_ANY_THREAD;
}

#endif
