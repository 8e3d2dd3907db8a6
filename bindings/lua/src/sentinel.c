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

/*
 * Names that were found under an earlier sentinel and are still right are known under this one: the
 * functions are alive now, since package.loaded has them.  [-0, +0, m], 4 slots
 */
static void confirm_names(lua_State *L, ss_lua_state *state)
{
    for (uint32_t i = 0; i < SS_LUA_KNOWN_NAMES; i++) {
        ss_lua_known_name *known = &state->names[i];

        if (!known->name[0] || !ss_lua_has_global_name(L, known->function, known->name))
            continue;
        known->epoch = state->epoch;
        known->uses_left = SS_LUA_NAME_USES;
    }
}

/* Whether there is a table of tokens and all in it is out of date. */
static bool renew_tokens(ss_lua_state *state)
{
    state->epoch++;
    if (state->tokens && state->epoch != 0)
        return true;
    if (!state->tokens)
        state->tokens = malloc(ss_lua_token_table_size());
    if (!state->tokens)
        return false;
    memset(state->tokens, 0, ss_lua_token_table_size());
    state->epoch += state->epoch == 0; /* 0 is that of what is empty */
    return true;
}

void ss_lua_plant_sentinel(lua_State *L, ss_lua_state *state)
{
    bool planted;

    if (!state->wants_sentinel)
        return;
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &sentinels_key) != LUA_TTABLE || !renew_tokens(state)) {
        lua_pop(L, 1);
        return;
    }
    (void)lua_newthread(L);
    lua_rawseti(L, -2, CANARY);
    (void)lua_newthread(L);
    planted = lua_rawgeti(L, -2, CANARY) == LUA_TTHREAD;
    lua_pop(L, 1);
    if (!planted) {
        lua_pop(L, 2);
        return;
    }
    state->wants_sentinel = false;
    lua_rawseti(L, -2, SENTINEL);
    lua_pop(L, 1);
    confirm_names(L, state);
}
