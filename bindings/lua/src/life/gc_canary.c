/*
 * Whether any prototype can have died.  The keys of frames/cache.c are addresses, valid only until
 * a collection frees what they point to.
 *
 * A GC canary is an object that only a weak table refers to.  Every collection clears it from that
 * table in its atomic step, before it frees anything.  While the GC canary is there, nothing that
 * was alive when it was planted, or since, has been freed.  So a key that was seen on a stack after
 * the planting is valid.  (What such a collection frees was dead in its atomic step; objects made
 * or seen later were not.)
 *
 * That holds only for a GC canary that no collection has reached yet.  If it was on a stack while
 * the collector marked, it would outlive the atomic step, and in generational mode an old one
 * outlives many. lua_newthread lets the collector work before it makes its object, not after, so
 * the GC canary is a coroutine that never runs.  Making it can still start an emergency collection,
 * when the allocator fails.  Another coroutine that is planted before would be gone then, and we
 * give up the planting until the next time.
 *
 * Captures may not plant, so a capture that misses the GC canary asks our next function to do it.
 */
#include "life/hold.h"

enum { EARLIER = 1, GC_CANARY = 2 };

/* Ask our next function to tend the state. */
static void want_tending(ss_lua_state *state)
{
    if (state->wants_tending)
        return;
    state->wants_tending = true;
    ss_lua_forget_known();
}

/* Push the table and what it has in the canary's place; returns whether that is a GC canary. [-0,
   +2, -] */
static bool push_gc_canary(lua_State *L, bool *table)
{
    ss_lua_push_table(L, SS_LUA_GC_CANARIES);
    *table = lua_istable(L, -1);
    if (*table)
        return lua_rawgeti(L, -1, GC_CANARY) == LUA_TTHREAD;
    lua_pushnil(L);
    return false;
}

/* Plant unless a GC canary lives. [-0, +0, m], 4 slots */
static void plant(lua_State *L, ss_lua_state *state)
{
    bool table, lives = push_gc_canary(L, &table), planted;

    lua_pop(L, 1);
    if (!table || lives) {
        lua_pop(L, 1);
        return;
    }
    (void)lua_newthread(L);
    lua_rawseti(L, -2, EARLIER);
    (void)lua_newthread(L);
    planted = lua_rawgeti(L, -2, EARLIER) == LUA_TTHREAD;
    lua_pop(L, 1);
    if (!planted) {
        want_tending(state);
        lua_pop(L, 2);
        return;
    }
    lua_rawseti(L, -2, GC_CANARY);
    lua_pop(L, 1);
    ss_lua_the_source->planted(L, state);
}

void ss_lua_push_new_gc_canaries(lua_State *L)
{
    lua_createtable(L, GC_CANARY, 0);
    lua_createtable(L, 1, 1); /* the first is for what outlives collections */
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
}

bool ss_lua_push_gc_canaries_metatable(lua_State *L)
{
    bool found;

    ss_lua_push_table(L, SS_LUA_GC_CANARIES);
    found = lua_istable(L, -1) && lua_getmetatable(L, -1);
    lua_remove(L, found ? -2 : -1);
    return found;
}

bool ss_lua_gc_canary_lives(lua_State *L, ss_lua_state *state)
{
    bool table, lives = push_gc_canary(L, &table);

    lua_pop(L, 2);
    if (table && !lives)
        want_tending(state);
    return lives;
}

void ss_lua_plant_gc_canary(lua_State *L, ss_lua_state *state)
{
    if (!state->wants_tending)
        return;
    state->wants_tending = false;
    ss_lua_sweep_holds(L, state);
    plant(L, state);
}
