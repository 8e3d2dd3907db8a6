/* debug.traceback, in true order with other languages. */
#ifndef SS_LUA_TRACEBACK_H
#define SS_LUA_TRACEBACK_H

#include <lua.h>

int ss_lua_traceback(lua_State *L);

#endif
