/* The auxiliary library, as lua.h beside it. */
#ifndef SS_LUA_LOADABLE_LAUXLIB_H
#define SS_LUA_LOADABLE_LAUXLIB_H

#include "lua.h"

#define LUAL_NUMSIZES (sizeof(lua_Integer) * 16 + sizeof(lua_Number))

#if LUA_VERSION_NUM >= 503
#define luaL_checkversion(L) luaL_checkversion_(L, LUA_VERSION_NUM, LUAL_NUMSIZES)
#elif LUA_VERSION_NUM == 502
#define luaL_checkversion(L) luaL_checkversion_(L, LUA_VERSION_NUM)
#endif
#define luaL_typename(L, index) lua_typename(L, lua_type(L, index))
#define luaL_getmetatable(L, name) lua_getfield(L, LUA_REGISTRYINDEX, name)
#define luaL_optstring(L, n, fallback) luaL_optlstring(L, n, fallback, NULL)
#define luaL_checkstring(L, n) luaL_checklstring(L, n, NULL)
#define luaL_argcheck(L, condition, argument, text) \
    ((void)((condition) || luaL_argerror(L, argument, text)))
#define luaL_newlib(L, functions)                                             \
    (luaL_checkversion(L),                                                    \
     lua_createtable(L, 0, (int)(sizeof(functions) / sizeof *(functions)-1)), \
     luaL_setfuncs(L, functions, 0))
#if LUA_VERSION_NUM >= 504
#define luaL_argexpected(L, condition, argument, name) \
    ((void)((condition) || luaL_typeerror(L, argument, name)))
#endif

#endif
