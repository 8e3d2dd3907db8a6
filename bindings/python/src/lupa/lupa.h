/*
 * lupa, a Lua inside a Python extension that knows nothing of us: its runtimes are attached, so
 * that their errors get the combined stack where they are born.
 */
#ifndef SSPY_LUPA_H
#define SSPY_LUPA_H

#include "cross/cross.h"
#include "lua/lua.h"

/* ---- Attached runtimes (attached.c) -----------------------------------------------------------*/

/* An attached runtime.  All of an interpreter's are in a list. */
typedef struct sspy_attached {
    struct sspy_attached *next;
    uintptr_t key;       /* (RO) the address of the runtime object; we hold no reference on it */
    const void *globals; /* (RO) the dict of lupa's module, to recognise its frames; not held */
    PyObject *lock;      /* (RO) that each call of the runtime holds, counted; NULL if not known */
    sspy_lua *lua;       /* (GIL) */
    atomic_bool closed;  /* (ATOMIC) lua_close ran: the address may be another runtime's now */
    /* The thread that runs the runtime exchanges RECORDED; others take it meanwhile. */
    _Atomic(struct sspy_recorded *) recorded;
    _Atomic(const void *) recorded_frame; /* of its call, so that others leave it alone */
} sspy_attached;

/* What an interpreter knows of lupa. */
typedef struct sspy_lupa {
    sspy_attached *attached;
    PyObject *created; /* callable: a new runtime -> None, or NULL */
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
/* The one with that KEY, or NULL. */
sspy_attached *sspy_attached_find(sspy_state *state, uintptr_t key);
/* Take ATTACHED out of the list. */
void sspy_attached_remove(sspy_state *state, sspy_attached *attached);
void sspy_attached_free(sspy_attached *attached);
/* Whether this thread is inside of a call of the runtime.  Leaves no exception set. */
bool sspy_attached_is_called(const sspy_attached *attached);
/* The hook of ss_lua_hooks: the state of DATA, an sspy_attached, was closed. */
void sspy_attached_closed(void *data);
/* Forget all runtimes, which stay attached: the module goes. */
void sspy_lupa_end(sspy_state *state);
/* attach.c: _lupa_attach(key, state, coroutine, library, globals, lock): STATE is the address of
   COROUTINE; LOCK may be None. _lupa_detach(key), _lupa_attached(key) */
PyObject *sspy_lupa_attach(PyObject *module, PyObject *arguments);
/* existing.c: _lupa_existing(kinds): the list of all instances of these types. */
PyObject *sspy_lupa_existing(PyObject *module, PyObject *kinds);
PyObject *sspy_lupa_detach(PyObject *module, PyObject *key);
PyObject *sspy_lupa_is_attached(PyObject *module, PyObject *key);

/* ---- Errors (names.c, raised.c, recorded.c, lua_error.c) --------------------------------------------------*/

/* The hook of ss_lua_hooks: a Python exception leaves for Lua, whose frames are still live. */
void sspy_lupa_raised(void *data, void *block, const void *above, const uintptr_t *frames,
                      uint32_t count);
/* COUNT FRAMES are the stack from inside of the coroutine of ATTACHED that EXC has just ended. */
void sspy_lupa_came_out(sspy_state *state, PyObject *exc, const sspy_attached *attached,
                        const uintptr_t *frames, uint32_t count);
/* Whether ELEMENT of a stack is a frame of a script. */
bool sspy_lupa_is_script(uintptr_t element);
/* The Python exception in the BLOCK of a userdata of lupa, borrowed; or NULL. */
PyObject *sspy_lupa_exception(const void *block);
/* The hook of ss_lua_hooks: remembers the error that a message handler is told of last. */
void sspy_lupa_recorded(void *data, IUnknown *error);
/* That error, with a reference, and the NUMBER of its record, if it was made in the call from Python
   which is HERE; else NULL.  What this thread remembered is forgotten. */
IUnknown *sspy_lupa_take_recorded(sspy_attached *attached, sspy_call here, uint64_t *number);
/* CALL resumes a coroutine: no message handler is told of its error.  Returns what was set before,
   to be set again afterwards. */
sspy_call sspy_lupa_resuming(sspy_call call);
/* Put names into the stack that TIES keeps since the raise; ABOVE as in ss_lua_hooks. */
void sspy_lupa_take_names(sspy_ties *ties, const void *above);
/* EXC is a LuaError that was just made, outside of ABOVE: if lupa made it for a call that failed,
   tie it to the error of that.  Leaves no exception set. */
void sspy_lupa_error_made(sspy_state *state, PyObject *exc, const void *above);
/* The message that EXC was made with, UTF-8; NULL without an exception if it is no text. */
const char *sspy_lupa_message(PyObject *exc, size_t *length);
/* Tie EXC to ERROR, and put its frames behind the innermost entry of EXC's traceback; -1 with an
   exception. */
int sspy_lupa_tie(sspy_state *state, PyObject *exc, IScriptErrorInfo *error);

/* ---- Types (types.c, coroutine.c) -------------------------------------------------------------*/

/* What METH_FASTCALL | METH_KEYWORDS stands for. */
typedef PyObject *(*sspy_fast_function)(PyObject *self, PyObject *const *arguments,
                                        Py_ssize_t count, PyObject *names);
static inline sspy_fast_function sspy_lupa_fast(PyCFunction function)
{
    return (sspy_fast_function)(void (*)(void))function;
}

/* The definition of the method NAME of TYPE, whose function is such a one; NULL without an
   exception if it is something else. */
PyMethodDef *sspy_lupa_method(PyTypeObject *type, const char *name);

/* Notice failures of coroutines of TYPE that Python resumes; -1 with an exception. */
int sspy_lupa_watch_coroutines(PyTypeObject *type);
void sspy_lupa_unwatch_coroutines(void);
/* Whether EXC is a LuaError. */
bool sspy_lupa_is_error(PyObject *exc);
void sspy_lupa_unwatch_types(void);
/* _lupa_watch(runtime_type, error_type, created): have CREATED called with each new runtime, and
   notice new errors; also those of types below.  _lupa_unwatch(): the end of all of it. */
PyObject *sspy_lupa_watch(PyObject *module, PyObject *arguments);
PyObject *sspy_lupa_unwatch(PyObject *module, PyObject *unused);

#endif
