/*
 * Stands for any third-party Lua library: it does not know stacksplice.  It cleans up with a plain
 * lua_pcall and passes on every error.
 */
#include "host.h"

#include <lauxlib.h>

static int locked;

/* warehouse.with_lock(f, ...): returns f's results; releases the lock in any case. */
static int with_lock(lua_State *L)
{
    int status;

    luaL_checktype(L, 1, LUA_TFUNCTION);
    locked++;
    status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
    locked--;
    if (status != LUA_OK)
        return lua_error(L);
    return lua_gettop(L);
}

int luaopen_warehouse(lua_State *L)
{
    static const luaL_Reg functions[] = {{"with_lock", with_lock}, {NULL, NULL}};

    luaL_newlib(L, functions);
    return 1;
}
