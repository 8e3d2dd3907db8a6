/*
 * stacksplice.pcall and stacksplice.xpcall: like the standard ones, also across yields.  After a
 * failure they return the error object as one more result.
 */
#include "cross/cross.h"

/* Indices on the stack of both functions while the call runs. */
enum { HANDLER = 1, RESULTS = 2 /* true, then what the function returns */ };

/* The state, or NULL in a finalizer that runs after ours while Lua closes.  Then these functions do
   what the standard ones do. */
static ss_lua_state *state_of_function(lua_State *L)
{
    ss_lua_state **holder = lua_touserdata(L, lua_upvalueindex(1));

    return holder ? *holder : NULL;
}

/* Push the error object to report for the failed call; INDEX holds the error value. */
static void push_error_info(lua_State *L, ss_lua_state *state, int index, int status,
                            const void *above)
{
    ss_lua_origin origin = {.above = above, .status = status, .unwound = true};

    ss_lua_push_error_of(L, state, index, &origin);
}

/* The script asked for it: an interrupt that a plain pcall may not swallow ends here. */
static int catch_interrupt(lua_State *L, ss_lua_state *state)
{
    lua_pushboolean(L, 0);
    ss_lua_push_interrupt(L);
    lua_pushvalue(L, -1);
    ss_lua_interrupt_clear(L, state);
    return 3;
}

static bool may_catch(lua_State *L, const ss_lua_state *state)
{
    return state->interrupted && !state->insists && ss_lua_is_interrupted(L, state);
}

/* Push the value that was raised: the handler may have replaced it. */
static void push_raised_value(lua_State *L, int status)
{
    if (lua_iscfunction(L, HANDLER) && status == LUA_ERRRUN && lua_getupvalue(L, HANDLER, 2)) {
        lua_getupvalue(L, HANDLER, 3);
        if (lua_toboolean(L, -1)) {
            lua_pop(L, 1);
            return;
        }
        lua_pop(L, 2);
    }
    lua_pushvalue(L, -1);
}

/* The call failed, or an interrupt is in progress; the value is at the top. */
static SS_LUA_NOINLINE int finish_failed(lua_State *L, ss_lua_state *state, int status,
                                         const void *above)
{
    luaL_checkstack(L, LUA_MINSTACK, "too many results"); /* which may fill the stack */
    if (state && may_catch(L, state))
        return catch_interrupt(L, state);
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    if (!state)
        return 2;
    push_raised_value(L, status);
    push_error_info(L, state, -1, status, above);
    lua_remove(L, -2);
    return 3;
}

/* HANDLING is how many handlers ran when the call began. */
static SS_LUA_NOINLINE int finish(lua_State *L, int status, lua_KContext handling)
{
    ss_lua_state *state = state_of_function(L);

    /* A handler that raised did not reset the count.  After a yield fewer handlers may run than
       before. */
    if (state && (int)handling < state->handling)
        state->handling = (int)handling;
    if ((status == LUA_OK || status == LUA_YIELD) && !(state && may_catch(L, state)))
        return lua_gettop(L) - HANDLER;
    return finish_failed(L, state, status, SS_LUA_HERE());
}

/* The handler, true and the function with its arguments are on the stack.  Inlined, so that a stack
   shows the frame of the function that scripts know. */
static inline __attribute__((always_inline)) int call(lua_State *L)
{
    ss_lua_state *state = state_of_function(L);
    int handling = state ? state->handling : 0;

    if (state)
        ss_lua_state_drain(L, state);
    return finish(
        L, lua_pcallk(L, lua_gettop(L) - RESULTS - 1, LUA_MULTRET, HANDLER, handling, finish),
        handling);
}

/* A function in C begins with LUA_MINSTACK free slots. */
SS_LUA_OWN int ss_lua_pcall_function(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_pushcfunction(L, stacksplice_lua_handler);
    lua_pushboolean(L, 1);
    lua_rotate(L, HANDLER, RESULTS);
    return call(L);
}

/*
 * Upvalues: the script's handler; its argument; whether it was called.  While it runs we do not
 * capture its own errors: Lua may call it again for each of them.
 */
static SS_LUA_OWN int run_script_handler(lua_State *L)
{
    ss_lua_state *state;
    int handling;

    lua_settop(L, 1);
    ss_lua_note_raise(L, SS_LUA_HERE());
    state = ss_lua_state_find(L);
    handling = state ? state->handling : 0;
    if (state && !handling) {
        lua_pushvalue(L, 1);
        lua_replace(L, lua_upvalueindex(2));
        lua_pushboolean(L, 1);
        lua_replace(L, lua_upvalueindex(3));
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    if (state)
        state->handling = handling + 1;
    lua_call(L, 1, 1); /* if it raises, the end of xpcall corrects the count */
    if (state)
        state->handling = handling;
    return 1;
}

SS_LUA_OWN int ss_lua_xpcall_function(lua_State *L)
{
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushvalue(L, 1);
    lua_insert(L, RESULTS + 1);
    lua_pushvalue(L, 2);
    lua_pushnil(L);
    lua_pushboolean(L, 0);
    lua_pushcclosure(L, run_script_handler, 3);
    lua_replace(L, HANDLER);
    lua_pushboolean(L, 1);
    lua_replace(L, RESULTS);
    return call(L);
}
