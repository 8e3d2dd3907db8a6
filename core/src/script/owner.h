/*
 * The interpreter as the core sees it.
 *
 * A release may come from any thread, at any time, also after the interpreter's end, and a value
 * may be dropped by its interpreter's thread only.  So a release asks the interpreter nothing: the
 * exception goes onto its owner's list, and the owner is woken unless this thread is in one of its
 * sections.
 */
#ifndef SS_OWNER_H
#define SS_OWNER_H

#include "base/platform.h"
#include <stacksplice/script.h>

#include <stdatomic.h>

typedef struct ss_owner {
    stacksplice_owner public; /* waiting: (ATOMIC) the released exceptions, newest first */
    const stacksplice_language *language; /* (RO) */
    _Atomic(void *) data;                 /* (ATOMIC) NULL when closed */
    atomic_uint refs;                     /* (ATOMIC) the interpreter, and every exception */
    atomic_bool closed;                   /* (ATOMIC) set once, under the lock of wake-ups */
    atomic_bool waking;                   /* (ATOMIC) the language was asked */
    stacksplice_exception *keeping;       /* owner's thread: a list of those with values */
} ss_owner;

static inline ss_owner *ss_owner_of(const stacksplice_owner *owner)
{
    return (ss_owner *)(uintptr_t)owner; /* its first member */
}

/* Whether values of OWNER are dropped where their exception is released. */
static inline bool ss_owner_any_thread(const stacksplice_owner *owner)
{
    return ss_owner_of(owner)->language->flags & STACKSPLICE_LANGUAGE_ANY_THREAD;
}

#endif
