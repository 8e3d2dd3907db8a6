/* The language exception of an error value, and what ties the value to its error. */
#ifndef SS_LUA_EXCEPTION_H
#define SS_LUA_EXCEPTION_H

#include "life/state.h"

/* The head of a freed list that nobody will drain any more. */
#define SS_LUA_FREED_CLOSED ((ss_lua_exception *)(uintptr_t)1)

struct ss_lua_exception {
    IScriptException script; /* the IUnknown of the object */
    ILanguageExceptionStackBackTrace back_trace;
    ILanguageExceptionTransform transform; /* answered when there is a cause */
    IUnknown agile;
    atomic_uint outside; /* COM references */
    atomic_uint memory;  /* inside references, one while outside > 0, one while in the freed list */
    atomic_bool in_freed;
    _Atomic(ss_lua_exception *) next_freed;
    ss_lua_state *state;               /* (RO) */
    HRESULT hresult;                   /* (RO) */
    bool pinned;                       /* the state's thread: the value is in the table of pins */
    bool cause_known;                  /* the state's thread: the value was asked for its cause */
    _Atomic(IScriptErrorInfo *) cause; /* set once; held inside, and outside while this is */
    char *type_name;                   /* (RO) these point behind the structure */
    char *message;
    size_t message_length;
    uint32_t frame_count;
    uintptr_t frames[];
};

/* What an exception is made of; everything is copied. */
typedef struct ss_lua_exception_parts {
    HRESULT hresult;
    const char *type_name;
    const char *message;
    size_t message_length;
    const uintptr_t *frames;
    uint32_t frame_count;
} ss_lua_exception_parts;

/* A new exception with one inside reference, or NULL when out of memory. */
ss_lua_exception *ss_lua_exception_new(ss_lua_state *state, const ss_lua_exception_parts *parts);

/* The exception behind any of its interfaces, if it is one of STATE; borrowed.  NULL is allowed. */
ss_lua_exception *ss_lua_exception_from(IUnknown *object, const ss_lua_state *state);

static inline IUnknown *ss_lua_unknown(ss_lua_exception *x)
{
    return (IUnknown *)&x->script;
}

/* CAUSE, of which the caller has an outside reference, is what X was made from; only once.  The
   value of X is pinned. */
void ss_lua_exception_set_cause(ss_lua_exception *x, IScriptErrorInfo *cause);

void ss_lua_exception_add_inside(ss_lua_exception *x);
void ss_lua_exception_release_inside(ss_lua_exception *x);

/* Let go of both. */
void ss_lua_drop_ties(ss_lua_ties *ties);

/* Forget the last value without identity. [-0, +0, -] */
void ss_lua_forget_last(ss_lua_state *state);

#endif
