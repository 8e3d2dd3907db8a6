/*
 * For authors of language bindings: how the exceptions of an interpreter become language
 * exceptions, which keep their identity across borders.  For frames see source.h.
 *
 * A binding gives the core a stacksplice_language, once, and a stacksplice_owner for each
 * interpreter.  The core then implements the language exception as a COM object and counts its
 * references.  It records the releases of other threads, and originates, restores and matches
 * errors.  The binding keeps what only it can know: where a value of its language stores its
 * stacksplice_ties, and the facts about a value.  The page docs/inside/bindings.md builds a binding step
 * by step.
 *
 * An interpreter runs on one thread at a time.  "The owner's thread" is the one that runs it now.
 * The general rules are those of stacksplice.h.
 */
#ifndef STACKSPLICE_SCRIPT_H
#define STACKSPLICE_SCRIPT_H

#include "read.h"
#include "source.h"
#ifndef STACKSPLICE_NO_WINRT
#include "winrt/unknwn.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Gaps and tokens -------------------------------------------------------------------------*/

/* Return nonzero when ADDRESS is a token: see source.h. */
static inline int stacksplice_is_token(uintptr_t address)
{
    return (uint64_t)address >> 48 == STACKSPLICE_TOKEN_BASE >> 48;
}

/* Flags of stacksplice_gap: the frames outward of it wait for the frames inward of it. */
#define STACKSPLICE_GAP_ASYNCHRONOUS 1u

/*
 * Return the token of a gap of LANGUAGE with REASON.  Without memory the gap says that instead.
 * [own: strings copied | thread: any | alloc: no, maps | signal: inside collect]
 */
STACKSPLICE_API uintptr_t stacksplice_gap(const char *language, const char *reason, uint32_t flags);

/* ---- Glue ------------------------------------------------------------------------------------*/

/*
 * The native functions and binaries of an interpreter, by name: reports hide them.  Each member is
 * a list of patterns that ends with NULL, or NULL itself.
 *
 * A pattern is a name, or the beginning of one with a sign at its end: '*' stands for anything, '#'
 * for a version number or nothing, '^' for one capital letter.  A name alone also matches the parts
 * into which a compiler splits a function: "tiny_call.cold".
 */
typedef struct stacksplice_shell stacksplice_shell;
typedef struct stacksplice_glue {
    size_t size; /* sizeof(stacksplice_glue) */
    const char *language;
    const char *const *functions; /* glue in every binary */
    const char *const *entries;   /* the same, and they run scripts, whoever calls them */
    /* File names, or parts of paths that begin with '/': every frame in them is glue. */
    const char *const *binaries;
    /* File names: a function with a name in them is one that scripts call, not glue. */
    const char *const *libraries;
    /*
     * The reason of the gap inside an entry where no frame source reads that copy of the
     * interpreter.  "%s" in it is the binary's file name.  NULL: there is no gap.  In a glue without
     * entries it is the reason for the binaries of its libraries only.
     */
    const char *unread;
    const char *const
        *loaders;              /* files of scripts: patterns; their frames are hidden and counted */
    const char *const *values; /* types that any value has: reports do not show them */
    const char *const *quiet;  /* gaps of this language that its own tracebacks never mention */
    const stacksplice_shell *shells; /* up to one without a name */
    /* Nonzero: in the order newest last its frames look as in its own tracebacks, without its name.
     */
    int own_look;
    const char *const *sources; /* parts of paths of source files: every function in them is glue */
    const char *color; /* escape sequence in front of its name in coloured reports, or NULL */
    /* Said once where a chunk whose name begins with '[' has no line: how to give it a file; or NULL. */
    const char *unnamed;
    const char *const
        *packages; /* parts of paths, as in a shell, behind which libraries have their names */
} stacksplice_glue;

/*
 * A program that calls users' code: brief reports hide it, and say with how many frames.  Where nothing
 * of a user is further in, it is shown.
 */
struct stacksplice_shell {
    const char
        *name; /* as people call it; "": it counts among those inside of it, and is shown else */
    const char *file; /* part of a path, in which '*' stands for the rest of a name */
    /* The last part of its name: all frames outside of it are hidden, too, up to where another task or
       thread waits.  NULL: the frames in such files are, and native ones in such binaries. */
    const char *function;
};

/*
 * Make reports hide the frames that GLUE names, from now on.
 *
 * Returns S_OK; S_FALSE when the same GLUE was added before.
 * Errors: E_POINTER if glue or its language is NULL; E_INVALIDARG if its size is unknown;
 * E_OUTOFMEMORY when 32 were added.
 * [own: GLUE stays the caller's, for the life of the process | thread: any | alloc: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_add_glue(const stacksplice_glue *glue);

/* ---- Local variables -------------------------------------------------------------------------*/

enum {
    STACKSPLICE_MAX_LOCALS = 2048 /* of one error in a report; the last says that there are more */
};

/*
 * Takes a variable of the frame at ELEMENT of a stack: its NAME and a text of its value.  The texts
 * are UTF-8 and copied.  Nonzero: no more are taken.
 */
typedef int (*stacksplice_local_callback)(uint32_t element, const char *name, const char *value,
                                          size_t length, void *data);

/*
 * Calls PUT for the variables that are known of the COUNT frames of ERROR, those of one frame in a
 * row, each name once.  Runs whenever a report of ERROR is made, on any thread: it calls nothing
 * where it may not read them.  It runs no code of a program, and puts no text that is large.
 */
typedef void (*stacksplice_locals_callback)(IUnknown *error, const uintptr_t *frames,
                                            uint32_t count, stacksplice_local_callback put,
                                            void *put_data);

/*
 * Have reports ask READ for local variables, from now on; those of processes that fail fast do not.
 * A language whose frames end before a report is made gives them to the exception instead:
 * stacksplice_exception_parts.
 *
 * Returns S_OK; S_FALSE when the same READ was added before.
 * Errors: E_POINTER if read is NULL; E_OUTOFMEMORY when 8 were added.
 * [thread: any | alloc: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_add_locals(stacksplice_locals_callback read);

/*
 * Give ERROR a longer stack, which reports show from then on: a language that keeps a record while
 * it unwinds may know of callers that the captured stack lacks.  FRAMES has everything that
 * stacksplice_error_stack has of ERROR, in its order, but for frames that await others.  The fingerprint stays.
 *
 * Returns S_OK; S_FALSE when COUNT is less than the stack has, when the stack grew 100 times, the last
 * time with a gap that says so, and for the error for exhausted memory.  Errors: E_POINTER if error or frames is NULL; E_INVALIDARG if
 * error is not an error object of this library; E_OUTOFMEMORY.
 * [own: frames copied | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_error_lengthen(IUnknown *error,
                                                               const uintptr_t *frames,
                                                               uint32_t count);
/* stacksplice_error_stack for the stack with which ERROR was made. */
STACKSPLICE_API stacksplice_hresult stacksplice_error_captured(IUnknown *error, uint32_t max_frames,
                                                               uintptr_t *frames,
                                                               uint32_t *captured);

/* ---- Languages and owners --------------------------------------------------------------------*/

typedef struct stacksplice_owner stacksplice_owner;
typedef struct stacksplice_exception stacksplice_exception;

/* Flags of a language: any thread may drop its values, at any time. */
#define STACKSPLICE_LANGUAGE_ANY_THREAD 1u
/* Several threads at once run an owner's scripts, without a lock of the interpreter. */
#define STACKSPLICE_LANGUAGE_MANY_THREADS 2u

/* A language.  It and everything it points to live as long as the process. */
typedef struct stacksplice_language {
    size_t size;      /* sizeof(stacksplice_language) */
    const char *name; /* as in frames: "tiny" */
    uint32_t flags;   /* STACKSPLICE_LANGUAGE_... */
    /*
     * Release the reference on VALUE that stacksplice_exception_keep received.  Runs on the owner's
     * thread, and may run any code of the language.  DATA is the owner's.  CONTEXT is what the
     * binding passed to the call that drops.
     */
    void (*drop)(void *context, void *data, void *value);
    /*
     * Optional: make OWNER's interpreter call stacksplice_owner_drain soon.  Returns nonzero on
     * success.  Runs on any thread, under a lock of the core.  It may not block, allocate in the
     * interpreter, or call the core except stacksplice_owner_ref.  The core does not call it again
     * until the next drain.
     */
    int (*wake)(stacksplice_owner *owner);
} stacksplice_language;

/* The interpreter as the core sees it.  It outlives the interpreter while an exception needs it. */
struct stacksplice_owner {
    const void *waiting; /* private: see stacksplice_owner_waits */
};

/*
 * Create an owner with one reference, the interpreter's.  Returns NULL without memory, or when
 * LANGUAGE's size, name or drop is missing.  DATA is the binding's own record.
 * [own: LANGUAGE and DATA stay the binding's | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_owner *stacksplice_owner_new(const stacksplice_language *language,
                                                         void *data);
STACKSPLICE_API void stacksplice_owner_ref(stacksplice_owner *owner);
STACKSPLICE_API void stacksplice_owner_unref(stacksplice_owner *owner);

/*
 * Tell debuggers and readers of core files (debugger.h) where OWNER's interpreter is: STATE, its
 * state as its own headers have it, and VERSION, as people write it.  They see it until the owner
 * is closed, if there is memory for it.  Call it once, right after stacksplice_owner_new.
 * [own: VERSION stays the binding's, for the life of the process | thread: any | alloc: no, maps |
 * signal: no]
 */
STACKSPLICE_API void stacksplice_owner_show(stacksplice_owner *owner, const void *state,
                                            const char *version);

/* The record of the binding; NULL after the owner was closed. [thread: any] */
STACKSPLICE_API void *stacksplice_owner_data(const stacksplice_owner *owner);

/* Whether values wait to be dropped.  One load. [thread: any | signal: yes] */
static inline int stacksplice_owner_waits(const stacksplice_owner *owner)
{
    return __atomic_load_n(&owner->waiting, __ATOMIC_RELAXED) != 0;
}

/*
 * Drop the values of exceptions that have no outside reference left.  The thread's error slot stays
 * as it was.
 * [thread: the owner's]
 */
STACKSPLICE_API void stacksplice_owner_drain(stacksplice_owner *owner, void *context);

/*
 * Drop every value that an exception of OWNER keeps, whoever holds it; the errors live on by value.
 * For the end of a program, when values may keep modules alive.
 * [thread: the owner's]
 */
STACKSPLICE_API void stacksplice_owner_drop_all(stacksplice_owner *owner, void *context);

/*
 * The interpreter ends: from now on the core keeps, drops and requests no value.  The binding frees
 * the values that are still kept.  Releases the interpreter's reference.
 * [thread: the owner's]
 */
STACKSPLICE_API void stacksplice_owner_close(stacksplice_owner *owner);

/*
 * A section: code that calls into COM on OWNER's thread and runs no code of the language.  Releases
 * inside it need no wake, because leaving the outermost section drains.  Sections nest, even those
 * of different owners.
 */
typedef struct stacksplice_section {
    stacksplice_owner *outer;
} stacksplice_section;
STACKSPLICE_API stacksplice_section stacksplice_section_enter(stacksplice_owner *owner);
STACKSPLICE_API void stacksplice_section_leave(stacksplice_section section, void *context);

/* ---- HRESULTs and errno ----------------------------------------------------------------------*/

/*
 * The HRESULT of an errno: HRESULT_FROM_WIN32 of the Windows code with the same meaning; without
 * one, 0xA0530000 + NUMBER (customer bit, facility 0x53).  E_FAIL when NUMBER is not in 1 to 65535.
 * [thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_hresult_from_errno(int number);

/*
 * The reverse; 0 when HR has no errno.  Several codes can have the same errno.
 * [thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API int stacksplice_errno_from_hresult(stacksplice_hresult hr);

#ifndef STACKSPLICE_NO_WINRT

/* ---- Errors and their interfaces -------------------------------------------------------------*/

/*
 * Convert UNITS 16-bit units at TEXT to UTF-8 in OUT, which has CAPACITY bytes, one for the NUL;
 * unpaired surrogates become U+FFFD.  Returns the bytes needed, without the NUL.  OUT may be NULL
 * when CAPACITY is 0.  A text that does not fit is cut between characters.
 * [own: caller's buffer | thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API size_t stacksplice_utf8(const WCHAR *text, uint32_t units, char *out,
                                        size_t capacity);

/*
 * The language exceptions of script.h implement this interface, beside
 * ILanguageExceptionStackBackTrace.
 *
 * Two counts.  The COM count (AddRef, Release) is the *outside* count: references that C code, the
 * thread's slot or another language hold.  The language exception holds the script's own exception
 * object strongly exactly while this count is above 0.  The *inside* count keeps the memory of the
 * language exception and nothing else.  An error object holds one inside reference on its language
 * exception for life, and one outside reference while its own outside count is above 0.  An
 * exception holds its members' errors, and the error of its cause, in the same way.
 *
 * A language exception whose script object is gone still answers every method, and its answers
 * never change.  Texts live as long as the object.  Of errors, readers ask for these things by
 * functions instead (stacksplice_error_cause, _group, _member, _notes).
 */
typedef struct IScriptException IScriptException;
typedef struct IScriptExceptionVtbl {
    HRESULT(STDMETHODCALLTYPE *QueryInterface)(IScriptException *self, REFIID iid, void **out);
    ULONG(STDMETHODCALLTYPE *AddRef)(IScriptException *self);
    ULONG(STDMETHODCALLTYPE *Release)(IScriptException *self);
    void(STDMETHODCALLTYPE *AddInside)(IScriptException *self);
    void(STDMETHODCALLTYPE *ReleaseInside)(IScriptException *self);
    /* The language, as in frames: a static string. */
    const char *(STDMETHODCALLTYPE *GetLanguage)(IScriptException *self);
    /*
     * Name INDEX of the exception's type (0) and of its base types, as its language prints them,
     * such as "ValueError", and in the order in which it searches them (its method resolution
     * order).  NULL after the last: it may have none.
     */
    const char *(STDMETHODCALLTYPE *GetTypeName)(IScriptException *self, uint32_t index);
    /* The whole message, with its length in bytes; it may hold NULs. */
    const char *(STDMETHODCALLTYPE *GetMessage)(IScriptException *self, size_t *length);
    /*
     * All frames, innermost first, and their number; NULL if it keeps none.  They never change, and
     * live as long as an inside reference does: its error reads them where they are.
     */
    const uintptr_t *(STDMETHODCALLTYPE *GetFrames)(IScriptException *self, uint32_t *count);
    /*
     * How the error of ILanguageExceptionTransform is related to this exception.  *LEFT_OUT: 0, or
     * at least 1 when causes beyond that error (beyond this exception, if it has none) were left
     * out.
     */
    stacksplice_relation(STDMETHODCALLTYPE *GetRelation)(IScriptException *self,
                                                         uint32_t *left_out);
    /* Nonzero if this is a group: *MEMBERS that GetMember gives, and *LEFT_OUT that it does not. */
    int(STDMETHODCALLTYPE *GetGroup)(IScriptException *self, uint32_t *members, uint32_t *left_out);
    /* S_OK with a reference; S_FALSE and NULL after the last. */
    HRESULT(STDMETHODCALLTYPE *GetMember)
    (IScriptException *self, uint32_t index, IRestrictedErrorInfo **member);
    /* Note INDEX, UTF-8, with its length in bytes; NULL after the last. */
    const char *(STDMETHODCALLTYPE *GetNote)(IScriptException *self, uint32_t index,
                                             size_t *length);
    /*
     * Nonzero: a plain protected call of another language may not swallow it, such as a key that
     * interrupts the program, or the end of a program or of a task.
     */
    int(STDMETHODCALLTYPE *IsInterrupt)(IScriptException *self);
} IScriptExceptionVtbl;
struct IScriptException {
    const IScriptExceptionVtbl *lpVtbl;
};

/*
 * Every error object of this library implements this interface; its propagation nodes do not.  The
 * inside reference of stacksplice_ties makes no cycle.  AddRef on an error object whose outside
 * count is 0 is allowed only while the caller holds an inside reference and the exception keeps its
 * value.
 */
typedef struct IScriptErrorInfo IScriptErrorInfo;
typedef struct IScriptErrorInfoVtbl {
    HRESULT(STDMETHODCALLTYPE *QueryInterface)(IScriptErrorInfo *self, REFIID iid, void **out);
    ULONG(STDMETHODCALLTYPE *AddRef)(IScriptErrorInfo *self);
    ULONG(STDMETHODCALLTYPE *Release)(IScriptErrorInfo *self);
    void(STDMETHODCALLTYPE *AddInside)(IScriptErrorInfo *self);
    void(STDMETHODCALLTYPE *ReleaseInside)(IScriptErrorInfo *self);
} IScriptErrorInfoVtbl;
struct IScriptErrorInfo {
    const IScriptErrorInfoVtbl *lpVtbl;
};

/* {0be5d1c7-43f9-4a16-8e2d-7c905f3ab861} */
STACKSPLICE_API extern const IID stacksplice_IID_IScriptException;
/* {4d37ed9c-890a-4bc8-9b55-514194fb6309} */
STACKSPLICE_API extern const IID stacksplice_IID_IScriptErrorInfo;

/*
 * stacksplice_propagate(HR, NULL) for a binding.  LANGUAGE, UTF-8 as in frames, receives the error;
 * NULL is "native".  FRAME_ADDRESS, as in stacksplice_capture_above, keeps the function's own
 * frames out of the node.
 * [own: language copied | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_propagate_above(const void *frame_address,
                                                                stacksplice_hresult hr,
                                                                const char *language);

/*
 * Get the operating system's id of the thread that captured ERROR (an error object or a propagation
 * node): the value of gettid() there.
 * Errors: E_POINTER; E_INVALIDARG if error is not an error object of this library.
 * [own: borrows error | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_error_thread(IUnknown *error, uint64_t *thread_id);

/*
 * Get the HRESULT of ERROR (of a node: that of its error), without the texts that GetErrorDetails
 * makes.
 * Errors: E_POINTER; E_INVALIDARG if error is not an error object of this library.
 * [own: borrows error | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_error_hresult(IUnknown *error,
                                                              stacksplice_hresult *hr);

/*
 * The length of the longest path from ERROR through causes and members: 0 when it has neither.  A
 * binding leaves out causes and members that would make an exception deeper than
 * STACKSPLICE_MAX_DEPTH, because a release recurses along that path.  The core leaves out such
 * causes too.
 * Errors: E_POINTER; E_INVALIDARG if error is not an error object of this library.
 * [own: borrows error | thread: any | alloc: no | signal: no]
 */
#define STACKSPLICE_MAX_DEPTH 150
STACKSPLICE_API stacksplice_hresult stacksplice_error_depth(IUnknown *error, uint32_t *depth);

/* ---- The language exception ------------------------------------------------------------------*/

/* A variable of the frame at ELEMENT, as it was when the exception was made. */
typedef struct stacksplice_kept_local {
    uint32_t element;
    stacksplice_document_local local;
} stacksplice_kept_local;

/*
 * The contents of a language exception, by value.  The library copies everything, and holds the
 * errors of MEMBERS as IScriptException says.  A member that is 0 or NULL is absent.
 */
typedef struct stacksplice_exception_parts {
    size_t size;                 /* sizeof(stacksplice_exception_parts) */
    stacksplice_hresult hresult; /* of the error that it originates; a failure */
    const char *const *types;    /* as IScriptException: the type, then its base types */
    uint32_t type_count;         /* 0: it has no type */
    const char *message;         /* UTF-8; surrogates in three bytes stay */
    size_t message_length;
    const uintptr_t *frames; /* innermost first */
    uint32_t frame_count;
    int interrupt; /* nonzero: as IScriptException says */
    int group;     /* nonzero: it is a group, also without members */
    IScriptErrorInfo *const *members;
    uint32_t member_count, members_left_out;
    const stacksplice_document_text *notes;
    uint32_t note_count;
    const stacksplice_kept_local *locals; /* of FRAMES: those of one frame in a row */
    uint32_t local_count;
} stacksplice_exception_parts;

/*
 * Create a language exception with one inside reference, which the caller owns; NULL without
 * memory.  It has only the COM interfaces that its contents need, of
 * ILanguageExceptionStackBackTrace, ILanguageExceptionTransform, IAgileObject and those above.
 * [own: PARTS copied | thread: the owner's | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_exception *stacksplice_exception_new(
    stacksplice_owner *owner, const stacksplice_exception_parts *parts);

/*
 * Set CAUSE, which the caller holds from outside, as the error that X was made from.  CAUSE may be
 * NULL.  LEFT_OUT: as in IScriptException.  Call it only once, before X's error is made.
 * [own: CAUSE referenced | thread: the owner's | alloc: no | signal: no]
 */
STACKSPLICE_API void stacksplice_exception_set_cause(stacksplice_exception *x,
                                                     IScriptErrorInfo *cause,
                                                     stacksplice_relation relation,
                                                     uint32_t left_out);

/* Inside references keep the memory. [thread: any] */
STACKSPLICE_API void stacksplice_exception_ref(stacksplice_exception *x);
STACKSPLICE_API void stacksplice_exception_unref(stacksplice_exception *x);

/*
 * X as COM sees it, borrowed.  AddRef on it takes an outside reference.  That is allowed while the
 * caller has an inside reference and X keeps its value, or has none.
 * [thread: any]
 */
STACKSPLICE_API IUnknown *stacksplice_exception_unknown(stacksplice_exception *x);

/*
 * Return the language exception of OWNER that OBJECT, any of its interfaces, belongs to, borrowed.
 * NULL if OBJECT is NULL or something else.  OWNER NULL: that of any owner of this library.
 * [thread: any]
 */
STACKSPLICE_API stacksplice_exception *stacksplice_exception_from(IUnknown *object,
                                                                  const stacksplice_owner *owner);

/*
 * Make X keep VALUE, the script's own exception object, until X's outside count has fallen to 0 and
 * the owner drains.  Call it before taking the outside reference that needs the value.
 *
 * Returns nonzero: the reference on VALUE is now X's.  Returns 0 if X keeps a value already, or the
 * owner was closed: the reference stays the caller's.
 *
 * Before the call, make X's related exceptions of the same owner keep their values, as far as those
 * values still are what X says: see stacksplice_exception_related.
 * [thread: the owner's]
 */
STACKSPLICE_API int stacksplice_exception_keep(stacksplice_exception *x, void *value);

/* The value that X keeps, borrowed, or NULL. [thread: the owner's] */
STACKSPLICE_API void *stacksplice_exception_value(const stacksplice_exception *x);

/*
 * Return nonzero when X keeps its value and has an outside reference.  Its related exceptions are
 * then kept too.
 * [thread: the owner's]
 */
STACKSPLICE_API int stacksplice_exception_is_held(const stacksplice_exception *x);

/*
 * The error of X's cause (INDEX 0; NULL: none) or of its member INDEX - 1, borrowed; NULL after the
 * last.
 * [thread: any]
 */
STACKSPLICE_API IScriptErrorInfo *stacksplice_exception_related(const stacksplice_exception *x,
                                                                uint32_t index);

/* The variables it was made with, which live as long as X; NULL: none. [thread: any] */
STACKSPLICE_API const stacksplice_kept_local *stacksplice_exception_locals(
    const stacksplice_exception *x, uint32_t *count);

/* The HRESULT it was made with. [thread: any] */
STACKSPLICE_API stacksplice_hresult stacksplice_exception_hresult(const stacksplice_exception *x);

/* ---- Ties ------------------------------------------------------------------------------------*/

/*
 * The ties between a value of a script and its error.  The binding stores them where it finds the
 * value again (an attribute, a weak table, a word of the value).  All zero: no ties.  Read them
 * freely, but change them only by the functions below.
 * [thread: the owner's]
 */
typedef struct stacksplice_ties {
    stacksplice_exception *exception; /* inside, or NULL */
    IScriptErrorInfo *error;          /* inside; outside if FOREIGN; NULL: not originated yet */
    int foreign;                      /* ERROR did not originate from this value */
} stacksplice_ties;

/* Tie X.  The caller's inside reference moves to TIES. */
STACKSPLICE_API void stacksplice_ties_set_exception(stacksplice_ties *ties,
                                                    stacksplice_exception *x);
/* Tie ERROR, which the caller holds from outside. */
STACKSPLICE_API void stacksplice_ties_set_error(stacksplice_ties *ties, IScriptErrorInfo *error,
                                                int foreign);
/*
 * Untie a value that is gone, or that is to be a new error.  Runs drop only with
 * STACKSPLICE_LANGUAGE_ANY_THREAD.
 */
STACKSPLICE_API void stacksplice_ties_drop(stacksplice_ties *ties);

/* ---- Borders ---------------------------------------------------------------------------------*/

/*
 * Leave for C with a value: put the error of TIES into the thread's slot.  If TIES has none yet,
 * the function makes one with the HRESULT and stack of TIES->exception.  The exception must already
 * keep its value.  *HR receives the HRESULT for the function that returns to C.
 *
 * Returns S_OK; S_FALSE when origination is switched off and there is no error; E_OUTOFMEMORY, and
 * then the slot is empty.
 * [thread: the owner's | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_leave(stacksplice_ties *ties,
                                                      stacksplice_hresult *hr);

/*
 * Get the error of TIES, such as for a cause, and leave the slot as it was.  *ERROR receives an
 * outside reference; NULL with S_FALSE.
 */
STACKSPLICE_API stacksplice_hresult stacksplice_make_error(stacksplice_ties *ties,
                                                           IScriptErrorInfo **error);

/*
 * C returned HR to OWNER's language: take the slot's error if it is one for HR, else make a new
 * one.  The error gets a propagation node with the stack outward of ABOVE (as in
 * stacksplice_capture_above).
 *
 * Returns S_OK with a reference in *ERROR, and the slot empty; S_FALSE and NULL when origination is
 * switched off.
 * Errors: E_POINTER; E_INVALIDARG if hr is a success code; E_OUTOFMEMORY.
 * [own: caller releases *error | thread: the owner's | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_arrive(stacksplice_owner *owner, const void *above,
                                                       stacksplice_hresult hr,
                                                       IRestrictedErrorInfo **error);

/*
 * Return the language exception of OWNER that ERROR carries, or else that of the newest of its
 * nodes with one, borrowed from ERROR.  Exceptions that no longer keep their value do not count.
 * NULL: to OWNER the error is foreign.
 * [thread: the owner's]
 */
STACKSPLICE_API stacksplice_exception *stacksplice_own_exception(const stacksplice_owner *owner,
                                                                 IUnknown *error);

#endif /* STACKSPLICE_NO_WINRT */

#ifdef __cplusplus
}
#endif
#endif
