/*
 * Guests: userdata of another bridge, by their metatable.  Their metamethods run its code,
 * which may keep an error of its own meanwhile, so we read nothing of them.
 */
#include "value/value.h"

/* In the registry: the metatable, as a light userdata. */
static const char guest_key;

void ss_lua_set_guests(lua_State *L, const void *metatable)
{
    if (metatable)
        lua_pushlightuserdata(L, (void *)metatable);
    else
        lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &guest_key);
}

bool ss_lua_is_guest(lua_State *L, int index)
{
    bool guest;

    if (lua_type(L, index) != LUA_TUSERDATA || !lua_getmetatable(L, index))
        return false;
    (void)lua_rawgetp(L, LUA_REGISTRYINDEX, &guest_key);
    guest = lua_touserdata(L, -1) == lua_topointer(L, -2);
    lua_pop(L, 2);
    return guest;
}
