/* The standard libraries, as lua.h beside it. */
#ifndef SS_LUA_LOADABLE_LUALIB_H
#define SS_LUA_LOADABLE_LUALIB_H

#include "lua.h"

#define LUA_COLIBNAME "coroutine"
#define LUA_TABLIBNAME "table"
#define LUA_STRLIBNAME "string"
#define LUA_DBLIBNAME "debug"

#endif
