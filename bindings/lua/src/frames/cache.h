/*
 * What the frame source caches for a state: tokens by key, and names of functions.  Both use
 * addresses as keys.  These are valid in one epoch: while its GC canary lives, or for one capture
 * that found none.  Those of tokens are valid after that, too, while their weak references live.
 */
#ifndef SS_LUA_CACHE_H
#define SS_LUA_CACHE_H

#include "frames/frames.h"
#include "frames/weak_ref.h"

/*
 * A token with its key.  While the prototypes live, everything that lua_getinfo returns for a Lua
 * function follows from the key, except a name that only package.loaded has.  Such a name is cached
 * for its closure, and its absence for its code.  Both are looked up again after some uses.
 */
typedef struct ss_lua_keyed_token {
    uintptr_t pc, caller_pc;
    uint32_t status, caller_status;
    uintptr_t closure;    /* 0: any closure of the prototype */
    uint32_t uses_left;   /* UINT32_MAX: any number */
    uint32_t epoch;       /* in which it was last known to be valid; 0: empty */
    uint32_t token_epoch; /* the core's, when the token was made */
    uint32_t number;      /* no other entry of the state has had it */
    bool has_weak_refs;
    uintptr_t token;
} ss_lua_keyed_token;

/* The name that package.loaded has for a function.  After some uses the tables are searched
   again. */
typedef struct ss_lua_known_name {
    const void *function;
    uint32_t epoch;
    unsigned uses_left;
    char name[SS_LUA_NAME_SIZE]; /* empty: none, or a longer one */
} ss_lua_known_name;

enum { SS_LUA_TOKEN_SETS = 128, SS_LUA_TOKEN_WAYS = 4, SS_LUA_KNOWN_NAMES = 64 };
enum { SS_LUA_NAME_USES = 500 };

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
    ss_lua_activation_log *log; /* of the capture that runs, or NULL */
    ss_lua_keyed_token sets[SS_LUA_TOKEN_SETS][SS_LUA_TOKEN_WAYS];
    ss_lua_known_name names[SS_LUA_KNOWN_NAMES];
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

#endif
