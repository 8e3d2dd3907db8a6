/*
 * For authors of language bindings: how the exceptions of an interpreter become language
 * exceptions, which keep their identity across borders.  source.h is about frames.
 *
 * A binding gives the core a stacksplice_language, once, and a stacksplice_owner for each
 * interpreter.  The core then implements the language exception as a COM object, counts its
 * references, remembers what other threads released, and originates, restores and matches errors.
 * The binding keeps what only it can know: where a value of its language hangs its
 * stacksplice_ties, and what a value says of itself.  docs/bindings.md builds one step by step.
 *
 * An interpreter runs on one thread at a time.  "The owner's thread" is the one that runs it now.
 * The general rules are those of stacksplice.h.
 */
#ifndef STACKSPLICE_SCRIPT_H
#define STACKSPLICE_SCRIPT_H

#include "source.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Gaps and tokens -------------------------------------------------------------------------*/

/* Nonzero when ADDRESS is a token: see source.h. */
static inline int stacksplice_is_token(uintptr_t address)
{
    return (uint64_t)address >> 48 == 0x5353;
}

/* Flags of stacksplice_gap: what stands outward of it waits for what stands inward. */
#define STACKSPLICE_GAP_ASYNCHRONOUS 1u

/*
 * The token of the gap that LANGUAGE leaves for REASON.  Without memory it is one that says so.
 * [own: strings copied | thread: any | alloc: no, maps | signal: inside collect]
 */
STACKSPLICE_API uintptr_t stacksplice_gap(const char *language, const char *reason, uint32_t flags);

/* ---- Glue ------------------------------------------------------------------------------------*/

/*
 * The native functions and binaries of an interpreter, by name: reports hide them.  Each member is
 * a list of patterns that ends with NULL, or NULL itself.
 *
 * A pattern is a name, or the beginning of one with a sign at its end: '*' stands for anything, '#'
 * for a version number or nothing.  '^' stands for one capital letter.  A name alone also matches
 * the parts that a compiler made of a function: "tiny_call.cold".
 */
typedef struct stacksplice_glue {
    size_t size; /* sizeof(stacksplice_glue) */
    const char *language;
    const char *const *functions; /* glue in every binary */
    const char *const *entries;   /* the same; these run scripts, whoever calls them */
    const char *const *binaries;  /* file names: every frame in them is glue */
    /* File names: in them, what has a function's name is a function that scripts call, not glue. */
    const char *const *libraries;
    /* The reason of the gap that stands inside of an entry where no frame source reads that copy of
       the interpreter; "%s" in it is the binary's file name.  NULL: there is no gap. */
    const char *unread;
} stacksplice_glue;

/*
 * Have reports hide what GLUE names, from now on.
 * Returns S_OK; S_FALSE when the same GLUE was added before.  Errors: E_POINTER if glue or its
 * language is NULL; E_INVALIDARG if its size is unknown; E_OUTOFMEMORY when 32 were added.
 * [own: GLUE stays the caller's, for the life of the process | thread: any | alloc: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_add_glue(const stacksplice_glue *glue);

/* ---- Languages and owners --------------------------------------------------------------------*/

typedef struct stacksplice_owner stacksplice_owner;
typedef struct stacksplice_exception stacksplice_exception;

/* Flags of a language: any thread may drop its values, at any time. */
#define STACKSPLICE_LANGUAGE_ANY_THREAD 1u

/* A language.  It and what it points to live as long as the process. */
typedef struct stacksplice_language {
    size_t size;      /* sizeof(stacksplice_language) */
    const char *name; /* as in frames: "tiny" */
    uint32_t flags;   /* STACKSPLICE_LANGUAGE_... */
    /*
     * Give up the reference on VALUE that stacksplice_exception_keep was given.  Runs on the
     * owner's thread, and may run any code of the language.  DATA is the owner's, CONTEXT what the
     * binding passed to the call that drops.
     */
    void (*drop)(void *context, void *data, void *value);
    /*
     * Optional: ask OWNER's interpreter to call stacksplice_owner_drain soon.  Runs on any thread,
     * under a lock of the core: it may not block, allocate in the interpreter, or call the core but
     * for stacksplice_owner_ref.  Asked once until the next drain.  Nonzero: it was done.
     */
    int (*wake)(stacksplice_owner *owner);
} stacksplice_language;

/* The interpreter as the core sees it.  It outlives the interpreter while an exception needs it. */
struct stacksplice_owner {
    const void *waiting; /* private: see stacksplice_owner_waits */
};

/* An owner with one reference, the interpreter's; NULL without memory, or when LANGUAGE's size,
   name or drop is missing.  DATA is the binding's own record. [own: LANGUAGE and DATA stay the
   binding's | thread: any | alloc: yes | signal: no] */
STACKSPLICE_API stacksplice_owner *stacksplice_owner_new(const stacksplice_language *language,
                                                         void *data);
STACKSPLICE_API void stacksplice_owner_ref(stacksplice_owner *owner);
STACKSPLICE_API void stacksplice_owner_unref(stacksplice_owner *owner);

/* The record of the binding; NULL once the owner was closed. [thread: any] */
STACKSPLICE_API void *stacksplice_owner_data(const stacksplice_owner *owner);

/* The language it was made with. [thread: any] */
STACKSPLICE_API const stacksplice_language *stacksplice_owner_language(
    const stacksplice_owner *owner);

/* Whether values wait to be dropped.  One load. [thread: any | signal: yes] */
static inline int stacksplice_owner_waits(const stacksplice_owner *owner)
{
    return __atomic_load_n(&owner->waiting, __ATOMIC_RELAXED) != 0;
}

/* Drop the values of exceptions that nobody outside holds any more.  The thread's error slot stays
   as it was. [thread: the owner's] */
STACKSPLICE_API void stacksplice_owner_drain(stacksplice_owner *owner, void *context);

/* Drop every value that an exception of OWNER keeps, whoever holds it: the errors live on by value.
   For the end of a program, when values may keep modules alive. [thread: the owner's] */
STACKSPLICE_API void stacksplice_owner_drop_all(stacksplice_owner *owner, void *context);

/* The interpreter ends: from now on no value is kept, dropped or asked for.  Values still kept are
   the binding's to free.  Gives up the interpreter's reference. [thread: the owner's] */
STACKSPLICE_API void stacksplice_owner_close(stacksplice_owner *owner);

/*
 * A section: code that calls into COM on OWNER's thread and runs no code of the language.  What is
 * released inside needs no wake: leaving the outermost section drains.  Sections nest; they may be
 * those of different owners.
 */
typedef struct stacksplice_section {
    stacksplice_owner *outer;
} stacksplice_section;
STACKSPLICE_API stacksplice_section stacksplice_section_enter(stacksplice_owner *owner);
STACKSPLICE_API void stacksplice_section_leave(stacksplice_section section, void *context);
/* The owner whose section this thread is in, borrowed, or NULL. */
STACKSPLICE_API stacksplice_owner *stacksplice_section_owner(void);

#ifndef STACKSPLICE_NO_WINRT

/* ---- The language exception ------------------------------------------------------------------*/

/*
 * What a language exception tells, by value.  All is copied; the errors of MEMBERS are held as
 * IScriptExceptionDetails says.  What is 0 or NULL is absent.
 */
typedef struct stacksplice_exception_parts {
    size_t size;                 /* sizeof(stacksplice_exception_parts) */
    stacksplice_hresult hresult; /* its error is originated with; a failure */
    const char *const *types; /* as IScriptExceptionType: the type, and what it is derived from */
    uint32_t type_count;      /* 0: it has no type */
    const char *message;      /* UTF-8; surrogates in three bytes stay */
    size_t message_length;
    const uintptr_t *frames; /* innermost first */
    uint32_t frame_count;
    int interrupt; /* nonzero: answers IScriptInterrupt */
    int group;     /* nonzero: it is a group, also without members */
    IScriptErrorInfo *const *members;
    uint32_t member_count, members_left_out;
    const stacksplice_told_text *notes;
    uint32_t note_count;
} stacksplice_exception_parts;

/*
 * A language exception with one inside reference, which the caller has; NULL without memory.  Its
 * COM interfaces are those that it has something to tell by: ILanguageExceptionStackBackTrace,
 * ILanguageExceptionTransform, IAgileObject and those of source.h.
 * [own: PARTS copied | thread: the owner's | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_exception *stacksplice_exception_new(
    stacksplice_owner *owner, const stacksplice_exception_parts *parts);

/*
 * CAUSE, which the caller holds from outside, is what X was made from.  LEFT_OUT: as
 * IScriptExceptionDetails has it; CAUSE may be NULL.  Only once, before X's error is made.
 * [own: CAUSE referenced | thread: the owner's | alloc: no | signal: no]
 */
STACKSPLICE_API void stacksplice_exception_set_cause(stacksplice_exception *x,
                                                     IScriptErrorInfo *cause,
                                                     stacksplice_relation relation,
                                                     uint32_t left_out);

/* Inside references keep the memory. [thread: any] */
STACKSPLICE_API void stacksplice_exception_ref(stacksplice_exception *x);
STACKSPLICE_API void stacksplice_exception_unref(stacksplice_exception *x);

/* X as COM sees it, borrowed.  AddRef on it takes an outside reference: allowed while the caller
   has an inside reference and X keeps its value, or has none. [thread: any] */
STACKSPLICE_API IUnknown *stacksplice_exception_unknown(stacksplice_exception *x);

/*
 * The language exception of OWNER behind any of its interfaces, borrowed; NULL if OBJECT is NULL or
 * something else.  OWNER NULL: that of any owner of this library. [thread: any]
 */
STACKSPLICE_API stacksplice_exception *stacksplice_exception_from(IUnknown *object,
                                                                  const stacksplice_owner *owner);

/*
 * X keeps VALUE, the script's own exception object, until its outside count has fallen to 0 and the
 * owner drains.  Comes before the outside reference that it is for.  Nonzero: the reference on
 * VALUE is X's now.  0: X keeps one already, or the owner was closed; the reference stays the
 * caller's.  X's related exceptions of the same owner are to be kept by their values before, as far
 * as those still are what X says: see stacksplice_exception_related.
 * [thread: the owner's]
 */
STACKSPLICE_API int stacksplice_exception_keep(stacksplice_exception *x, void *value);

/* The value that X keeps, borrowed, or NULL. [thread: the owner's] */
STACKSPLICE_API void *stacksplice_exception_value(const stacksplice_exception *x);

/* Nonzero when X keeps its value and somebody outside holds X: then its related exceptions are kept
   too. [thread: the owner's] */
STACKSPLICE_API int stacksplice_exception_is_held(const stacksplice_exception *x);

/* The error of X's cause (INDEX 0; NULL: none) or of its member INDEX - 1, borrowed; NULL behind
   the last. [thread: any] */
STACKSPLICE_API IScriptErrorInfo *stacksplice_exception_related(const stacksplice_exception *x,
                                                                uint32_t index);

/* Borrowed from X. [thread: any] */
STACKSPLICE_API const stacksplice_owner *stacksplice_exception_owner(
    const stacksplice_exception *x);

/* The HRESULT it was made with. [thread: any] */
STACKSPLICE_API stacksplice_hresult stacksplice_exception_hresult(const stacksplice_exception *x);

/* ---- Ties ------------------------------------------------------------------------------------*/

/*
 * What ties a value of a script to its error.  The binding keeps it where the value is found again
 * (an attribute, a weak table, a word of the value); all zero: nothing is tied.  Read freely,
 * change it only by the functions below. [thread: the owner's]
 */
typedef struct stacksplice_ties {
    stacksplice_exception *exception; /* inside, or NULL */
    IScriptErrorInfo *error;          /* inside; outside if FOREIGN; NULL: not originated yet */
    int foreign;                      /* ERROR was not born from this value */
} stacksplice_ties;

/* Tie X, whose inside reference of the caller becomes that of TIES. */
STACKSPLICE_API void stacksplice_ties_set_exception(stacksplice_ties *ties,
                                                    stacksplice_exception *x);
/* Tie ERROR, which the caller holds from outside. */
STACKSPLICE_API void stacksplice_ties_set_error(stacksplice_ties *ties, IScriptErrorInfo *error,
                                                int foreign);
/* The value is gone, or is to be a new error.  Runs drop only with
   STACKSPLICE_LANGUAGE_ANY_THREAD. */
STACKSPLICE_API void stacksplice_ties_drop(stacksplice_ties *ties);

/* ---- Borders ---------------------------------------------------------------------------------*/

/*
 * A value leaves for C: the thread's slot gets the error of TIES, the one that it has or, of
 * TIES->exception, a new one with the HRESULT and stack of that.  The exception keeps its value
 * already.  *HR is what the function that returns to C returns.
 * Returns S_OK; S_FALSE when origination is switched off and there is no error; E_OUTOFMEMORY, and
 * then the slot is empty.
 * [thread: the owner's | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_leave(stacksplice_ties *ties,
                                                      stacksplice_hresult *hr);

/* The same for an error that is asked for, as of a cause: the slot stays as it was.  *ERROR
   receives an outside reference, NULL with S_FALSE. */
STACKSPLICE_API stacksplice_hresult stacksplice_make_error(stacksplice_ties *ties,
                                                           IScriptErrorInfo **error);

/*
 * C returned HR to OWNER's language: take the slot's error, one for HR, with a propagation node of
 * the stack outside of ABOVE (as in stacksplice_capture_above).  Where the slot has another or
 * none, the error is new. Returns S_OK with a reference in *ERROR, and the slot empty; S_FALSE and
 * NULL when origination is switched off.  Errors: E_POINTER; E_INVALIDARG if hr is a success code;
 * E_OUTOFMEMORY. [own: caller releases *error | thread: the owner's | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_arrive(stacksplice_owner *owner, const void *above,
                                                       stacksplice_hresult hr,
                                                       IRestrictedErrorInfo **error);

/*
 * The language exception of OWNER that ERROR, or else the newest of its nodes that has one, carries
 * and that still keeps its value; borrowed from ERROR.  NULL: to OWNER the error is foreign.
 * [thread: the owner's]
 */
STACKSPLICE_API stacksplice_exception *stacksplice_own_exception(const stacksplice_owner *owner,
                                                                 IUnknown *error);

#endif /* STACKSPLICE_NO_WINRT */

#ifdef __cplusplus
}
#endif
#endif
