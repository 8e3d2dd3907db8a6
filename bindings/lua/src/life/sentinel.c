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
 * A userdata whose finalizer runs soon after the sentinel is gone (the waker) plants the next one;
 * where no capture came for long, it stops.  Until then, and if Lua lost the finalizer, the
 * sentinel is missing.  Captures may not plant, so a capture that misses it asks our next function
 * to do it.
 */
#include "life/hold.h"

static const char sentinels_key;

enum { CANARY = 1, SENTINEL = 2 };

/* So many sentinels in a row are planted for captures that do not come. */
enum { UNUSED_SENTINELS = 64 };

/* Below so many levels a stack may be about to overflow, and a waker that waited for the next
   collection would cost the program its message handler: Lua 5.4.9 calls none when a finalizer is
   due right at the overflow. */
enum { DEEP = 1000 };

/* Ask our next function to tend the state. */
static void want_tending(ss_lua_state *state)
{
    if (state->wants_tending)
        return;
    state->wants_tending = true;
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

/* The table is at the top. [-0, +0, m], 2 slots */
static void make_waker(lua_State *L, ss_lua_state *state)
{
    ss_lua_state **waker = lua_newuserdatauv(L, sizeof *waker, 0);

    *waker = state;
    (void)lua_getmetatable(L, -2);
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
}

/* Plant unless a sentinel lives. [-0, +0, m], 4 slots */
static void plant(lua_State *L, ss_lua_state *state)
{
    bool table, lives = push_sentinel(L, &table), planted;

    lua_pop(L, 1);
    if (!table || lives) {
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
        want_tending(state);
        lua_pop(L, 2);
        return;
    }
    lua_rawseti(L, -2, SENTINEL);
    lua_pop(L, 1);
    ss_lua_the_source->planted(L, state);
}

static int plant_protected(lua_State *L)
{
    plant(L, lua_touserdata(L, 1));
    return 0;
}

/* The finalizer of a waker, perhaps one that is older than the sentinel.  It raises nothing: Lua
   5.3 would raise it wherever the collector ran. */
static int wake(lua_State *L)
{
    ss_lua_state *state = *(ss_lua_state **)ss_lua_check_own(L, wake);
    lua_Debug level;

    if (atomic_load(&state->registry) != lua_topointer(L, LUA_REGISTRYINDEX))
        return 0; /* a script has closed the record, which may be another state's by now */
    want_tending(state);
    if (state->unused_sentinels == UNUSED_SENTINELS || lua_getstack(L, DEEP, &level))
        return 0;
    state->unused_sentinels++;
    lua_pushcfunction(L, plant_protected);
    lua_pushlightuserdata(L, state);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK)
        lua_pop(L, 1);
    return 0;
}

/* The table and the wakers share one metatable; the table itself gets no finalizer. */
void ss_lua_push_new_sentinels(lua_State *L)
{
    lua_createtable(L, SENTINEL, 0);
    lua_createtable(L, 1, 2); /* the one is for what outlives collections */
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_pushvalue(L, -1);
    lua_setmetatable(L, -3);
    lua_pushcfunction(L, wake);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
}

void ss_lua_keep_sentinels(lua_State *L)
{
    lua_rawsetp(L, LUA_REGISTRYINDEX, &sentinels_key);
}

bool ss_lua_push_sentinels_metatable(lua_State *L)
{
    bool found =
        lua_rawgetp(L, LUA_REGISTRYINDEX, &sentinels_key) == LUA_TTABLE && lua_getmetatable(L, -1);

    lua_remove(L, found ? -2 : -1);
    return found;
}

bool ss_lua_sentinel_lives(lua_State *L, ss_lua_state *state)
{
    bool table, lives = push_sentinel(L, &table);

    lua_pop(L, 2);
    if (table && !lives)
        want_tending(state);
    return lives;
}

void ss_lua_plant_sentinel(lua_State *L, ss_lua_state *state)
{
    if (!state->wants_tending)
        return;
    state->wants_tending = false;
    ss_lua_sweep_holds(L, state);
    plant(L, state);
}
