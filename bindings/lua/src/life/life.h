/*
 * The record of one Lua state (a main thread and all its coroutines), and what objects of Lua keep
 * of ours.  Marks in brackets are those of the Lua manual.
 */
#ifndef SS_LUA_LIFE_H
#define SS_LUA_LIFE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lua.h>
#include <lauxlib.h>

#include <stacksplice/lua.h>
#include <stacksplice/script.h>

#include "version/compat.h"
#include "shared/lua_chunks.h"

/* Separates a function of ours, which must not be inlined, from its callers (frames.h). */
#define SS_LUA_HERE() __builtin_frame_address(0)
#define SS_LUA_NOINLINE __attribute__((noinline))

/*
 * Marks each lua_CFunction that scripts or hosts know: stacks do not show its activations.  The
 * linker puts all of a copy into one section.
 */
#define SS_LUA_OWN __attribute__((noinline, section("ss_lua_own")))

/* The bodies of protected calls of ours, which run inside of those. */
#define SS_LUA_BODY __attribute__((noinline, section("ss_lua_body")))

/* What a function of ours calls whose activation ends before it returns: its frame, and that of its caller,
   stand for none. */
#define SS_LUA_LEFT __attribute__((noinline, section("ss_lua_left")))

/* ---- What all copies share -------------------------------------------------------------------*/

/*
 * All copies of the binding that call one copy of Lua share this.  A program may have the static
 * library, the module, and C modules that contain the static library.  They share the data of the
 * copy whose frame source is registered.
 */

typedef struct ss_lua_state ss_lua_state;

/* The code of a copy's own functions, of its protected bodies, and of what outlives its activation: from
   START up to END. */
enum { SS_LUA_CODE_OWN, SS_LUA_CODE_BODY, SS_LUA_CODE_LEFT, SS_LUA_CODE_PARTS };
typedef struct ss_lua_code {
    struct {
        const char *start, *end;
    } parts[SS_LUA_CODE_PARTS];
} ss_lua_code;

enum { SS_LUA_COPIES = 16, SS_LUA_KNOWN_THREADS = 64 };
typedef struct ss_lua_shared {
    uint32_t size;
    _Atomic(ss_lua_state *) states;
    pthread_mutex_t lock;                            /* for writers to the list, and to learn */
    atomic_uint interrupted_states;                  /* that a successful call checks */
    _Atomic(const ss_lua_code *) own[SS_LUA_COPIES]; /* each copy's */
    /* Coroutines by address whose state is open and has nothing to do: calls need to check no
       more. */
    _Atomic(lua_State *) known[SS_LUA_KNOWN_THREADS];
    atomic_bool shows_locals; /* errors of all states keep local variables */
    /* While a copy learns, with the lock, captures show it their walk.  True: it was for that. */
    bool (*_Atomic look)(stacksplice_walk *walk);
    void **(*log)(void); /* of ss_lua_frame_source */
} ss_lua_shared;

/* Hidden, so that code reads it without the table of global offsets. */
extern __attribute__((visibility("hidden"))) ss_lua_shared *ss_lua_the_shared;

/* Whether FUNCTION is an own function, of any copy. */
bool ss_lua_is_own_function(uintptr_t function);
bool ss_lua_is_own_body(uintptr_t function);
bool ss_lua_has_left(uintptr_t function);

/* The place in the table of known coroutines that L has. */
static inline _Atomic(lua_State *) *ss_lua_known_place(lua_State *L)
{
    return &ss_lua_the_shared->known[((uintptr_t)L >> 4) % SS_LUA_KNOWN_THREADS];
}

/* ---- The frame source ------------------------------------------------------------------------*/

/* What the frame source of this copy provides; static. */
typedef struct ss_lua_frame_source {
    void (*collect)(stacksplice_walk *walk, void *data);
    uint8_t (*classify)(uintptr_t ip, uintptr_t function, void *data);
    void (*prepare)(void); /* learn what captures need: the first may be in a signal handler */
    size_t cache_size;     /* of its cache for each state, zeroed at first */
    /* Where captures of this thread find the log that they are to fill, or NULL. */
    void **(*log)(void);
    /* A new GC canary: no function of STATE has died since, or will before it is gone. [-0, +0,
       m] */
    void (*planted)(lua_State *L, ss_lua_state *state);
} ss_lua_frame_source;

/* Set before any state is opened: when this copy is loaded. */
extern const ss_lua_frame_source *ss_lua_the_source;

/* Register it; idempotent. */
void ss_lua_source_register(void);

/* ---- The record ------------------------------------------------------------------------------*/

typedef struct ss_lua_hold ss_lua_hold;

/*
 * A value without identity equals those of other errors, so the state keeps which error travels on
 * which way.  All TIES here are held from outside, so that their values live.
 */

/* The function that raises an error, for a handler that runs inside that call. */
typedef struct ss_lua_raising {
    uintptr_t mark; /* its number; 0: none */
    lua_State *L;   /* NULL: no function yet */
    ss_lua_ci ci;
    const void *function;
    int slot; /* of the mark in that activation; 0: the function raises by itself */
    stacksplice_ties ties;
} ss_lua_raising;

/* The activation to which coroutine.resume returned an error. */
typedef struct ss_lua_resumed {
    lua_State *L; /* NULL: none */
    ss_lua_ci ci;
    const void *function, *pc;
    int results;        /* the register of the first result, as lua_getlocal counts */
    bool is_one_of_two; /* another call in that activation has got an equal one before */
    stacksplice_ties ties;
} ss_lua_resumed;

/* What an installed pcall caught: the activation that got it, and what ended on the way there. */
enum { SS_LUA_CAUGHT = 8, SS_LUA_CAUGHT_FRAMES = 64 };
typedef struct ss_lua_caught {
    uint64_t number; /* a newer one has a higher number; 0: none */
    lua_State *L;
    ss_lua_ci call; /* of pcall, which has not returned it yet; 0: it has */
    ss_lua_ci ci;
    uintptr_t pc; /* where that activation went on */
    int result;   /* the register of the error, counted from 0 */
    size_t tail;  /* of its text: how much a traceback takes that a handler has put behind it */
    uint32_t count;
    uintptr_t frames[SS_LUA_CAUGHT_FRAMES];
    stacksplice_ties ties; /* of an error that had its whole stack before; else empty */
} ss_lua_caught;

/* A protected call: where on its coroutine's stack its handler is, in LuaJIT its function, and the function
   that made the call, only to compare; 0: C below all functions. */
typedef struct ss_lua_call_place {
    uintptr_t at; /* 0: unknown */
    uintptr_t caller;
} ss_lua_call_place;

/* An error that a message handler saw on its way to the call that fails with it. */
typedef struct ss_lua_flight {
    lua_State *L;
    ss_lua_call_place call;
    stacksplice_ties ties;
} ss_lua_flight;

/* More than one is on its way only where clean-up code fails that another error runs. */
enum { SS_LUA_AT_ONCE = 8 };

/* A hook that an interrupt displaced. */
typedef struct ss_lua_displaced {
    lua_State *L;
    lua_Hook hook;
    int mask, count;
} ss_lua_displaced;

/* The method __close that an interrupt runs on its way. */
typedef struct ss_lua_closing {
    lua_State *L;
    ss_lua_ci ci; /* 0: none */
} ss_lua_closing;

/* What a bridge adds to a state for the deadlines of its program. */
typedef struct ss_lua_outside {
    /* Push the error that ends the work of that NUMBER, made by the program, AGAIN or for the first
       time; false if that work is over, or not what the thread does.  NULL: no bridge.
       [-0, +(0|1), m], in a hook */
    bool (*push)(lua_State *L, uint64_t number, bool again);
    /* A pcall of ours (cross/caught.c) catches the guest at index 1, which the function at LEVEL raises: its
       stack outside of ABOVE still lives. [-0, +0, -], a slot */
    void (*caught)(void *data, lua_State *L, int level, const void *above);
    /* The error of the guest at INDEX, with a reference, if TEXT has its text; else NULL. [-0, +0, -] */
    IUnknown *(*find_in)(void *data, lua_State *L, int index, const char *text, size_t length,
                         const void *above);
    void *data;            /* of these two; NULL: they are not called */
    lua_CFunction handler; /* the message handler that interrupts are told to; or NULL */
    uint64_t number;       /* of the work that was late last */
    ss_lua_displaced hooked;
    bool raised; /* the state is interrupted because of it */
} ss_lua_outside;

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
    const void *holder;        /* the object that stands for the record, and closes it; or NULL */
    stacksplice_ties last;     /* of an error value without identity; an outside reference, too */
    const ss_lua_texts *texts; /* of chunks that the program compiled; or NULL */
    bool shows_locals;         /* errors keep the local variables of their frames */
    ss_lua_raising raising[SS_LUA_AT_ONCE];
    ss_lua_resumed resumed;
    ss_lua_flight flights[SS_LUA_AT_ONCE]; /* the newest last */
    ss_lua_caught caught[SS_LUA_CAUGHT];
    uint64_t caught_number; /* of the newest one */
    uint32_t caught_places; /* a bit for each of these that has one */
    uint32_t flight_count;
    uintptr_t marks; /* how many raises were marked */
    int handling;    /* > 0 while a message handler of ours runs */
    int metamethods; /* of error values that run for us, one in the other */
    bool interrupted;
    bool
        insists; /* the interrupt spares no clean-up, and nothing but its deadline's end clears it */
    lua_Hook interrupt_hook;   /* of the copy of the binding that marked the state */
    lua_State *interrupt_base; /* the outermost coroutine that was interrupted */
    ss_lua_closing closing;
    lua_State *capturing; /* suspended, with room, in a function of ours that captures; or NULL */
    atomic_uintptr_t capturing_above; /* an address on the capturing thread's stack; or 0 */
    bool wants_tending;               /* a collection has passed */
    bool prepared;                    /* what captures need was asked for */
    void *deadlines;                  /* calls that have one, the innermost first */
    ss_lua_outside outside;
    ss_lua_hold *holds;      /* of the state's objects */
    ss_lua_hold *kept_holds; /* empty holds: Lua forgot their objects when it closed */
    uint32_t sweeps;
    uint32_t displaced_count;
    ss_lua_displaced displaced[SS_LUA_DISPLACED];
    uintptr_t cache[]; /* the frame source's cache */
};

/* The record of L's state, made when there is none; what captures need of this Lua is known then. [-0, +0, m] */
ss_lua_state *ss_lua_state_open(lua_State *L);

/* The record.  What captures need takes milliseconds to learn, so that is left to the first capture, or to the
   first function of ours that opens the state, unless captures may come in signal handlers. [-0, +0, m] */
ss_lua_state *ss_lua_state_open_early(lua_State *L);

/* L runs a function of ours: if it is the main coroutine, which Lua 5.1 does not tell elsewhere, the record
   learns that. [-0, +0, -], 1 slot */
void ss_lua_state_learn_main(lua_State *L, ss_lua_state *state);

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

/* ---- GC canaries -----------------------------------------------------------------------------*/

/* Push the metatable of that table, which keeps what stands at its index 1 for all copies; pushes
   nothing and returns false in a state that this copy did not open. [-0, +(0|1), -], 2 slots */
bool ss_lua_push_gc_canaries_metatable(lua_State *L);

/* Whether no collection ran since it was planted.  If one did, the next call plants a new one.
   [-0, +0, -], 2 slots */
bool ss_lua_gc_canary_lives(lua_State *L, ss_lua_state *state);

/* After a collection: sweep the holds of STATE, and plant a GC canary unless one lives. [-0, +0,
   m], 4 slots */
void ss_lua_plant_gc_canary(lua_State *L, ss_lua_state *state);

/* ---- Tables ----------------------------------------------------------------------------------*/

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

/* Push that object, the first upvalue of the module's functions. [-0, +1, -] */
void ss_lua_push_holder_of_state(lua_State *L);

/* The block of the userdata at INDEX, or NULL if FINALIZER is not the finalizer of its metatable: by
   the library debug a script gets hold of our functions and upvalues, and exchanges their values.
   [-0, +0, m], 2 slots */
void *ss_lua_own_block(lua_State *L, int index, lua_CFunction finalizer);
/* The same for the argument of FINALIZER, which refuses all others. [-0, +0, v] */
void *ss_lua_check_own(lua_State *L, lua_CFunction finalizer);

/* package.loaded as our copy of the binding found it, or nil. [-0, +1, -] */
void ss_lua_push_loaded(lua_State *L);

/* ---- Holds -----------------------------------------------------------------------------------*/

struct ss_lua_hold {
    ss_lua_hold *next, **link; /* LINK: the pointer to it; NULL once its state closed */
    uint32_t sweep;            /* the last one that found its object */
    stacksplice_ties ties;     /* of a value or an error object */
    IUnknown *outside;         /* of a holder: a COM reference */
    bool cause_asked;          /* of a value: its cause was already looked up */
};

/* The hold that contains TIES; not for the ties of the state's last value. */
static inline ss_lua_hold *ss_lua_hold_of(stacksplice_ties *ties)
{
    return (ss_lua_hold *)(void *)((char *)ties - offsetof(ss_lua_hold, ties));
}

typedef struct ss_lua_hold_kind {
    const char *name; /* of the metatable */
    const luaL_Reg *functions;
    int user_values;
} ss_lua_hold_kind;

/* Push an object, a pointer to its hold, which is empty.  Its finalizer is ss_lua_collect_hold.
   [-0, +1, m], 4 slots */
ss_lua_hold *ss_lua_push_hold(lua_State *L, ss_lua_state *state, const ss_lua_hold_kind *kind);

/* Release what the object's hold has, and the hold; does nothing the second time. */
int ss_lua_collect_hold(lua_State *L);

/* Hold TIES in PLACE, from outside too, instead of what it has. */
void ss_lua_keep(stacksplice_ties *place, const stacksplice_ties *ties);
/* Let go what PLACE of STATE has; the other places of that error learn its error object. */
void ss_lua_let_go(ss_lua_state *state, stacksplice_ties *place);
/* Forget the error with that NUMBER of those in flight. */
void ss_lua_forget_flight(ss_lua_state *state, uint32_t number);

/* Forget an error that pcall caught. */
void ss_lua_forget_caught(ss_lua_state *state, ss_lua_caught *caught);

/* Push an object that owns the COM reference put into its hold, even if something raises. [-0, +1,
   m] */
IUnknown **ss_lua_push_holder(lua_State *L);

/* The same with the holder that was dropped last; pushes nothing and returns NULL if it is in use.
   [-0, +(0|1), -], 2 slots */
IUnknown **ss_lua_push_spare_holder(lua_State *L);

/* Release what the holder at INDEX has and remove it from the stack. [-1, +0, -], 1 slot */
void ss_lua_drop_holder(lua_State *L, int index);

#endif
