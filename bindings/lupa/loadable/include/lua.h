/*
 * Lua's C API for a binding that is built without Lua's headers and finds the functions of a copy
 * of Lua by name.  It takes the place of Lua's own lua.h: the same sources then call through
 * pointers.  It has what the binding uses, and no more.
 *
 * SS_LUA_ABI chooses the version: 501 to 505; SS_LUA_JIT=1 with 501 is LuaJIT.  A test compares this
 * file with the headers of each version.
 */
#ifndef SS_LUA_LOADABLE_LUA_H
#define SS_LUA_LOADABLE_LUA_H

#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#if SS_LUA_ABI < 501 || SS_LUA_ABI > 505
#error "SS_LUA_ABI must be 501 to 505"
#endif
#ifndef SS_LUA_JIT
#define SS_LUA_JIT 0
#endif
#define LUA_VERSION_NUM SS_LUA_ABI
/* The newest release: SS_LUA_LATER_FUNCTIONS says what an older one lacks. */
#define LUA_VERSION_RELEASE_NUM (LUA_VERSION_NUM * 100 + 99)

/* ---- Constants -------------------------------------------------------------------------------*/

#define LUA_IDSIZE 60
#define LUA_MINSTACK 20
#define LUA_MULTRET (-1)
#define LUA_GNAME "_G"
#define LUA_LOADED_TABLE "_LOADED"

#if LUA_VERSION_NUM >= 505
#define LUA_REGISTRYINDEX (-(INT_MAX / 2 + 1000))
#define LUA_RIDX_GLOBALS 2
#define LUA_RIDX_MAINTHREAD 3
#elif LUA_VERSION_NUM >= 502
#define LUA_REGISTRYINDEX (-1000000 - 1000)
#define LUA_RIDX_MAINTHREAD 1
#define LUA_RIDX_GLOBALS 2
#else
#define LUA_REGISTRYINDEX (-10000)
#define LUA_GLOBALSINDEX (-10002)
#endif
#if LUA_VERSION_NUM >= 502
#define lua_upvalueindex(i) (LUA_REGISTRYINDEX - (i))
#else
#define lua_upvalueindex(i) (LUA_GLOBALSINDEX - (i))
#endif

#define LUA_OK 0
#define LUA_YIELD 1
#define LUA_ERRRUN 2
#define LUA_ERRSYNTAX 3
#define LUA_ERRMEM 4
#if LUA_VERSION_NUM >= 504 || LUA_VERSION_NUM == 501
#define LUA_ERRERR 5
#else
#define LUA_ERRERR 6
#endif

#define LUA_TNONE (-1)
#define LUA_TNIL 0
#define LUA_TBOOLEAN 1
#define LUA_TLIGHTUSERDATA 2
#define LUA_TNUMBER 3
#define LUA_TSTRING 4
#define LUA_TTABLE 5
#define LUA_TFUNCTION 6
#define LUA_TUSERDATA 7
#define LUA_TTHREAD 8

#define LUA_GCSTOP 0
#define LUA_GCCOLLECT 2
#define LUA_GCSTEP 5
#if LUA_VERSION_NUM >= 502
#define LUA_OPADD 0
#define LUA_OPLT 1
#define LUA_GCISRUNNING (LUA_VERSION_NUM >= 505 ? 6 : 9)
#endif

#define LUA_HOOKCALL 0
#define LUA_HOOKRET 1
#if LUA_VERSION_NUM >= 502
#define LUA_HOOKTAILCALL 4
#endif
#define LUA_MASKCALL 1
#define LUA_MASKRET 2
#define LUA_MASKLINE 4
#define LUA_MASKCOUNT 8

/* ---- Types -----------------------------------------------------------------------------------*/

typedef struct lua_State lua_State;
typedef double lua_Number;
typedef long long lua_Integer;
typedef unsigned long long lua_Unsigned;
#define LUA_MAXINTEGER LLONG_MAX
#define LUA_MININTEGER LLONG_MIN
typedef int (*lua_CFunction)(lua_State *L);
#if LUA_VERSION_NUM != 502 /* stacksplice/lua.h has them there */
typedef intptr_t lua_KContext;
typedef int (*lua_KFunction)(lua_State *L, int status, lua_KContext context);
#endif
typedef const char *(*lua_Reader)(lua_State *L, void *data, size_t *size);
typedef void *(*lua_Alloc)(void *data, void *block, size_t old_size, size_t new_size);

typedef struct lua_Debug lua_Debug;
typedef void (*lua_Hook)(lua_State *L, lua_Debug *activation);
struct lua_Debug {
    int event;
    const char *name, *namewhat, *what, *source;
#if LUA_VERSION_NUM >= 504
    size_t srclen;
#endif
#if LUA_VERSION_NUM == 501
    int currentline, nups, linedefined, lastlinedefined;
    char short_src[LUA_IDSIZE];
    int i_ci;
};
#else
    int currentline, linedefined, lastlinedefined;
    unsigned char nups, nparams;
    char isvararg;
#if LUA_VERSION_NUM >= 505
    unsigned char extraargs;
#endif
    char istailcall;
#if LUA_VERSION_NUM >= 505
    int ftransfer, ntransfer;
#elif LUA_VERSION_NUM >= 504
    unsigned short ftransfer, ntransfer;
#endif
    char short_src[LUA_IDSIZE];
    struct CallInfo *i_ci;
};
#endif

#include "functions.h"

/* ---- Macros ----------------------------------------------------------------------------------*/

#if LUA_VERSION_NUM >= 502
#define lua_call(L, n, r) lua_callk(L, n, r, 0, NULL)
#define lua_pcall(L, n, r, f) lua_pcallk(L, n, r, f, 0, NULL)
#define lua_tointeger(L, index) lua_tointegerx(L, index, NULL)
#define lua_tonumber(L, index) lua_tonumberx(L, index, NULL)
#endif
#if LUA_VERSION_NUM >= 503
#define lua_pushglobaltable(L) ((void)lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS))
#define lua_insert(L, index) lua_rotate(L, index, 1)
#define lua_remove(L, index) (lua_rotate(L, index, -1), lua_pop(L, 1))
#define lua_replace(L, index) (lua_copy(L, -1, index), lua_pop(L, 1))
#endif
#define lua_pop(L, n) lua_settop(L, -(n)-1)
#define lua_newtable(L) lua_createtable(L, 0, 0)
#define lua_pushcfunction(L, f) lua_pushcclosure(L, f, 0)
#define lua_pushliteral(L, s) lua_pushstring(L, "" s)
#define lua_tostring(L, index) lua_tolstring(L, index, NULL)
#define lua_isboolean(L, n) (lua_type(L, n) == LUA_TBOOLEAN)
#define lua_isfunction(L, n) (lua_type(L, n) == LUA_TFUNCTION)
#define lua_istable(L, n) (lua_type(L, n) == LUA_TTABLE)
#define lua_islightuserdata(L, n) (lua_type(L, n) == LUA_TLIGHTUSERDATA)
#define lua_isnil(L, n) (lua_type(L, n) == LUA_TNIL)
#define lua_isthread(L, n) (lua_type(L, n) == LUA_TTHREAD)
#define lua_isnone(L, n) (lua_type(L, n) == LUA_TNONE)
#define lua_isnoneornil(L, n) (lua_type(L, n) <= 0)

#endif
