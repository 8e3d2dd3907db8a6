/*
 * Whether any prototype can have died: the keys of activation.c are addresses, true only until a
 * collection frees what they point to.
 *
 * A sentinel, an object that only a weak table refers to, is cleared from that table in the atomic
 * step of every collection, before anything is freed.  While it is there, nothing that was alive
 * when it was planted or since has been freed, so a key that was seen on a stack after the planting
 * is true.  (What such a collection frees was dead in its atomic step; objects made or seen later
 * were not.)
 *
 * That holds only for a sentinel that no collection has reached yet: one that was on a stack while
 * the collector marked would outlive its atomic step, and in generational mode an old one outlives
 * many.  lua_newthread is the API function that lets the collector work before it makes its object,
 * not after, so the sentinel is a coroutine that never runs.  Making it can still start an
 * emergency collection, when the allocator fails: another coroutine that is planted before would be
 * gone then, and the planting is given up until the next time.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

static const char sentinels_key;

enum { CANARY = 1, SENTINEL = 2 };

void ss_lua_push_new_sentinels(lua_State *L)
{
    lua_createtable(L, SENTINEL, 0);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
}

void ss_lua_keep_sentinels(lua_State *L)
{
    lua_rawsetp(L, LUA_REGISTRYINDEX, &sentinels_key);
}

bool ss_lua_sentinel_lives(lua_State *L, ss_lua_state *state)
{
    bool table = lua_rawgetp(L, LUA_REGISTRYINDEX, &sentinels_key) == LUA_TTABLE;
    bool lives = table && lua_rawgeti(L, -1, SENTINEL) == LUA_TTHREAD;

    lua_pop(L, table ? 2 : 1);
    if (table && !lives && !state->wants_sentinel) {
        state->wants_sentinel = true;
        ss_lua_forget_known();
    }
    return lives && state->tokens;
}

void ss_lua_plant_sentinel(lua_State *L, ss_lua_state *state)
{
    if (!state->wants_sentinel)
        return;
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &sentinels_key) != LUA_TTABLE) {
        lua_pop(L, 1);
        return;
    }
    if (!state->tokens)
        state->tokens = malloc(ss_lua_token_table_size());
    if (state->tokens)
        memset(state->tokens, 0, ss_lua_token_table_size());
    state->epoch++;
    (void)lua_newthread(L);
    lua_rawseti(L, -2, CANARY);
    (void)lua_newthread(L);
    if (lua_rawgeti(L, -2, CANARY) == LUA_TTHREAD) {
        state->wants_sentinel = false;
        lua_pop(L, 1);
        lua_rawseti(L, -2, SENTINEL);
        lua_pop(L, 1);
    } else {
        lua_pop(L, 3);
    }
}
