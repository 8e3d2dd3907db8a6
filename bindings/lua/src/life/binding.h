/*
 * What the files of the Lua binding share.  Marks in brackets are those of the Lua manual.
 *
 * Words: the *state* is our record of one Lua (a main thread and all its coroutines); an
 * *exception* is the language exception of one error value; an *anchor* ties a value of the script
 * to its exception and error object.
 */
#ifndef SS_LUA_BINDING_H
#define SS_LUA_BINDING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lua.h>
#include <lauxlib.h>

#include <stacksplice/lua.h>
#include <stacksplice/source.h>

#include "life/compat.h"

/* Separates a function of ours, which must not be inlined, from its callers: see source.h. */
#define SS_LUA_HERE() __builtin_frame_address(0)
#define SS_LUA_NOINLINE __attribute__((noinline))

typedef struct ss_lua_exception ss_lua_exception;
typedef struct ss_lua_hold ss_lua_hold;

/* ---- States (state.c) ------------------------------------------------------------------------*/

/* What an anchor, or the state for values that cannot have one, holds: both inside. */
typedef struct ss_lua_ties {
    ss_lua_exception *exception;
    IScriptErrorInfo *error; /* NULL until it was originated */
} ss_lua_ties;

/* Who raised the state's last error: a handler that runs inside that call takes it up. */
typedef struct ss_lua_raising {
    lua_State *L;
    const void *ci, *function;
} ss_lua_raising;

/* Of the name that package.loaded has for a function: captures have no memory for a longer one. */
enum { SS_LUA_NAME_SIZE = 96 };

/*
 * The name package.loaded has for a function, or that it has none.  A function's address may be
 * used again after it died, so the sentinel that lived belongs to the key, and what the function
 * was defined as; and after some uses the tables are asked again.
 */
typedef struct ss_lua_known_name {
    const void *function;
    const char *source; /* compared, never read */
    int line_defined;
    uint32_t epoch;   /* of the state when the tables were asked; 0: no sentinel lived */
    uint32_t capture; /* that asked them */
    unsigned uses_left;
    char name[SS_LUA_NAME_SIZE]; /* empty: none, or a longer one */
} ss_lua_known_name;

/* A hook that an interrupt displaced. */
typedef struct ss_lua_displaced {
    lua_State *L;
    lua_Hook hook;
    int mask, count;
} ss_lua_displaced;

/* The method __close that an interrupt runs on its way. */
typedef struct ss_lua_closing {
    lua_State *L;
    const void *ci; /* NULL: none */
} ss_lua_closing;

/* As many coroutines as Lua lets resume each other. */
enum { SS_LUA_DISPLACED = 200, SS_LUA_KNOWN_NAMES = 64, SS_LUA_NAME_USES = 500 };

/*
 * One Lua state.  Records are never freed, only used again, so that a reader without a lock and an
 * exception that outlives lua_close can look at them.
 */
typedef struct ss_lua_state {
    struct ss_lua_state *next;         /* (RO) of the list of all records */
    atomic_uint users;                 /* the open Lua state, and every exception */
    _Atomic(const void *) registry;    /* its identity; NULL once it is closing */
    char name[24];                     /* (RO) empty for the first */
    _Atomic(ss_lua_exception *) freed; /* exceptions whose outside count fell to 0; or CLOSED */
    /* From here on only the thread that runs the state. */
    lua_State *main;
    const void *holder; /* the object that stands for the record, and closes it; or NULL */
    ss_lua_ties last;   /* of an error value without identity; its exception is also held outside */
    bool last_raised;   /* since a host's C code originated it last */
    ss_lua_raising raising;
    int handling; /* > 0 while a message handler of ours runs */
    bool interrupted;
    lua_Hook interrupt_hook;   /* of the copy of the binding that marked the state */
    lua_State *interrupt_base; /* the outermost coroutine that was interrupted */
    ss_lua_closing closing;
    lua_State *capturing; /* a function of ours captures; it rests there, with room; or NULL */
    struct ss_lua_notebook *notebook;
    atomic_uintptr_t capturing_above; /* while it captures, an address on that thread's stack; 0 */
    uint32_t captures;                /* how many looked at the state */
    bool wants_sentinel;              /* it is gone: sentinel.c */
    bool used_sentinel;               /* a capture found it alive */
    ss_lua_hold *holds;               /* of the state's objects: hold.c */
    ss_lua_hold *kept_holds;          /* empty; Lua forgot their objects when it closed */
    uint32_t sweeps;
    uint32_t epoch;                    /* of the table: how often all in it went out of date */
    uint32_t token_epoch;              /* the core's, at the last look at the sentinel */
    struct ss_lua_token_table *tokens; /* true while the sentinel lives; NULL: none yet */
    uint32_t displaced_count;
    ss_lua_displaced displaced[SS_LUA_DISPLACED];
    ss_lua_known_name names[SS_LUA_KNOWN_NAMES];
} ss_lua_state;

/*
 * What all copies of the binding that call one copy of Lua share: a program may have the static
 * library, the module, and C modules that brought the static library along.  It is that of the copy
 * whose frame source is registered.
 */
enum { SS_LUA_COPIES = 16, SS_LUA_KNOWN_THREADS = 64 };
typedef struct ss_lua_shared {
    uint32_t size;
    _Atomic(ss_lua_state *) states;
    pthread_mutex_t lock;                               /* of writers to the list */
    atomic_uint interrupted_states;                     /* what a successful call looks at */
    _Atomic(const luaL_Reg *) functions[SS_LUA_COPIES]; /* each copy's lua_CFunctions */
    /* Coroutines by address whose state is open and wants nothing: calls need not look further. */
    _Atomic(lua_State *) known[SS_LUA_KNOWN_THREADS];
} ss_lua_shared;

extern ss_lua_shared *ss_lua_the_shared;

/* The record of L's state, made when there is none. [-0, +0, m] */
ss_lua_state *ss_lua_state_open(lua_State *L);

/* The place in the table of known coroutines that L has. */
static inline _Atomic(lua_State *) *ss_lua_known_place(lua_State *L)
{
    return &ss_lua_the_shared->known[((uintptr_t)L >> 4) % SS_LUA_KNOWN_THREADS];
}

/* Have every call look further once: a state closed, or wants something. */
void ss_lua_forget_known(void);

/* The record, or NULL when nothing of ours ran in that state yet. [-0, +0, -] */
ss_lua_state *ss_lua_state_find(lua_State *L);

/* The record with that registry, without touching Lua; or NULL.  Any thread. */
ss_lua_state *ss_lua_state_of_registry(const void *registry);

/* Push the holder of the record, which functions of the module have as their first upvalue.
   [-0, +1, -] */
void ss_lua_push_holder_of_state(lua_State *L);

/* What a function of ours begins with: drain, and what else there is to do after a collection: let
   go of what Lua lost, and plant. [-0, +0, m], 4 slots */
void ss_lua_state_tend(lua_State *L, ss_lua_state *state);

/* Unpin the values of exceptions that nobody outside holds any more. [-0, +0, -] */
void ss_lua_state_drain_all(lua_State *L, ss_lua_state *state);
static inline void ss_lua_state_drain(lua_State *L, ss_lua_state *state)
{
    if (atomic_load_explicit(&state->freed, memory_order_relaxed))
        ss_lua_state_drain_all(L, state);
}

void ss_lua_state_ref(ss_lua_state *state);
void ss_lua_state_unref(ss_lua_state *state);

/*
 * Tables behind the record; each pushes one: exception -> value; value -> anchor, weak keys; error
 * -> its error object, weak values; objects that have holds, weak keys. [-0, +1, -], 2 slots
 */
enum {
    SS_LUA_PINS = 1,
    SS_LUA_ANCHORS,
    SS_LUA_ERRORS,
    SS_LUA_HOLDERS,
    SS_LUA_INTERRUPT, /* no table: the error object that is raised again, or nil */
    SS_LUA_SENTINELS,
    SS_LUA_TABLES = SS_LUA_SENTINELS
};
void ss_lua_push_table(lua_State *L, int which);

/* Replace one by what is at the top. [-1, +0, -] */
void ss_lua_set_table(lua_State *L, int which);

/* Push the metatable NAME, made of FUNCTIONS when it is new. [-0, +1, m] */
void ss_lua_push_metatable(lua_State *L, const char *name, const luaL_Reg *functions);

/* package.loaded as our copy of the binding found it, or nil. [-0, +1, -] */
void ss_lua_push_loaded(lua_State *L);

/* ---- The sentinel of a state (sentinel.c) ----------------------------------------------------*/

/* Push the weak table it is planted in; take the one at the top into use, for this copy. */
void ss_lua_push_new_sentinels(lua_State *L);
void ss_lua_keep_sentinels(lua_State *L);

/* Whether the keys of STATE are true.  When not, the next call plants a new sentinel.  L rests.
   [-0, +0, -], 2 slots */
bool ss_lua_sentinel_lives(lua_State *L, ss_lua_state *state);

/* The same for who only wants to know whether there was a collection. [-0, +0, -], 2 slots */
void ss_lua_look_for_sentinel(lua_State *L, ss_lua_state *state);

/* Plant one if STATE wants it, after a sweep of its holds. [-0, +0, m], 4 slots */
void ss_lua_plant_sentinel(lua_State *L, ss_lua_state *state);

/* What a table of keyed tokens takes (activation.c). */
size_t ss_lua_token_table_size(void);

/* ---- Holds (hold.c) --------------------------------------------------------------------------*/

struct ss_lua_hold {
    ss_lua_hold *next, **link; /* LINK: what points to it; NULL once its state closed */
    uint32_t sweep;            /* the last one that found its object */
    ss_lua_ties ties;          /* inside */
    IUnknown *outside;         /* a COM reference */
};

typedef struct ss_lua_hold_kind {
    const char *name; /* of the metatable */
    const luaL_Reg *functions;
    int user_values;
} ss_lua_hold_kind;

/* Push an object, a pointer to its hold, which is empty; its finalizer is that below.
   [-0, +1, m], 4 slots */
ss_lua_hold *ss_lua_push_hold(lua_State *L, ss_lua_state *state, const ss_lua_hold_kind *kind);

/* Let go of what the object's hold has, and of the hold; nothing when that was done. */
int ss_lua_collect_hold(lua_State *L);

/* Drop the holds whose objects Lua freed without a finalizer. [-0, +0, -], 4 slots */
void ss_lua_sweep_holds(lua_State *L, ss_lua_state *state);

/* Empty all: the state is closing, or Lua closed it without a word. */
void ss_lua_close_holds(ss_lua_state *state);

/* Push an object that owns the COM reference put into its hold, whatever raises. [-0, +1, m] */
IUnknown **ss_lua_push_holder(lua_State *L);

/* Release what the holder at INDEX has and take it off the stack. [-1, +0, -], 1 slot */
void ss_lua_drop_holder(lua_State *L, int index);

/* ---- Exceptions (exception.c) ----------------------------------------------------------------*/

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

/* ---- Values (value.c) ------------------------------------------------------------------------*/

/* How a stack is to be taken for a new exception. */
typedef struct ss_lua_origin {
    const void *above; /* frames inside of it are ours */
    int status;        /* LUA_ERRRUN, or what a protected call returned */
    bool unwound;      /* the frames between the raise and here are gone: say so */
    lua_State *dead;   /* a coroutine that failed: its activations are still there; or NULL */
    HRESULT hresult;   /* 0: what value and status say */
} ss_lua_origin;

/* Let go of both. */
void ss_lua_drop_ties(ss_lua_ties *ties);

/* The ties of the value at INDEX, or NULL. [-0, +0, -], 4 slots */
ss_lua_ties *ss_lua_ties_find(lua_State *L, ss_lua_state *state, int index);

/* The ties of the value at INDEX, made when there are none. [-0, +0, m] */
ss_lua_ties *ss_lua_ties_make(lua_State *L, ss_lua_state *state, int index,
                              const ss_lua_origin *origin);

/* Whether values of that type can be told apart: their ties hang in the table of anchors. */
bool ss_lua_has_identity(lua_State *L, int index);

/* Push the field KEY of the table or userdata at INDEX: raw of a table, of a userdata as its
   metatable gives it, nil when that fails. [-0, +1, m] */
void ss_lua_push_field(lua_State *L, int index, const char *key);

/* Keep the value at INDEX alive while anybody outside holds X, and those of its causes.
   [-0, +0, m] */
void ss_lua_pin(lua_State *L, ss_lua_exception *x, int index);

/* The same for this value alone. [-0, +0, m] */
void ss_lua_pin_alone(lua_State *L, ss_lua_exception *x, int index);

/* The user value of an anchor that holds the error object of the cause. */
enum { SS_LUA_ANCHOR_CAUSE = 1 };

/* Push the anchor of the value at INDEX, or nil. [-0, +1, -], 2 slots */
void ss_lua_push_anchor(lua_State *L, int index);

/* Push the value of X; false and nothing when it is gone. [-0, +(0|1), -] */
bool ss_lua_push_value(lua_State *L, const ss_lua_exception *x);

/* Forget the last value without identity; or do so only if the value at INDEX equals it. [-0, +0,
 * -]
 */
void ss_lua_forget_last(ss_lua_state *state);
void ss_lua_forget_equal(lua_State *L, ss_lua_state *state, int index);

/* For a host that has the error value at INDEX in hand: if it equals the last one, which was
   originated already and not raised since, it is another error: forget the last. [-0, +0, -] */
void ss_lua_forget_originated(lua_State *L, ss_lua_state *state, int index);

/* Whether the function at LEVEL of L is in the middle of stacksplice_lua_raise for the state's last
   value; the answer is given once. [-0, +0, -], one slot */
bool ss_lua_take_raising(lua_State *L, ss_lua_state *state, int level);

/* Make TIES (their exception's value is in hand) the last ones; takes over one outside reference.
 */
void ss_lua_set_last(ss_lua_state *state, ss_lua_exception *x, IScriptErrorInfo *error);

/* The same for X, which is new, with its inside reference; HOLDER, an empty one at the top, goes.
   [-1, +0, m] */
void ss_lua_set_new_last(lua_State *L, ss_lua_state *state, IUnknown **holder, ss_lua_exception *x,
                         int index);

/*
 * Put the error of the value at INDEX, originated if it never was, into the thread's slot; its
 * HRESULT. [-0, +0, m]
 */
HRESULT ss_lua_originate_value(lua_State *L, ss_lua_state *state, int index,
                               const ss_lua_origin *origin);

/*
 * Push the error object of the value at INDEX (the value itself if it is one), leaving the thread's
 * slot as it was; nil when origination is switched off. [-0, +1, m]
 */
void ss_lua_push_error_of(lua_State *L, ss_lua_state *state, int index,
                          const ss_lua_origin *origin);

/* ---- Causes (cause.c) ------------------------------------------------------------------------*/

/* Ask the value at INDEX, which has ties, for its cause, and that for its own and so on, make
   errors of them and tie each to the next; nothing when that was done.  Comes before anybody
   outside is told of the exception.  EFFECT: how the value's own stack is taken. [-0, +0, m] */
void ss_lua_find_causes(lua_State *L, ss_lua_state *state, int index, const ss_lua_origin *effect);

/* The error object at CAUSE is what the value at INDEX, with TIES and without a cause so far, was
   made from. [-0, +0, m] */
void ss_lua_set_cause(lua_State *L, ss_lua_state *state, int index, const ss_lua_ties *ties,
                      int cause);

/* ---- Frames (source.c, activation.c, capture.c)
 * -----------------------------------------------------------*/

/* The frame source: stacksplice/source.h. */
void ss_lua_collect(stacksplice_walk *walk, void *data);
uint8_t ss_lua_classify(uintptr_t ip, uintptr_t function, void *data);

/* Register the frame source of this copy of Lua; idempotent. */
void ss_lua_source_register(void);

/* One activation that a capture met, for those who need more than its token. */
typedef struct ss_lua_seen {
    uintptr_t element; /* the token, or the raw address of a C activation's own frame */
    lua_State *L;
    struct CallInfo *ci;
} ss_lua_seen;

/* Whoever captures may leave a notebook: filled outward.  Of more than CAPACITY both ends are in
 * it. */
typedef struct ss_lua_notebook {
    ss_lua_seen *seen;
    uint32_t capacity, count;
    lua_State *states[SS_LUA_DISPLACED]; /* the distinct coroutines, innermost first */
    uint32_t state_count;
} ss_lua_notebook;

/* Where the activation with that NUMBER is in BOOK, if it is still there. */
static inline ss_lua_seen *ss_lua_seen_at(const ss_lua_notebook *book, uint32_t number)
{
    uint32_t inner = book->capacity / 2;

    return &book->seen[number < inner ? number
                                      : inner + (number - inner) % (book->capacity - inner)];
}

/*
 * stacksplice_capture_ends for code that runs in a C function called by L, with at least eight free
 * slots in L; NOTEBOOK may be NULL.  The number of frames stored.
 */
uint32_t ss_lua_capture(lua_State *L, const void *above, uint32_t max, uintptr_t *frames,
                        ss_lua_notebook *notebook);

/* The state in which a function of ours captures on the stack of WALK, or NULL. */
const ss_lua_state *ss_lua_state_capturing(const stacksplice_walk *walk);

/* The token of the activation CI of L. */
uintptr_t ss_lua_activation_token(lua_State *L, struct CallInfo *ci, stacksplice_trust trust);

/* The token of a gap. */
uintptr_t ss_lua_gap(const char *reason);

/* What stands outward of a function that was entered by a tail call. */
#define SS_LUA_TAIL_CALLS "tail calls: Lua keeps no frame of the callers"

/* The activations of a coroutine that failed, as tokens, of more than MAX both ends.  FRAMES has
   room for twice MAX: each may have a gap of tail calls. */
uint32_t ss_lua_dead_frames(lua_State *dead, uint32_t max, uintptr_t *frames);

/* The name under which a loaded module holds the function VALUE points to, or false.
   [-0, +0, -], five slots in L */
bool ss_lua_global_name(lua_State *L, const void *value, char name[SS_LUA_NAME_SIZE]);

/* Whether NAME, which that function gave, is still the name of VALUE.  False for names that cannot
   be looked up, too. [-0, +0, m], three slots */
bool ss_lua_has_global_name(lua_State *L, const void *value, const char *name);

/* Push a table with the names, as luaL_traceback finds them, of FUNCTIONS (what lua_topointer gives
   for each): by their number from 1 on, none for one that has no name. [-0, +1, m], 8 slots */
void ss_lua_push_loaded_names(lua_State *L, const void *const *functions, uint32_t count);

/* ---- Error objects (error_object.c) ----------------------------------------------------------*/

#define SS_LUA_ERROR_NAME "stacksplice.error"

/* Push the error object of ERROR, the same one while it lives. [-0, +1, m]
   It holds ERROR as it must: inside when its value is one of this state, else outside. */
void ss_lua_push_error(lua_State *L, ss_lua_state *state, IUnknown *error);

/* The error held by the error object at INDEX, borrowed; NULL if it is none. [-0, +0, -] */
IUnknown *ss_lua_to_error(lua_State *L, int index);

/* Make sure that ERROR, held by the error object at INDEX, can be given to somebody outside: the
   value is pinned. [-0, +0, m] */
void ss_lua_pin_error_object(lua_State *L, ss_lua_state *state, int index);

/* Push an array of frame tables. [-0, +1, m] */
void ss_lua_push_frames(lua_State *L, const uintptr_t *frames, uint32_t count);

/* The language exception of ERROR with a new reference, or NULL. */
IUnknown *ss_lua_error_exception(IUnknown *error);

/* The HRESULT of ERROR. */
HRESULT ss_lua_error_hresult(IUnknown *error);

/* ---- Handlers and calls (handler.c, call.c, raise.c) -----------------------------------------*/

/* Remember the value at the top, protected; ABOVE as in origin.  [-0, +0, -] */
void ss_lua_note_raise(lua_State *L, const void *above);

/* The running C function is about to raise the state's last value: one without identity is
   recognised by who raises it, while it is being raised. [-0, +0, -], 1 slot */
void ss_lua_remember_raiser(lua_State *L, ss_lua_state *state);

/* ---- Interrupts (interrupt.c) ----------------------------------------------------------------*/

/* Whether ERROR is a foreign interrupt that plain protected calls may not swallow. */
bool ss_lua_is_interrupt(IUnknown *error);

/* Mark the state: the value at the top, an error object, is raised again until it is cleared.
   [-0, +0, m] */
void ss_lua_interrupt_set(lua_State *L, ss_lua_state *state, const void *above);

/* Whether what was called in L has been interrupted: the mark is still set, and is L's. */
bool ss_lua_is_interrupted(lua_State *L, const ss_lua_state *state);

/* Push the error object that is raised again, or nil. [-0, +1, -] */
void ss_lua_push_interrupt(lua_State *L);

/* Clear the mark and give every coroutine its own hook back. [-0, +0, -] */
void ss_lua_interrupt_clear(lua_State *L, ss_lua_state *state);

/* ---- Module functions ------------------------------------------------------------------------*/

/* The lua_CFunctions of this copy that scripts or hosts know: their activations are not shown. */
extern const luaL_Reg ss_lua_own_functions[];

/* Whether FUNCTION is one of them, of any copy. */
bool ss_lua_is_own_function(uintptr_t function);

int ss_lua_traceback(lua_State *L);
int ss_lua_pcall_function(lua_State *L);
int ss_lua_xpcall_function(lua_State *L);
int ss_lua_run_script_handler(lua_State *L);
int ss_lua_resume_function(lua_State *L);
int ss_lua_wrap_function(lua_State *L);
int ss_lua_call_wrapped(lua_State *L); /* what the latter returns, over its coroutine */
int ss_lua_install_function(lua_State *L);

#endif
