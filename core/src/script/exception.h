/*
 * The language exception.  OUTSIDE counts COM references.  INSIDE keeps the memory; all outside
 * references together hold one of it.  Related errors are held inside for life, and outside while
 * OUTSIDE is above 0.
 */
#ifndef SS_EXCEPTION_H
#define SS_EXCEPTION_H

#include "base/platform.h"
#include <stacksplice/script.h>

#include <stdatomic.h>

struct stacksplice_exception {
    ILanguageExceptionStackBackTrace backtrace; /* also the IUnknown */
    ILanguageExceptionTransform transform;      /* answered when there is a cause */
    IScriptException script;
    IScriptExceptionDetails details; /* answered when it has any details */
    IScriptExceptionType type;       /* answered when the type has base types */
    IScriptExceptionFrames frames;
    IAgileObject agile;
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
    stacksplice_told_text *notes;
    uint32_t note_count;
    stacksplice_kept_local *locals;
    uint32_t local_count;
    uint32_t frame_count;
    _Atomic uint64_t epoch; /* (ATOMIC) see stacksplice_settle */
    uintptr_t storage[];    /* frames, members, notes, locals, texts */
};

void ss_related_wake(IScriptErrorInfo *error);
void ss_related_hold(IScriptErrorInfo *error);

/* False where no interpreter can keep a related value again: related errors stay awake. */
bool ss_exception_sleeps(const stacksplice_exception *x);

/* release.c */
ULONG ss_exception_add_ref(stacksplice_exception *x);
ULONG ss_exception_release(stacksplice_exception *x);

/* interfaces.c: what an IScriptException of this library begins with. */
extern const IScriptExceptionVtbl ss_exception_script_methods;

/* interfaces.c: make X answer COM's calls. */
void ss_exception_set_interfaces(stacksplice_exception *x);

/* ties.c: the interface IID of OBJECT, with a reference; NULL if it has none, or if OBJECT is NULL. */
void *ss_query(void *object, REFIID iid);

#endif
