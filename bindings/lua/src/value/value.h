/* Error values: their ties to their errors, and the conversion of each to the other. */
#ifndef SS_LUA_VALUE_H
#define SS_LUA_VALUE_H

#include "frames/frames.h"
#include "life/life.h"

#include <stacksplice/redact.h>

/* Which error a value without identity is, which equals those of others. */
typedef enum ss_lua_which {
    SS_LUA_NEW,
    SS_LUA_LANDED,    /* what a message handler saw on its way to this call; else a new one */
    SS_LUA_IN_FLIGHT, /* the same, and it goes on; else a new one */
    SS_LUA_LAST       /* a script names it by its text: the last one with that; else a new one */
} ss_lua_which;

/* How to take the stack of a new exception. */
typedef struct ss_lua_origin {
    ss_lua_which which;
    uintptr_t call;    /* where that call is (ss_lua_place_of); 0: unknown */
    const void *above; /* frames inside it are ours */
    int status;        /* LUA_ERRRUN, or what a protected call returned */
    bool unwound;      /* the frames between the raise and here are gone: leave a gap */
    lua_State *dead;   /* a coroutine that failed: its activations are still there; or NULL */
    bool has_lost;     /* it may have lost the innermost ones */
    HRESULT hresult;   /* 0: use the value's, else that of the status */
    const char *line;  /* with wrong syntax, if its text is known; or NULL */
    const ss_lua_caught *caught; /* what this error was when pcall caught it; or NULL */
    bool is_context;             /* that was not raised again */
} ss_lua_origin;

/* The running function has the value at INDEX, with which its call of Lua failed: find that call, whose
   handler stands on the stack still, or has left its place to the value.  Without one the value is a new
   error. [-0, +0, -] */
void ss_lua_find_call(lua_State *L, const ss_lua_state *state, int index, ss_lua_origin *origin);

/* A protected call of L failed with STATUS; its handler and its function are, or were, at these indices.
   Lua calls a handler for errors at run time alone. */
static inline ss_lua_origin ss_lua_landing(lua_State *L, int status, int handler, int function,
                                           const void *above)
{
    return (ss_lua_origin){.which = status == LUA_ERRRUN ? SS_LUA_LANDED : SS_LUA_NEW,
                           .call = ss_lua_place_of(L, SS_LUA_JIT ? function : handler).at,
                           .above = above,
                           .status = status,
                           .unwound = true};
}

/* ---- Ties (ties.c) ----------------------------------------------------------------------------*/

/* The ties of the value at INDEX, which has identity; else NULL. [-0, +0, -], 4 slots */
stacksplice_ties *ss_lua_ties_find(lua_State *L, int index);

/* The ties of any value, or NULL; ORIGIN says which error a value without identity is. [-0, +0, -], 4
   slots */
stacksplice_ties *ss_lua_ties_known(lua_State *L, ss_lua_state *state, int index,
                                    const ss_lua_origin *origin);

/* The hold of the value at the top if that is the error object of an error that no value of this
   state stands for; else NULL.  The state is open. [-0, +0, -], 2 slots */
ss_lua_hold *ss_lua_foreign_hold(lua_State *L);

/* Push the value that a message handler saw last on its way to that CALL in L, if the string at INDEX has its
   text: a handler may have made that of it. [-0, +(0|1), -], 2 slots */
bool ss_lua_push_seen(lua_State *L, const ss_lua_state *state, int index, uintptr_t call);

/* The ties of the value at INDEX, made when there are none. [-0, +0, m] */
stacksplice_ties *ss_lua_ties_make(lua_State *L, ss_lua_state *state, int index,
                                   const ss_lua_origin *origin);

/* Whether values of this type have an identity: then their ties are in a table with weak keys. */
bool ss_lua_has_identity(lua_State *L, int index);

/* Push the field KEY of the table or userdata at INDEX: raw for a table; for a userdata by its
   metatable, nil when that fails. [-0, +1, m] */
void ss_lua_push_field(lua_State *L, int index, const char *key);

/* Userdata with METATABLE are guests, of which nothing is read; NULL: none are. [-0, +0, m] */
void ss_lua_set_guests(lua_State *L, const void *metatable);
/* Whether the value at INDEX is one. [-0, +0, -], 2 slots */
bool ss_lua_is_guest(lua_State *L, int index);

/* Give the value at INDEX empty ties of its own. [-0, +0, m] */
stacksplice_ties *ss_lua_tie(lua_State *L, ss_lua_state *state, int index);

/* The value at INDEX, which has ties of its own, has none any more. [-0, +0, -], 3 slots */
void ss_lua_untie(lua_State *L, int index);

/* The user values of an object with a hold: the error object of the cause and, for an error object,
   the value that the error was born from. */
enum { SS_LUA_CAUSE = 1, SS_LUA_VALUE };

/* Push the object with the hold of the value at INDEX, or nil. [-0, +1, -], 2 slots */
void ss_lua_push_tied(lua_State *L, int index);

/* Keep the value at INDEX with TIES, or that of the error object there, alive while a reference
   outside holds its exception.  Keep those of its causes too.  Call this before giving out an
   outside reference. [-0, +0, m] */
void ss_lua_pin(lua_State *L, int index, const stacksplice_ties *ties);

/* The same for the value of X alone. [-0, +0, m] */
void ss_lua_pin_alone(lua_State *L, stacksplice_exception *x, int index);

/* Push the value of X; push nothing and return false when it is gone. [-0, +(0|1), -] */
bool ss_lua_push_value(lua_State *L, const stacksplice_exception *x);

/* Whether the values are one: of equal strings, the same object. [-0, +0, -] */
bool ss_lua_is_one(lua_State *L, int a, int b);

/* Whether the value at INDEX is that of TIES, without identity. [-0, +0, -], 3 slots */
bool ss_lua_is_value_of(lua_State *L, const stacksplice_ties *ties, int index);

/* The last value without identity has TIES, which are copied. */
void ss_lua_set_last(ss_lua_state *state, const stacksplice_ties *ties);

/* A message handler saw the state's last value, on its way to that CALL in L. */
void ss_lua_begin_flight(ss_lua_state *state, lua_State *L, ss_lua_call_place call);

/* The string at INDEX, the last value from now on, is that of TIES with another text: give it an
   exception with the same stack, and without the last TAIL bytes in its message. [-0, +0, m] */
void ss_lua_rename_last(lua_State *L, ss_lua_state *state, const stacksplice_ties *ties, int index,
                        size_t tail);

/* The stack of X, to be freed; NULL without one, or without memory. */
uintptr_t *ss_lua_copy_stack(stacksplice_exception *x, uint32_t *count);

/* ---- Errors of values (leave.c) ---------------------------------------------------------------*/

/*
 * Put the error of the value at INDEX, originated if it never was, into the thread's slot; returns
 * its HRESULT. [-0, +0, m]
 */
HRESULT ss_lua_originate_value(lua_State *L, ss_lua_state *state, int index,
                               const ss_lua_origin *origin);

/*
 * Push the error object of the value at INDEX (the value itself if it is one); the thread's slot
 * stays unchanged.  Nil when origination is switched off. [-0, +1, m]
 */
void ss_lua_push_error_of(lua_State *L, ss_lua_state *state, int index,
                          const ss_lua_origin *origin);

/* The ties of the value at INDEX, prepared so that an outside reference may be given out. [-0, +0,
   m] */
stacksplice_ties *ss_lua_ties_ready(lua_State *L, ss_lua_state *state, int index,
                                    const ss_lua_origin *origin);

/* Push the error object of pinned TIES, made now if need be; nil when origination is switched off.
   Replaces HOLDER, an empty one at the top.  Push it before you look for TIES: a finalizer that
   runs then may change the state's last ones. [-1, +1, m] */
void ss_lua_push_made_error(lua_State *L, ss_lua_state *state, IUnknown **holder,
                            stacksplice_ties *ties);

/* Set the error object at CAUSE as the cause of the value at INDEX, with TIES and without a cause
   so far. [-0, +0, m] */
void ss_lua_set_cause(lua_State *L, int index, stacksplice_ties *ties, int cause);

/* The value at INDEX, for one without identity the last one, was raised while that of the error object at
   CONTEXT was on its way.  Where it has or names a cause, that is shown. [-0, +0, m] */
void ss_lua_set_context(lua_State *L, ss_lua_state *state, int index, int context);

/* ---- COM ------------------------------------------------------------------------------------*/

/* The interface IID of OBJECT with a reference, or NULL; NULL is allowed. */
static inline void *ss_lua_query(IUnknown *object, REFIID iid)
{
    void *found = NULL;

    if (!object || FAILED(object->lpVtbl->QueryInterface(object, iid, &found)))
        return NULL;
    return found;
}

static inline void ss_lua_release(void *object)
{
    if (object)
        ((IUnknown *)object)->lpVtbl->Release(object);
}

/* ---- Error objects ----------------------------------------------------------------------------*/

#define SS_LUA_ERROR_NAME "stacksplice.error"

/* Push the error object of ERROR, the same one while it lives.  It holds ERROR inside if its value
   belongs to this state, else outside. [-0, +1, m] */
void ss_lua_push_error(lua_State *L, ss_lua_state *state, IUnknown *error);

/* The error held by the error object at INDEX, borrowed; NULL if it is none. [-0, +0, -] */
IUnknown *ss_lua_to_error(lua_State *L, int index);

/* Push an array of frame tables. [-0, +1, m] */
void ss_lua_push_frames(lua_State *L, const uintptr_t *frames, uint32_t count);

/* The language exception of ERROR with a new reference, or NULL. */
IUnknown *ss_lua_error_exception(IUnknown *error);

/* The HRESULT of ERROR. */
HRESULT ss_lua_error_hresult(IUnknown *error);

/* Push a report; SHORTEN as in stacksplice_format_options. [-0, +1, m] */
void ss_lua_push_report(lua_State *L, IUnknown *error, stacksplice_format_kind kind,
                        bool all_frames, bool shorten);

/* ---- Text in C memory: Lua must not raise through the core, which delivers it piece by piece --*/

/* All zero: none yet. */
typedef struct ss_lua_gathered {
    char *text;
    size_t length, capacity;
    bool failed; /* memory ran out; stays */
} ss_lua_gathered;

/* Add TEXT to DATA, an ss_lua_gathered; nonzero without memory, now and in all later calls. */
int ss_lua_gather(const char *text, size_t length, void *data);

/* Push the text as a string and free it, even if something raises: "not enough memory" if it is
   incomplete. [-0, +1, m] */
void ss_lua_push_gathered(lua_State *L, ss_lua_gathered *out);

/* Free the text. */
void ss_lua_gathered_free(ss_lua_gathered *out);

/* Make room for LENGTH more bytes; NULL without memory, else where they go. */
char *ss_lua_gather_room(ss_lua_gathered *out, size_t length);

/* Replace the string at the top by what reports show of it. [-1, +1, m] */
void ss_lua_redact_top(lua_State *L);

/* A stacksplice_redact_callback, which calls the hook that set_hook has set. */
int ss_lua_redact_hook(const char *text, size_t length, stacksplice_text_kind kind,
                       stacksplice_write_callback write, void *write_data, void *data);

/* Make the value at the top, a function or nil, the hook of all scripts of this state.
   [-1, +0, m] */
void ss_lua_set_redact_hook(lua_State *L);

#endif
