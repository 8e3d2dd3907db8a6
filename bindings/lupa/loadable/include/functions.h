/*
 * Lua's functions as variables of their names.  They are NULL until ss_lua_bind has found them in
 * a copy of Lua.
 */
#ifndef SS_LUA_LOADABLE_FUNCTIONS_H
#define SS_LUA_LOADABLE_FUNCTIONS_H

#include "function_list.h"

typedef struct luaL_Reg {
    const char *name;
    lua_CFunction func;
} luaL_Reg;

#define SS_LUA_DECLARE(result, name, parameters) \
    extern __attribute__((visibility("hidden"))) result(*name) parameters;
SS_LUA_COMMON_FUNCTIONS(SS_LUA_DECLARE)
SS_LUA_VERSION_FUNCTIONS(SS_LUA_DECLARE)
SS_LUA_LATER_FUNCTIONS(SS_LUA_DECLARE)
#undef SS_LUA_DECLARE

#endif
