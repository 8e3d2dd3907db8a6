/*
 * Errors in methods __close (Lua 5.4 and newer).  A protected call that fails closes the variables of the
 * functions that the error ended; what such a method raises takes the place of that error.  So the new
 * error gets the first one as its context.
 */
#include "version/call_info.h"
#include "cross/cross.h"

#if SS_LUA_CLOSES

/* Whether the value at the top, what METHOD runs, is the __close of the value below it.  Where a tail call
   replaced the method, its variable must do. [-0, +0, m], 1 slot */
static bool is_method(lua_State *L, const lua_Debug *method)
{
    bool is;

    if (luaL_getmetafield(L, -2, "__close") == LUA_TNIL)
        return false;
    is = lua_rawequal(L, -1, -2) || ss_lua_is_tail_called(L, method);
    lua_pop(L, 1);
    return is;
}

/*
 * For the call of METHOD, Lua puts on the stack of the function that made the protected call:
 *     ..., the variable, the error value, the method
 * where the variable is in its own place still, and the others follow it.  Push the error value.
 * [-0, +(0|1), m], 4 slots
 */
static bool push_value(lua_State *L, ss_lua_ci method)
{
    lua_Debug closer = {.i_ci = method}, caller;
    uintptr_t inner = ss_lua_ci_address(L, method), outer = ss_lua_previous(inner);
    int top = lua_gettop(L);
    int error = (int)((ss_lua_slot_of(inner) - ss_lua_slot_of(outer)) / SSI_LUA_VALUE) - 1;
    bool found;

    caller = ss_lua_debug_of(L, outer); /* also the base level, where a host calls */
    found = lua_getlocal(L, &caller, error) && lua_getlocal(L, &caller, error - 1) &&
            lua_getinfo(L, "f", &closer) && is_method(L, &closer);
    lua_settop(L, found ? top + 1 : top);
    return found;
}

bool ss_lua_push_displaced(lua_State *L, ss_lua_state *state, ss_lua_ci called,
                           ss_lua_call_place call, const void *above)
{
    const ss_lua_origin origin = {.which = SS_LUA_IN_FLIGHT,
                                  .call = call.at,
                                  .above = above,
                                  .status = LUA_ERRRUN,
                                  .unwound = true};

    int top = lua_gettop(L);

    if (!push_value(L, called))
        return false;
    if (!ss_lua_push_seen(L, state, -1, call.at))
        lua_pushvalue(L, -1);
    ss_lua_push_error_of(L, state, -1, &origin);
    lua_replace(L, top + 1);
    lua_settop(L, top + 1);
    if (ss_lua_to_error(L, -1))
        return true;
    lua_pop(L, 1); /* origination is switched off */
    return false;
}

#endif
