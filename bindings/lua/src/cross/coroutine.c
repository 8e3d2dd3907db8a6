/*
 * stacksplice.wrap and stacksplice.resume: coroutine.wrap and coroutine.resume that keep the frames
 * of a coroutine that fails.  Lua itself closes such a coroutine, or returns only the error value,
 * before a message handler outside could look at the frames.
 *
 * We capture the frames where the coroutine is left: its own activations, which still exist, a gap
 * (the native frames of C functions are gone), and the live stack from here outward.
 */
#include "cross/cross.h"

/* The arguments of the protected parts. */
typedef struct failure {
    lua_State *co;
    const void *above;
    bool same; /* the value was raised by one of these functions inside the coroutine */
} failure;

static bool has_failed(lua_State *co)
{
    return lua_status(co) != LUA_OK && lua_status(co) != LUA_YIELD;
}

/*
 * Whether the value at INDEX is the one that a function of ours raised last in the coroutine.  If
 * so its stack is known already, from the innermost coroutine on.
 */
static bool was_raised_inside(lua_State *L, ss_lua_state *state, int index, lua_State *co)
{
    return ss_lua_is_raising(L, co, state, 0) && ss_lua_ties_find(L, state, index) == &state->last;
}

/* ---- Remembering -----------------------------------------------------------------------------*/

/* Arguments: the value that the coroutine failed with, the failure. */
static int remember_protected(lua_State *L)
{
    failure *now = lua_touserdata(L, 2);
    ss_lua_state *state = ss_lua_state_open(L);
    ss_lua_origin origin = {
        .above = now->above, .status = lua_status(now->co), .unwound = true, .dead = now->co};

    ss_lua_state_drain(L, state);
    if (state->handling || ss_lua_to_error(L, 1))
        return 0;
    now->same =
        was_raised_inside(L, state, 1, now->co) || ss_lua_is_raised_again(L, state, 1, now->co, 0);
    if (!now->same) {
        ss_lua_forget_equal(L, state, 1);
        (void)ss_lua_ties_make(L, state, 1, &origin);
        now->same = true;
    }
    ss_lua_plant_gc_canary(L, state);
    return 0;
}

/* Without memory the value goes on without its stack. */
static void call_protected(lua_State *L, lua_CFunction body, failure *now)
{
    if (lua_checkstack(L, LUA_MINSTACK))
        (void)ss_lua_call_protected(L, body, now);
}

/* Arguments: the value about to be raised, the failure.  The state's last value is the same error
   before its place was added. */
static int rename_protected(lua_State *L)
{
    ss_lua_state *state = ss_lua_state_open(L);

    if (state->last.exception)
        ss_lua_rename_last(L, state, 1);
    return 0;
}

/* ---- Resuming --------------------------------------------------------------------------------*/

/*
 * Resume CO with the NARGS values at the top.  Returns the number of results, which are pushed, or
 * -1 with the error value.  Messages and checks are those of the Lua library.
 */
static int resume(lua_State *L, lua_State *co, int nargs, failure *now)
{
    bool could_run = !has_failed(co);
    int status, nresults;

    if (!lua_checkstack(co, nargs)) {
        lua_pushliteral(L, "too many arguments to resume");
        return -1;
    }
#if LUA_VERSION_NUM < 504
    if (lua_status(co) == LUA_OK && lua_gettop(co) == 0) {
        lua_pushliteral(L, "cannot resume dead coroutine");
        return -1;
    }
#endif
    lua_xmove(L, co, nargs);
    status = lua_resume(co, L, nargs, &nresults);
    if (status != LUA_OK && status != LUA_YIELD) {
        lua_xmove(co, L, 1);
        if (could_run && has_failed(co))
            call_protected(L, remember_protected, now);
        return -1;
    }
    if (!lua_checkstack(L, nresults + 1)) {
        lua_pop(co, nresults);
        lua_pushliteral(L, "too many results to resume");
        return -1;
    }
    lua_xmove(co, L, nresults);
    return nresults;
}

/* The error value, the state's last one if it has no identity, is at the top. */
static void remember_resumed(lua_State *L)
{
    ss_lua_state *state = ss_lua_state_find(L);

    if (state && !ss_lua_has_identity(L, -1) && lua_checkstack(L, 4))
        ss_lua_remember_resumed(L, state);
}

SS_LUA_OWN int ss_lua_resume_function(lua_State *L)
{
    lua_State *co = lua_tothread(L, 1);
    failure now = {.co = co, .above = SS_LUA_HERE()};
    int results;

#if LUA_VERSION_NUM >= 504
    luaL_argexpected(L, co, 1, "thread");
#else
    luaL_argcheck(L, co, 1, "thread expected");
#endif
    results = resume(L, co, lua_gettop(L) - 1, &now);
    if (results < 0 && now.same)
        remember_resumed(L);
    lua_pushboolean(L, results >= 0);
    lua_insert(L, results >= 0 ? -(results + 1) : -2);
    return results >= 0 ? results + 1 : 2;
}

/* ---- Wrapping --------------------------------------------------------------------------------*/

/* Since Lua 5.4 a wrapped coroutine that failed is closed.  Its variables may replace the error at
   the top; returns whether they did. */
static bool close_wrapped(lua_State *L, lua_State *co)
{
#if LUA_VERSION_NUM >= 504
    bool replaced;

#if LUA_VERSION_RELEASE_NUM >= 50406
    (void)lua_closethread(co, L);
#else
    (void)lua_resetthread(co);
#endif
    if (lua_gettop(co) == 0)
        return false; /* Lua 5.4.2 and older do not return it */
    lua_xmove(co, L, 1);
    replaced = !lua_rawequal(L, -1, -2);
    lua_remove(L, -2);
    return replaced;
#else
    (void)L;
    (void)co;
    return false;
#endif
}

/* Put the place of the caller before a message that is a string, as coroutine.wrap does; returns
   whether it was one. */
static bool add_place(lua_State *L, int status)
{
    if (SS_LUA_WRAP_SPARES_ERRMEM && status == LUA_ERRMEM)
        return false;
    if (lua_type(L, -1) != LUA_TSTRING)
        return false;
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
    return true;
}

/* The error that comes out of the coroutine is at the top; STATUS is the coroutine's. */
static int raise_again(lua_State *L, int status, failure *now)
{
    ss_lua_state *state;
    bool renamed = add_place(L, status);

    if (now->same && renamed)
        call_protected(L, rename_protected, now);
    state = ss_lua_state_find(L);
    if (state) {
        state->raising = (ss_lua_raising){NULL, NULL, NULL};
        if (now->same && ss_lua_ties_find(L, state, -1) == &state->last)
            ss_lua_remember_raiser(L, state);
    }
    return lua_error(L);
}

static SS_LUA_OWN int call_wrapped(lua_State *L)
{
    lua_State *co = lua_tothread(L, lua_upvalueindex(1));
    failure now = {.co = co, .above = SS_LUA_HERE()};
    int results, status;

    if (!co)
        return luaL_error(L, "the coroutine was exchanged"); /* by debug.setupvalue */
    results = resume(L, co, lua_gettop(L), &now);
    status = lua_status(co);
    if (results >= 0)
        return results;
    if (has_failed(co) && close_wrapped(L, co))
        now.same = false;
    return raise_again(L, status, &now);
}

SS_LUA_OWN int ss_lua_wrap_function(lua_State *L)
{
    lua_State *co;

    luaL_checktype(L, 1, LUA_TFUNCTION);
    co = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    lua_pushcclosure(L, call_wrapped, 1);
    return 1;
}
