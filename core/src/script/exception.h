/*
 * The language exception.  OUTSIDE counts COM references.  INSIDE keeps the memory; all outside
 * references together hold one of it.  Related errors are held inside for life, and outside while
 * OUTSIDE is above 0.
 */
#ifndef SS_EXCEPTION_H
#define SS_EXCEPTION_H

#include "base/platform.h"
#include "error/error.h"
#include <stacksplice/debugger.h>
#include <stacksplice/script.h>
#include <stdatomic.h>

struct stacksplice_exception {
    ILanguageExceptionStackBackTrace backtrace; /* also the IUnknown and the IAgileObject */
    ILanguageExceptionTransform transform;      /* answered when there is a cause */
    IScriptException script;
    stacksplice_owner *owner; /* (RO) counted */

    atomic_uint outside;            /* (ATOMIC) */
    atomic_uint inside;             /* (ATOMIC) */
    atomic_bool queued;             /* (ATOMIC) on the owner's list of released ones */
    stacksplice_exception *waiting; /* the next of that list */
    _Atomic(void *) value;          /* kept; changed by the owner's thread, or under value_lock */
    stacksplice_exception *kept;    /* owner's thread: the next that keeps a value */
    stacksplice_exception **link;   /* owner's thread: the pointer to this one in that list */

    _Atomic(IScriptErrorInfo *) cause; /* set once */
    stacksplice_relation relation;     /* set with the cause, as is the rest: */
    uint32_t causes_left_out;

    /* (RO) from here on; pointers lead into STORAGE */
    HRESULT hresult;
    bool interrupt, group;
    const char *types; /* consecutive, each with its NUL */
    uint32_t type_count;
    const char *message;
    size_t message_length;
    IScriptErrorInfo **members;
    uint32_t member_count, members_left_out;
    stacksplice_document_text *notes;
    uint32_t note_count;
    stacksplice_kept_local *locals;
    uint32_t local_count;
    uint32_t frame_count;
    _Atomic uint64_t epoch; /* (ATOMIC) see stacksplice_settle */
    uintptr_t storage[];    /* frames, members, notes, locals, texts */
};

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

/* What an IScriptException of this library begins with. */
extern const IScriptExceptionVtbl ss_exception_script_methods;

#endif
