/*
 * What the frame source remembers of a state: tokens by key and names of functions.  Both are found
 * by addresses, true while the sentinel of their epoch lives.
 */
#ifndef SS_LUA_CACHE_H
#define SS_LUA_CACHE_H

#include "frames/frames.h"

/*
 * A token with its key.  Everything that lua_getinfo says of a Lua function follows from the key
 * while the prototypes live, but for a name that only package.loaded has: one that has such a name
 * keeps it for its closure, one that has none for its code, and both are asked again after some
 * uses.
 */
typedef struct ss_lua_keyed_token {
    uintptr_t pc, caller_pc;
    uint32_t status, caller_status;
    uintptr_t closure;  /* 0: of any closure of the prototype */
    uint32_t uses_left; /* UINT32_MAX: any number */
    uint32_t epoch;     /* when it was asked for; 0: empty */
    uintptr_t token;
} ss_lua_keyed_token;

/*
 * The name package.loaded has for a function, or that it has none.  A function's address may be
 * used again after it died, so the epoch belongs to the key, and what the function was defined as;
 * and after some uses the tables are asked again.
 */
typedef struct ss_lua_known_name {
    const void *function;
    const char *source; /* compared, never read */
    int line_defined;
    uint32_t epoch;   /* when the tables were asked; 0: no sentinel lived */
    uint32_t capture; /* that asked them */
    unsigned uses_left;
    char name[SS_LUA_NAME_SIZE]; /* empty: none, or a longer one */
} ss_lua_known_name;

enum { SS_LUA_TOKEN_SETS = 128, SS_LUA_TOKEN_WAYS = 4, SS_LUA_KNOWN_NAMES = 64 };
enum { SS_LUA_NAME_USES = 500 };

/* Bounded: a new key takes the place of another one of its set. */
typedef struct ss_lua_cache {
    uint32_t epoch;       /* how often all in it went out of date */
    uint32_t token_epoch; /* the core's, at the last look at the sentinel */
    uint32_t captures;    /* how many looked at the state */
    uint32_t next_victim;
    ss_lua_keyed_token sets[SS_LUA_TOKEN_SETS][SS_LUA_TOKEN_WAYS];
    ss_lua_known_name names[SS_LUA_KNOWN_NAMES];
} ss_lua_cache;

static inline ss_lua_cache *ss_lua_cache_of(ss_lua_state *state)
{
    return (ss_lua_cache *)(void *)state->cache;
}

/* Whether the keys of this epoch are true.  L rests. [-0, +0, -], 2 slots */
bool ss_lua_cache_is_true(lua_State *L, ss_lua_state *state);

/* As ss_lua_frame_source has it. */
void ss_lua_cache_planted(lua_State *L, ss_lua_state *state);

/* Whether NAME, which ss_lua_global_name gave, is still the name of VALUE.  False for names that
   cannot be looked up, too. [-0, +0, m], three slots */
bool ss_lua_has_global_name(lua_State *L, const void *value, const char *name);

#endif
