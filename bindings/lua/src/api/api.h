/* What scripts call. */
#ifndef SS_LUA_API_H
#define SS_LUA_API_H

#include <lua.h>

int ss_lua_install_function(lua_State *L);

#endif
