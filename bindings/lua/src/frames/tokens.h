/*
 * Activations of Lua as tokens: we ask lua_getinfo once for each place in the code, and then find
 * the answer by its key.
 *
 * A state caches tokens by key.  Keys have addresses, which are valid in one epoch: while its GC canary
 * lives, or for one capture that found none; and after that, while their weak references live.
 */
#ifndef SS_LUA_TOKENS_H
#define SS_LUA_TOKENS_H

#include "calibrate/calibrate.h"
#include "frames/frames.h"

#include <string.h>

/*
 * A token with its key.  While the prototypes live, everything that lua_getinfo returns for a Lua
 * function follows from the key, except a name that only package.loaded has.  Such a name is cached
 * for its closure, and its absence for its code.  Both are looked up again after some uses.  Where the
 * weak references are gone, as those to closures that a script makes for one call, lua_getinfo is asked
 * again; if it says the same, the token is the same.
 */
typedef struct ss_lua_keyed_token {
    uintptr_t pc, caller_pc;
    uint32_t status, caller_status;
    uintptr_t closure;    /* 0: any closure of the prototype */
    uint32_t uses_left;   /* UINT32_MAX: any number */
    uint32_t epoch;       /* in which it was last known to be valid; 0: empty */
    uint32_t token_epoch; /* the core's, when the token was made */
    uint32_t number;      /* no other entry of the state has had it */
    uint64_t said;        /* a hash of what Lua said of it; 0: too long to compare */
    bool has_weak_refs;
    uintptr_t token;
} ss_lua_keyed_token;

enum { SS_LUA_TOKEN_SETS = 128, SS_LUA_TOKEN_WAYS = 4 };

/* Two for each token, the function's and the caller's. */
enum { SS_LUA_WEAK_REFS = 2 * SS_LUA_TOKEN_SETS * SS_LUA_TOKEN_WAYS };

/* Bounded: a new key replaces another one of its set. */
typedef struct ss_lua_cache {
    /* These two, the first word, outlive a reset of the record. */
    uint32_t epoch;       /* how often all of it was invalidated */
    uint32_t last_number; /* of an entry */
    uint32_t token_epoch; /* the core's, when the GC canary was last checked */
    bool captured;        /* a capture has looked at the state */
    uint32_t next_victim;
    uintptr_t tail_calls; /* the token of that gap in token_epoch; 0: not interned yet */
    ss_lua_keyed_token sets[SS_LUA_TOKEN_SETS][SS_LUA_TOKEN_WAYS];
} ss_lua_cache;

static inline ss_lua_cache *ss_lua_cache_of(const ss_lua_state *state)
{
    return (ss_lua_cache *)(uintptr_t)state->cache;
}

/* A capture begins, with L suspended: another epoch unless the GC canary lives. [-0, +0, -], 2
   slots */
void ss_lua_cache_begin(lua_State *L, ss_lua_state *state);

/* The member "planted" of ss_lua_frame_source. */
void ss_lua_cache_planted(lua_State *L, ss_lua_state *state);

/* ---- Activations ------------------------------------------------------------------------------*/

/* Slots above a stack's top that a capture may use. */
#if SS_LUA_JIT
enum { SS_LUA_USED_SLOTS = 6, SS_LUA_USED_BYTES = SS_LUA_USED_SLOTS * SS_LUA_SLOT_SIZE };
#else
enum { SS_LUA_USED_SLOTS = 6, SS_LUA_USED_BYTES = SS_LUA_USED_SLOTS * SSI_LUA_VALUE };
#endif

/* One Lua state while a capture looks at it. */
typedef struct ss_lua_interpreter {
    const void *registry;
    ss_lua_state *record; /* NULL if nothing of ours was opened in it */
    ss_lua_cache *cache;
    lua_State *rest; /* its stack may be used above its top for a moment; or NULL */
    bool cached;     /* activations have keys, and the cache may be used */
    void *used;      /* the slots above its top, where that is so; or NULL */
    /* What they had: a signal may have come while the function in C was putting a value there. */
    unsigned char before[SS_LUA_USED_BYTES];
} ss_lua_interpreter;

/* The words of an activation that form its key. */
typedef struct ss_lua_activation {
    uintptr_t ci; /* 0: none */
    uintptr_t outer;
    uintptr_t closure;
    uintptr_t pc; /* in the code of one prototype; 0 of a function in C; odd with a callee */
    uint32_t status;
    uintptr_t callee; /* the activation in C that its instruction calls by a name; 0: none */
} ss_lua_activation;

/*
 * The name by which the function of ACTIVATION was called, or NULL.  Lua has none for what has a
 * number or another value in a table, and for a hook.
 */
static inline const char *ss_lua_called_name(const lua_Debug *activation)
{
    return *activation->namewhat && activation->name && strcmp(activation->name, "?") &&
                   strcmp(activation->name, "integer index")
               ? activation->name
               : NULL;
}

static inline void ss_lua_activation_read(uintptr_t ci, ss_lua_activation *out)
{
    out->ci = ci;
    out->outer = ss_lua_previous(ci);
    out->closure = ss_lua_function_of(ci);
    out->status = ss_lua_status_of(ci);
    out->pc = ss_lua_is_in_lua(ci) ? ss_lua_pc_of(ci) : 0;
    out->callee = 0;
}

/*
 * Note that AT, just read, calls the activation CALLEE, if its instruction names that function.
 * Lua names it by that instruction.  But a message handler, a metamethod or a finalizer is called
 * from within any instruction, and is not the function that this one names.  Those stand above the
 * registers in use; the function of a call stands in its instruction's first register.  Lua 5.2 also
 * collects before the first instruction, which has none before it: then a finalizer stands above all
 * registers.
 */
static inline void ss_lua_note_callee(ss_lua_activation *at, uintptr_t callee)
{
    enum { INSTRUCTION = 4 };
    uint32_t instruction;

    if (SS_LUA_JIT || !at->pc || ss_lua_previous(callee) != at->ci ||
        ss_lua_slot_of(callee) >= ss_lua_registers_end_of(at->ci))
        return;
    instruction = *(const uint32_t *)(at->pc - INSTRUCTION);
    if (ss_lua_slot_of(callee) !=
        ss_lua_registers_of(at->ci) + SSI_LUA_VALUE * (instruction >> SS_LUA_AT_REGISTER & 0xff))
        return;
    at->callee = callee;
    at->pc |= 1; /* its token has the name, too */
}

static inline bool ss_lua_key_matches(const ss_lua_keyed_token *entry, const ss_lua_activation *at,
                                      const ss_lua_activation *caller)
{
    return entry->pc == at->pc && entry->caller_pc == caller->pc && entry->status == at->status &&
           entry->caller_status == caller->status &&
           (!entry->closure || entry->closure == at->closure);
}

/* The set of the key. */
static inline ss_lua_keyed_token *ss_lua_key_set(const ss_lua_interpreter *interpreter,
                                                 const ss_lua_activation *at,
                                                 const ss_lua_activation *caller)
{
    uint64_t hash = (at->pc ^ caller->pc << 17) * UINT64_C(0x9e3779b97f4a7c15);

    return interpreter->cache->sets[hash >> 57];
}

/* Whether ENTRY, made in another epoch, is still valid as its weak references live; in this epoch
   nobody needs to ask again. */
bool ss_lua_renew(const ss_lua_interpreter *interpreter, ss_lua_keyed_token *entry);

/* Whether the token of ENTRY is right: in this epoch, or by its weak references. */
static inline bool ss_lua_entry_holds(const ss_lua_interpreter *interpreter,
                                      ss_lua_keyed_token *entry)
{
    return entry->uses_left > 0 &&
           (entry->epoch == interpreter->cache->epoch || ss_lua_renew(interpreter, entry));
}

/*
 * Whether AT and CALLER have a key: a function in C has no code that distinguishes its calls, and in
 * LuaJIT a function in Lua has none either below a hook or a finalizer, which does not say where that goes on.
 */
static inline bool ss_lua_has_key(const ss_lua_interpreter *interpreter,
                                  const ss_lua_activation *at, const ss_lua_activation *caller)
{
    return interpreter->cached && at->pc &&
           (!SS_LUA_JIT || caller->pc || !caller->ci || !ss_lua_is_in_lua(caller->ci));
}

/* Make the token of AT, an activation of L that CALLER called, by asking Lua: the table has no key
   for it, or the key is used up. */
uintptr_t ss_lua_new_token(ss_lua_interpreter *interpreter, lua_State *L,
                           const ss_lua_activation *at, const ss_lua_activation *caller);

/* The same, by its key if possible. */
static inline uintptr_t ss_lua_token(ss_lua_interpreter *interpreter, lua_State *L,
                                     const ss_lua_activation *at, const ss_lua_activation *caller)
{
    if (ss_lua_has_key(interpreter, at, caller)) {
        ss_lua_keyed_token *set = ss_lua_key_set(interpreter, at, caller);

        for (uint32_t i = 0; i < SS_LUA_TOKEN_WAYS; i++)
            if (ss_lua_key_matches(&set[i], at, caller) &&
                ss_lua_entry_holds(interpreter, &set[i])) {
                set[i].uses_left -= set[i].uses_left != UINT32_MAX;
                return set[i].token;
            }
    }
    return ss_lua_new_token(interpreter, L, at, caller);
}

/* The token of the activation CI of L, by asking Lua. */
uintptr_t ss_lua_asked_token(ss_lua_interpreter *interpreter, lua_State *L, uintptr_t ci,
                             stacksplice_trust trust);

/* The token of the activation CI of L, even if L belongs to a state that we have not opened. */
uintptr_t ss_lua_activation_token(lua_State *L, uintptr_t ci, stacksplice_trust trust);

/* Write the name by which scripts find the function of a C activation, or return false. */
bool ss_lua_c_function_name(const ss_lua_interpreter *interpreter, lua_State *L, uintptr_t ci,
                            char name[SS_LUA_NAME_SIZE]);

/* ---- Weak references --------------------------------------------------------------------------*/

/*
 * Weak references to functions, in the places of a weak table.  While one is in its place, that
 * function has lived since it was put there, and so has its code.  What is known by an address in
 * this code then outlives collections.
 */

/* Whether L, suspended in C, is known to have room for SLOTS above its top. [-0, +0, -] */
bool ss_lua_has_room(lua_State *L, int slots);

#endif
