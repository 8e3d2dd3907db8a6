#include "frames/cache.h"

#include <string.h>

/* Invalidate all that was kept. */
static void begin_epoch(ss_lua_cache *cache)
{
    cache->epoch++;
    if (cache->epoch)
        return;
    cache->epoch = 1; /* 0 is the epoch of empty entries */
    memset(cache->sets, 0, sizeof cache->sets);
    memset(cache->names, 0, sizeof cache->names);
}

void ss_lua_cache_begin(lua_State *L, ss_lua_state *state)
{
    ss_lua_cache *cache = ss_lua_cache_of(state);
    uint32_t epoch = stacksplice_token_epoch();

    if (!ss_lua_gc_canary_lives(L, state) || cache->token_epoch != epoch)
        begin_epoch(cache);
    cache->token_epoch = epoch;
}

/* The table of weak references is made once a capture has shown that the state needs it. */
void ss_lua_cache_planted(lua_State *L, ss_lua_state *state)
{
    ss_lua_cache *cache = ss_lua_cache_of(state);

    begin_epoch(cache);
    if (cache->captured)
        ss_lua_make_weak_refs(L, SS_LUA_WEAK_REFS);
}
