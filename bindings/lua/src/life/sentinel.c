/*
 * Whether any prototype can have died.  The keys of frames/cache.c are addresses, valid only until
 * a collection frees what they point to.
 *
 * A sentinel is an object that only a weak table refers to.  Every collection clears it from that
 * table in its atomic step, before it frees anything.  While the sentinel is there, nothing that
 * was alive when it was planted, or since, has been freed.  So a key that was seen on a stack after
 * the planting is valid.  (What such a collection frees was dead in its atomic step; objects made
 * or seen later were not.)
 *
 * That holds only for a sentinel that no collection has reached yet.  If it was on a stack while
 * the collector marked, it would outlive the atomic step, and in generational mode an old one
 * outlives many. lua_newthread lets the collector work before it makes its object, not after, so
 * the sentinel is a coroutine that never runs.  Making it can still start an emergency collection,
 * when the allocator fails.  Another coroutine that is planted before would be gone then, and we
 * give up the planting until the next time.
 *
 * Captures may not plant, so a capture that misses the sentinel asks our next function to do it.
 * By then a program may be deep in calls that capture again and again.  So a userdata whose
 * finalizer runs soon after the sentinel is gone (the waker) asks for it too, but only if a capture
 * made use of that sentinel.
 */
#include "life/hold.h"

static const char sentinels_key;

enum { CANARY = 1, SENTINEL = 2 };

/* Ask our next function to plant. */
static void want(ss_lua_state *state)
{
    if (state->wants_sentinel)
        return;
    state->wants_sentinel = true;
    ss_lua_forget_known();
}

/* Push the table and what it has in the sentinel's place; returns whether that is a sentinel. [-0,
   +2, -] */
static bool push_sentinel(lua_State *L, bool *table)
{
    *table = lua_rawgetp(L, LUA_REGISTRYINDEX, &sentinels_key) == LUA_TTABLE;
    if (*table)
        return lua_rawgeti(L, -1, SENTINEL) == LUA_TTHREAD;
    lua_pushnil(L);
    return false;
}

/* The finalizer of a waker, perhaps one that is older than the sentinel. */
static int wake(lua_State *L)
{
    ss_lua_state *state = *(ss_lua_state **)lua_touserdata(L, 1);
    bool table;

    if (!push_sentinel(L, &table) && table && state->used_sentinel)
        want(state);
    return 0;
}

/* The table and the wakers share one metatable; the table itself gets no finalizer. */
void ss_lua_push_new_sentinels(lua_State *L)
{
    lua_createtable(L, SENTINEL, 0);
    lua_createtable(L, 0, 2);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_pushvalue(L, -1);
    lua_setmetatable(L, -3);
    lua_pushcfunction(L, wake);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
}

/* The table is at the top. [-0, +0, m], 2 slots */
static void make_waker(lua_State *L, ss_lua_state *state)
{
    ss_lua_state **waker = lua_newuserdatauv(L, sizeof *waker, 0);

    *waker = state;
    (void)lua_getmetatable(L, -2);
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
}

void ss_lua_keep_sentinels(lua_State *L)
{
    lua_rawsetp(L, LUA_REGISTRYINDEX, &sentinels_key);
}

bool ss_lua_sentinel_lives(lua_State *L, ss_lua_state *state)
{
    bool table, lives = push_sentinel(L, &table);

    lua_pop(L, 2);
    if (table && !lives)
        want(state);
    return lives;
}

void ss_lua_plant_sentinel(lua_State *L, ss_lua_state *state)
{
    bool planted;

    if (!state->wants_sentinel)
        return;
    ss_lua_sweep_holds(L, state);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &sentinels_key) != LUA_TTABLE) {
        lua_pop(L, 1);
        return;
    }
    make_waker(L, state);
    (void)lua_newthread(L);
    lua_rawseti(L, -2, CANARY);
    (void)lua_newthread(L);
    planted = lua_rawgeti(L, -2, CANARY) == LUA_TTHREAD;
    lua_pop(L, 1);
    if (!planted) {
        lua_pop(L, 2);
        return;
    }
    state->wants_sentinel = state->used_sentinel = false;
    lua_rawseti(L, -2, SENTINEL);
    lua_pop(L, 1);
    ss_lua_the_source->planted(L, state);
}
