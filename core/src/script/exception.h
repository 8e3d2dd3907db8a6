/*
 * The language exception.  OUTSIDE counts COM references; INSIDE keeps the memory, and all outside
 * references together hold one of it.  What is related is held inside for life, and outside while
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
    IScriptExceptionDetails details; /* answered when there is something of it */
    IScriptExceptionType type;       /* answered when the type is derived from others */
    IAgileObject agile;
    stacksplice_owner *owner; /* (RO) counted */

    atomic_uint outside;            /* (ATOMIC) */
    atomic_uint inside;             /* (ATOMIC) */
    atomic_bool queued;             /* (ATOMIC) on the owner's list of released ones */
    stacksplice_exception *waiting; /* the next of that list */
    _Atomic(void *) value;          /* kept; changed by the owner's thread, or under value_lock */
    stacksplice_exception *kept;    /* owner's thread: the next that keeps its value */
    stacksplice_exception **link;   /* owner's thread: what points to this one there */

    _Atomic(IScriptErrorInfo *) cause; /* set once */
    stacksplice_relation relation;     /* set with the cause, and so is: */
    uint32_t causes_left_out;

    /* (RO) from here on; what they point to is in STORAGE */
    HRESULT hresult;
    bool interrupt, group;
    const char *types; /* one after the other, each with its NUL */
    uint32_t type_count;
    const char *message;
    size_t message_length;
    IScriptErrorInfo **members;
    uint32_t member_count, members_left_out;
    stacksplice_told_text *notes;
    uint32_t note_count;
    uint32_t frame_count;
    uintptr_t storage[]; /* frames, members, notes, texts */
};

/* Make SELF answer COM's calls. */
void ss_exception_set_interfaces(stacksplice_exception *self);

ULONG ss_exception_add_ref(stacksplice_exception *self);
ULONG ss_exception_release(stacksplice_exception *self);

/* The value, if it is to be dropped now: nobody outside holds SELF.  Else NULL. */
void *ss_exception_take_value(stacksplice_exception *self);

#endif
