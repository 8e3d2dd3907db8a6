/*
 * Prints what the headers of Lua define, in so far as the binding uses it.  It is compiled with
 * Lua's own headers and with ours, and both must print the same.  With Lua's own it also compares
 * the functions.
 */
#include <stdio.h>
#include <string.h>

#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>

#ifndef SS_LUA_ABI
#include "function_list.h"
#define SAME(result, name, parameters) \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), result parameters), #name);
#if LUA_VERSION_NUM != 504 || LUA_VERSION_RELEASE_NUM >= 50406
SS_LUA_LATER_FUNCTIONS(SAME)
#endif
SS_LUA_COMMON_FUNCTIONS(SAME)
SS_LUA_VERSION_FUNCTIONS(SAME)
#endif

#define NUMBER(name) printf(#name " %lld\n", (long long)(name));
#define TEXT(name) printf(#name " %s\n", name);
#define SIZE(type) printf("sizeof " #type " %zu\n", sizeof(type));
#define FIELD(type, member) \
    printf(#type "." #member " %zu %zu\n", offsetof(type, member), sizeof(((type *)0)->member));
#define MEMBER(name) FIELD(lua_Debug, name)

static void print_constants(void)
{
    NUMBER(LUA_VERSION_NUM)
    NUMBER(LUA_IDSIZE)
    NUMBER(LUA_MINSTACK)
    NUMBER(LUA_MULTRET)
    NUMBER(LUA_REGISTRYINDEX)
    NUMBER(lua_upvalueindex(3))
    NUMBER(LUA_RIDX_MAINTHREAD)
    NUMBER(LUA_RIDX_GLOBALS)
    NUMBER(LUA_OK)
    NUMBER(LUA_YIELD)
    NUMBER(LUA_ERRRUN)
    NUMBER(LUA_ERRSYNTAX)
    NUMBER(LUA_ERRMEM)
    NUMBER(LUA_ERRERR)
    NUMBER(LUA_TNONE)
    NUMBER(LUA_TNIL)
    NUMBER(LUA_TBOOLEAN)
    NUMBER(LUA_TLIGHTUSERDATA)
    NUMBER(LUA_TNUMBER)
    NUMBER(LUA_TSTRING)
    NUMBER(LUA_TTABLE)
    NUMBER(LUA_TFUNCTION)
    NUMBER(LUA_TUSERDATA)
    NUMBER(LUA_TTHREAD)
    NUMBER(LUA_OPADD)
    NUMBER(LUA_OPLT)
    NUMBER(LUA_GCCOLLECT)
    NUMBER(LUA_GCSTEP)
    NUMBER(LUA_GCISRUNNING)
    NUMBER(LUA_HOOKCALL)
    NUMBER(LUA_HOOKRET)
    NUMBER(LUA_HOOKTAILCALL)
    NUMBER(LUA_MASKCALL)
    NUMBER(LUA_MASKRET)
    NUMBER(LUA_MASKLINE)
    NUMBER(LUA_MASKCOUNT)
    NUMBER(LUAL_NUMSIZES)
    NUMBER(LUA_MAXINTEGER)
    NUMBER(LUA_MININTEGER)
    TEXT(LUA_LOADED_TABLE)
    TEXT(LUA_COLIBNAME)
    TEXT(LUA_TABLIBNAME)
    TEXT(LUA_STRLIBNAME)
    TEXT(LUA_DBLIBNAME)
}

static void print_types(void)
{
    SIZE(lua_Number)
    SIZE(lua_Integer)
    SIZE(lua_Unsigned)
    SIZE(lua_KContext)
    SIZE(luaL_Reg)
    FIELD(luaL_Reg, name)
    FIELD(luaL_Reg, func)
    SIZE(lua_Debug)
    MEMBER(event)
    MEMBER(name)
    MEMBER(namewhat)
    MEMBER(what)
    MEMBER(source)
#if LUA_VERSION_NUM >= 504
    MEMBER(srclen)
    MEMBER(ftransfer)
    MEMBER(ntransfer)
#endif
    MEMBER(currentline)
    MEMBER(linedefined)
    MEMBER(lastlinedefined)
    MEMBER(nups)
    MEMBER(nparams)
    MEMBER(isvararg)
    MEMBER(istailcall)
    MEMBER(short_src)
    MEMBER(i_ci)
}

int main(void)
{
    print_constants();
    print_types();
    return 0;
}
