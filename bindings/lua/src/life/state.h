/*
 * The record of one Lua state: a main thread and all its coroutines.  Marks in brackets are those
 * of the Lua manual.
 */
#ifndef SS_LUA_STATE_H
#define SS_LUA_STATE_H

#include "life/shared.h"

typedef struct ss_lua_hold ss_lua_hold;

/* The function that raised the state's last error, for a handler that runs inside that call. */
typedef struct ss_lua_raising {
    lua_State *L;
    const void *ci, *function;
} ss_lua_raising;

/* The activation to which coroutine.resume returned the state's last error. */
typedef struct ss_lua_resumed {
    lua_State *L; /* NULL: none */
    const void *ci, *function, *pc;
    int results; /* the register of the first result, as lua_getlocal counts */
} ss_lua_resumed;

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
enum { SS_LUA_DISPLACED = 200 };

/* Records are never freed, only reused, so that a reader without a lock can look at them. */
struct ss_lua_state {
    struct ss_lua_state *next;          /* (RO) of the list of all records */
    _Atomic(const void *) registry;     /* its identity; NULL once it is closing */
    char name[24];                      /* (RO) empty for the first */
    _Atomic(stacksplice_owner *) owner; /* of its exceptions; NULL: the record is free */
    /* Only the thread that runs the state may use the rest. */
    lua_State *main;
    const void *holder;    /* the object that stands for the record, and closes it; or NULL */
    stacksplice_ties last; /* of an error value without identity; an outside reference, too */
    bool shows_locals;     /* errors keep the local variables of their frames */
    bool last_raised;      /* raised since a host's C code originated it last */
    ss_lua_raising raising;
    ss_lua_resumed resumed;
    int handling; /* > 0 while a message handler of ours runs */
    bool interrupted;
    bool
        insists; /* the interrupt spares no clean-up, and nothing but its deadline's end clears it */
    lua_Hook interrupt_hook;   /* of the copy of the binding that marked the state */
    lua_State *interrupt_base; /* the outermost coroutine that was interrupted */
    ss_lua_closing closing;
    lua_State *capturing; /* suspended, with room, in a function of ours that captures; or NULL */
    atomic_uintptr_t capturing_above; /* an address on the capturing thread's stack; or 0 */
    bool wants_tending;               /* a collection has passed: gc_canary.c */
    void *deadlines;                  /* calls that have one, the innermost first: api/deadline.h */
    ss_lua_hold *holds;               /* of the state's objects: hold.c */
    ss_lua_hold *kept_holds;          /* empty holds: Lua forgot their objects when it closed */
    uint32_t sweeps;
    uint32_t displaced_count;
    ss_lua_displaced displaced[SS_LUA_DISPLACED];
    uintptr_t cache[]; /* the frame source's cache */
};

/* The record of L's state, made when there is none. [-0, +0, m] */
ss_lua_state *ss_lua_state_open(lua_State *L);

/* The record, or NULL when nothing of ours ran in that state yet. [-0, +0, -] */
ss_lua_state *ss_lua_state_find(lua_State *L);

/* The record with that registry, found without touching Lua; or NULL.  Any thread. */
ss_lua_state *ss_lua_state_of_registry(const void *registry);

/* Our functions call this first.  It drains, and after a collection it also drops what Lua lost and
   plants a GC canary. [-0, +0, m], 4 slots */
void ss_lua_state_tend(lua_State *L, ss_lua_state *state);

/* The owner of an open state's exceptions. */
static inline stacksplice_owner *ss_lua_owner(const ss_lua_state *state)
{
    return atomic_load_explicit(&state->owner, memory_order_relaxed);
}

/* Unpin the values of exceptions that nothing outside holds any more. [-0, +0, -], 3 slots */
static inline void ss_lua_state_drain(lua_State *L, ss_lua_state *state)
{
    stacksplice_owner *owner = ss_lua_owner(state);

    if (stacksplice_owner_waits(owner))
        stacksplice_owner_drain(owner, L);
}

/* Whether nothing waits for ss_lua_state_tend. */
static inline bool ss_lua_state_is_tended(const ss_lua_state *state)
{
    return !state->wants_tending && !stacksplice_owner_waits(ss_lua_owner(state));
}

/* ---- GC canaries (gc_canary.c) ---------------------------------------------------------------*/

/* Push a weak table for GC canaries. */
void ss_lua_push_new_gc_canaries(lua_State *L);

/* Push the metatable of that table, which keeps what stands at its index 1 for all copies; pushes
   nothing and returns false in a state that this copy did not open. [-0, +(0|1), -], 2 slots */
bool ss_lua_push_gc_canaries_metatable(lua_State *L);

/* Whether no collection ran since it was planted.  If one did, the next call plants a new one.
   [-0, +0, -], 2 slots */
bool ss_lua_gc_canary_lives(lua_State *L, ss_lua_state *state);

/* After a collection: sweep the holds of STATE, and plant a GC canary unless one lives. [-0, +0,
   m], 4 slots */
void ss_lua_plant_gc_canary(lua_State *L, ss_lua_state *state);

/* ---- Tables (tables.c) -----------------------------------------------------------------------*/

/*
 * Tables of the state: exception -> value; value -> its hold, weak keys; error -> its error object,
 * weak values; objects that have holds, weak keys; GC canaries, weak values.
 */
enum {
    SS_LUA_PINS = 1,
    SS_LUA_TIED,
    SS_LUA_ERRORS,
    SS_LUA_HOLDERS,
    SS_LUA_GC_CANARIES,
    SS_LUA_INTERRUPT, /* no table: the error object to raise again, or nil */
    SS_LUA_TABLES = SS_LUA_INTERRUPT
};

/* Push one. [-0, +1, -], 2 slots */
void ss_lua_push_table(lua_State *L, int which);

/* Replace one by what is at the top. [-1, +0, -] */
void ss_lua_set_table(lua_State *L, int which);

/* Push an empty table with that mode. [-0, +1, m] */
void ss_lua_push_weak_table(lua_State *L, const char *mode);

/* Use the user values of the object at the top, which stands for the state, as its tables.  The
   state is then open for this copy.  Pops it. [-1, +0, m] */
void ss_lua_keep_tables(lua_State *L);

/* Push that object, the first upvalue of the module's functions. [-0, +1, -] */
void ss_lua_push_holder_of_state(lua_State *L);

/* Push the metatable NAME; makes it from FUNCTIONS if it is new. [-0, +1, m] */
void ss_lua_push_metatable(lua_State *L, const char *name, const luaL_Reg *functions);

/* The block of the userdata at INDEX, or NULL if FINALIZER is not the finalizer of its metatable: by
   the library debug a script gets hold of our functions and upvalues, and exchanges their values.
   [-0, +0, m], 2 slots */
void *ss_lua_own_block(lua_State *L, int index, lua_CFunction finalizer);
/* The same for the argument of FINALIZER, which refuses all others. [-0, +0, v] */
void *ss_lua_check_own(lua_State *L, lua_CFunction finalizer);

/* package.loaded as our copy of the binding found it, or nil. [-0, +1, -] */
void ss_lua_push_loaded(lua_State *L);

#endif
