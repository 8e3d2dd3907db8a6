/*
 * lupa, a Lua inside a Python extension that knows nothing of us: its runtimes are attached, so
 * that their errors get the combined stack where they are born.
 */
#ifndef SSPY_LUPA_H
#define SSPY_LUPA_H

#include "cross/cross.h"

#include "lupa/loadable/loadable.h"
#include "shared/lua_chunks.h"

#include <stacksplice/deadline.h>

/* ---- Copies of Lua (copies.c) ------------------------------------------------------------------*/

/*
 * The instance of the Lua binding for the copy of Lua whose functions the loaded file LIBRARY calls.
 * NULL with an exception: OSError (not loaded, no Lua, a function is missing, no second mapping) or
 * ValueError (a Lua that we do not support).  GIL held.
 */
const ss_lua_loadable *sspy_lua_instance(const char *library);

/* _lupa_unread(library, reason): reports say why the Lua in the file is not read; whether there was
   room for it. */
PyObject *sspy_lupa_unread(PyObject *module, PyObject *arguments);

/* In a signal handler: what this thread runs in attached runtimes is to end by the exception of the
   deadline of that NUMBER.  RESUMED: the coroutine that this thread resumes, of the copy CALLS. */
void sspy_lua_interrupt(uint64_t number, const ss_lua_loadable *calls, void *resumed);

/* Whether errors of all instances keep local variables, those of later ones, too. */
void sspy_lua_show_locals(bool shows);

/* ---- Attached runtimes (runtimes.c) ------------------------------------------------------------*/

enum { SSPY_NAME_WORDS = 16 };

/* An attached runtime.  All of an interpreter's are in a list. */
typedef struct sspy_attached {
    struct sspy_attached *next;
    uintptr_t key;       /* (RO) the address of the runtime object; we hold no reference on it */
    const void *globals; /* (RO) the dict of lupa's module, to recognise its frames; not held */
    PyObject *lock;      /* (RO) that each call of the runtime holds, counted; NULL if not known */
    const PyTypeObject *coroutines; /* (RO) their type; kept for ever */
    const ss_lua_loadable *calls;   /* (RO) */
    ss_lua_attachment *attachment;  /* (GIL) */
    unsigned limit;                 /* (GIL) milliseconds that a call of it may take; 0: any time */
    atomic_bool closed; /* (ATOMIC) lua_close ran: another runtime may have the address */
    /* The thread that runs the runtime exchanges RECORDED; others take it meanwhile. */
    _Atomic(struct sspy_recorded *) recorded;
    _Atomic(const void *) recorded_frame; /* of its call, so that others leave it alone */
    ss_lua_texts texts;                   /* of its chunks */
    size_t text_count, text_bytes;        /* (GIL) of these */
    uint64_t unkept[SSPY_NAME_WORDS];     /* (GIL) bits of names of chunks whose text is not kept */
    atomic_bool has_functions;            /* that are whole chunks, which a script may call */
} sspy_attached;

/* Work with a deadline (late.c). */
typedef struct sspy_late {
    struct sspy_late *outer;        /* of those that were begun, and interrupt, the next one */
    struct sspy_lupa *lupa;         /* the interpreter's */
    uint64_t number;                /* never given out twice */
    stacksplice_deadline deadline;  /* 0: not begun */
    unsigned long thread;           /* that began it */
    PyObject *link;                 /* counted; NULL: it interrupts nothing */
    const char *name;               /* in the exception's text */
    const struct sspy_attached *of; /* it is a call of that runtime; or NULL */
    unsigned milliseconds;
    bool raised;       /* the exception */
    uintptr_t *frames; /* malloc: the stack from inside of Lua where it was raised last; or NULL */
    uint32_t count;
} sspy_late;

/* A coroutine that Python resumes; NULL: none, or it does not matter. */
typedef struct sspy_resumed {
    const ss_lua_loadable *calls;
    void *coroutine;
} sspy_resumed;

/* What an interpreter knows of lupa. */
typedef struct sspy_lupa {
    sspy_attached *attached;
    PyObject *created; /* callable: a new runtime -> None, or NULL */
    sspy_late *late;
    PyObject *innermost; /* a ContextVar, or NULL */
    bool keeps_bridge;   /* tracebacks keep the entries of lupa's own functions */
} sspy_lupa;

/* NULL before anything was attached or watched. */
static inline sspy_lupa *sspy_lupa_of(const sspy_state *state)
{
    return state->records[SSPY_OF_LUPA];
}

static inline bool sspy_lupa_has_runtimes(const sspy_state *state)
{
    return sspy_lupa_of(state) && sspy_lupa_of(state)->attached;
}

static inline PyObject *sspy_lupa_created(const sspy_state *state)
{
    return sspy_lupa_of(state) ? sspy_lupa_of(state)->created : NULL;
}

/* The first runtime that is attached and open; NULL at the end.  Frees the records of closed ones.
 */
sspy_attached *sspy_attached_first(sspy_state *state);
sspy_attached *sspy_attached_after(sspy_attached *attached);
/* The lua_State of COROUTINE, which only its repr() tells; NULL without an exception if not even
   that does. */
void *sspy_lupa_address_of(PyObject *coroutine);
/* Whether this thread is inside of a call of the runtime.  Leaves no exception set. */
bool sspy_attached_is_called(const sspy_attached *attached);
/* The error that the last message handler of the runtime was told of, with a reference, and the NUMBER
   of its record, if it was made in the call from Python which is HERE; else NULL.  What this thread
   remembered is forgotten. */
IUnknown *sspy_lupa_take_recorded(sspy_attached *attached, sspy_call here, uint64_t *number);
/* CALL resumes a coroutine: no message handler is told of its error.  Returns what was set before,
   to be set again afterwards. */
sspy_call sspy_lupa_resuming(sspy_call call);
/* Forget all runtimes, which stay attached: the module goes. */
void sspy_lupa_end(sspy_state *state);
/* What is told of a runtime to attach. */
typedef struct sspy_new_runtime {
    uintptr_t key;
    void *L; /* a coroutine of it, at rest or running the C function that calls us */
    const void *globals;
    PyObject *lock;                 /* or None */
    bool is_fresh;                  /* it has no chunks yet */
    const PyTypeObject *coroutines; /* the type of its coroutines */
    /* Hooks of ss_lua_hooks. */
    void (*raised)(void *data, void *block, const void *above, const uintptr_t *frames,
                   uint32_t count, bool again);
    void (*caught)(void *data, void *block, const void *above, bool again);
    IUnknown *(*find_in)(void *data, void *block, const char *text, size_t length,
                         const void *above);
} sspy_new_runtime;
/* Attach NEW: its debug.traceback, coroutine.wrap and coroutine.resume become functions that record
   errors and do what the former ones do. -1 with an exception: as sspy_lua_instance, and RuntimeError
   with what Lua says. */
int sspy_attached_add(sspy_state *state, const sspy_new_runtime *new, const char *library);
/* A chunk of CODE, a str or bytes, is about to be compiled in the runtime, by NAME or, if that is NULL,
   under lupa's own: its lines can be shown from now on.  RUNS: it runs as a whole until
   sspy_lupa_end_chunk gets what this returned; else it becomes a function, and 0 is returned.  Leaves no
   exception set. */
uint64_t sspy_lupa_begin_chunk(sspy_attached *attached, PyObject *code, PyObject *name, bool runs);
void sspy_lupa_end_chunk(uint64_t number);
/* _lupa_chunk(file, line, source): the text of the one chunk that frames call FILE and that has SOURCE as its
   line, without white space around it; None if it is not known. */
PyObject *sspy_lupa_chunk(PyObject *module, PyObject *arguments);
/* The chunk that this thread compiles, if it does: its runtime and its text, which may be unknown. */
sspy_attached *sspy_lupa_compiles(sspy_state *state, ss_lua_text *text);
/* The one with that KEY, or NULL. */
sspy_attached *sspy_attached_find(sspy_state *state, uintptr_t key);
/* _lupa_detach(key), _lupa_attached(key), _lupa_keep_caught(key) */
PyObject *sspy_lupa_detach(PyObject *module, PyObject *key);
PyObject *sspy_lupa_is_attached(PyObject *module, PyObject *key);
PyObject *sspy_lupa_keep_caught(PyObject *module, PyObject *key);
#if PY_VERSION_HEX >= 0x030C0000
/* _lupa_existing(*kinds): the list of all instances of these types. */
PyObject *sspy_lupa_existing(PyObject *module, PyObject *arguments);
#endif

/* ---- Errors (errors.c) -------------------------------------------------------------------------*/

/* The hook of ss_lua_hooks: a Python exception leaves for Lua, whose frames are still live. */
void sspy_lupa_raised(void *data, void *block, const void *above, const uintptr_t *frames,
                      uint32_t count, bool again);
/* The hooks of ss_lua_hooks: a pcall of the script catches such an exception; the error of one whose text is
   in TEXT. */
void sspy_lupa_caught(void *data, void *block, const void *above, bool again);
IUnknown *sspy_lupa_find_in(void *data, void *block, const char *text, size_t length,
                            const void *above);
/* EXC is a LuaError that was just made, outside of ABOVE: if lupa made it for a call that failed,
   tie it to the error of that.  Leaves no exception set. */
void sspy_lupa_error_made(sspy_state *state, PyObject *exc, const void *above);
/* Tie the pending LuaError, with which resuming COROUTINE ended, to the error that it failed with. */
void sspy_lupa_resume_failed(PyObject *coroutine, const void *above);
/* If an exception is pending, it leaves lupa for Python: take the entries of lupa's own functions out of
   its traceback, unless they are kept.  STATE may be NULL: this interpreter's. */
void sspy_lupa_left(sspy_state *state);
/* _lupa_bridges(keeps): whether tracebacks keep those entries. */
PyObject *sspy_lupa_bridges(PyObject *module, PyObject *keeps);

/* ---- Late work (late.c) ------------------------------------------------------------------------*/

/* Begin the deadline of LATE, of which the caller has set the name and the milliseconds.  INTERRUPTS:
   when it is missed, what its thread runs in attached runtimes for this work ends by a TimeoutError.
   WANTED has the rest.  -1 with an exception. */
int sspy_late_begin(sspy_state *state, sspy_late *late, bool interrupts,
                    const stacksplice_deadline_options *wanted);
/* The same for a call of ATTACHED, or NULL, if that has a limit and the call is not inside of another.
   LATE is to be ended in any case. */
int sspy_late_begin_call(sspy_state *state, sspy_late *late, const sspy_attached *attached);
/* Any thread; does nothing if it was not begun.  Keeps a pending exception. */
void sspy_late_end(sspy_late *late);
/* The exception of late work that this thread is in, counted, if lupa has made the LuaError EXC of it;
   else NULL without an exception. */
PyObject *sspy_late_error(sspy_state *state, PyObject *exc);
/* Whether late work may have raised its exception in this thread. */
bool sspy_late_has_raised(void);
/* RESULT of a call of ATTACHED, or NULL with a LuaError: where a function of C, such as LuaJIT's load, or
   a finalizer of Lua 5.2 or 5.3 has lost the exception of late work, NULL with that. */
PyObject *sspy_late_result(sspy_state *state, const sspy_attached *attached, PyObject *result);
/* This thread resumes COROUTINE, in which there may be no function of Lua that says so.  Returns what
   was set before, to be set again afterwards. */
sspy_resumed sspy_late_resuming(PyObject *coroutine);
void sspy_late_set_resumed(sspy_resumed resumed);
/* _lupa_late(number, again): raises the exception of the late work of that number, if this thread is
   in it. */
PyObject *sspy_lupa_late(PyObject *module, PyObject *arguments);

/* ---- Types (types.c) ---------------------------------------------------------------------------*/

/* _lupa_attach(key, state, coroutine, library, globals, lock): STATE is the address of COROUTINE, whose
   type is watched; LOCK may be None. */
PyObject *sspy_lupa_attach(PyObject *module, PyObject *arguments);
/* _lupa_limit(key, milliseconds, object): each call of the attached runtime may take so long; OBJECT is any
   of it, whose type tells what is called. */
PyObject *sspy_lupa_limit(PyObject *module, PyObject *arguments);
/* _lupa_watch(runtime_type, error_type, created): have CREATED called with each new runtime, and
   notice new errors; also those of types below.  _lupa_unwatch(): the end of all of it. */
PyObject *sspy_lupa_watch(PyObject *module, PyObject *arguments);
PyObject *sspy_lupa_unwatch(PyObject *module, PyObject *unused);

#endif
