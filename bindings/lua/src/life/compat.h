/*
 * The newer Lua functions that this binding uses and Lua 5.3 lacks.  Later versions see none of
 * this.
 */
#ifndef SS_LUA_COMPAT_H
#define SS_LUA_COMPAT_H

#include <stdint.h>

#include <lua.h>
#include <lauxlib.h>

#if LUA_VERSION_NUM < 504

#ifndef LUA_GNAME
#define LUA_GNAME "_G"
#endif

/* In 5.3 one table holds several user values, large enough that setting one never allocates.  This
   address, the same in all files and never a value, marks those never set. */
#define SS_LUA_COMPAT_UNSET ((void *)(uintptr_t)lua_newuserdata)

static inline void *ss_lua_compat_newuserdata(lua_State *L, size_t size, int values)
{
    void *block = lua_newuserdata(L, size);

    if (values > 0) {
        lua_createtable(L, values, 0);
        for (int i = 1; i <= values; i++) {
            lua_pushlightuserdata(L, SS_LUA_COMPAT_UNSET);
            lua_rawseti(L, -2, i);
        }
        lua_setuservalue(L, -2);
    }
    return block;
}

static inline int ss_lua_compat_getiuservalue(lua_State *L, int index, int n)
{
    lua_getuservalue(L, index);
    lua_rawgeti(L, -1, n);
    lua_remove(L, -2);
    if (lua_islightuserdata(L, -1) && lua_touserdata(L, -1) == SS_LUA_COMPAT_UNSET) {
        lua_pop(L, 1);
        lua_pushnil(L);
    }
    return lua_type(L, -1);
}

static inline int ss_lua_compat_setiuservalue(lua_State *L, int index, int n)
{
    lua_getuservalue(L, index);
    lua_insert(L, -2);
    lua_rawseti(L, -2, n);
    lua_pop(L, 1);
    return 1;
}

static inline int ss_lua_compat_resume(lua_State *L, lua_State *from, int nargs, int *nresults)
{
    int status = lua_resume(L, from, nargs);

    *nresults = status == LUA_OK || status == LUA_YIELD ? lua_gettop(L) : 0;
    return status;
}

static inline int ss_lua_compat_typeerror(lua_State *L, int argument, const char *expected)
{
    const char *text =
        lua_pushfstring(L, "%s expected, got %s", expected, luaL_typename(L, argument));

    return luaL_argerror(L, argument, text);
}

/* With parentheses only: function addresses stay Lua's. */
#define lua_newuserdatauv(L, size, values) ss_lua_compat_newuserdata(L, size, values)
#define lua_getiuservalue(L, index, n) ss_lua_compat_getiuservalue(L, index, n)
#define lua_setiuservalue(L, index, n) ss_lua_compat_setiuservalue(L, index, n)
#define lua_resume(L, from, nargs, nresults) ss_lua_compat_resume(L, from, nargs, nresults)
#define luaL_argexpected(L, condition, argument, name) \
    ((void)((condition) || ss_lua_compat_typeerror(L, argument, name)))
/* In 5.3 a coroutine that failed cannot be used again; its variables need no closing. */
#define lua_resetthread(L) ((void)(L), LUA_OK)

#endif

/* Whether a binding without Lua's headers is being built, which finds Lua's functions by name. */
#ifdef SS_LUA_ABI
#define SS_LUA_BY_NAME 1
#else
#define SS_LUA_BY_NAME 0
#endif

/* Since 5.4.3, which has lua_closeslot, coroutine.wrap puts no place before "not enough memory". */
#if SS_LUA_BY_NAME && LUA_VERSION_NUM == 504
#define SS_LUA_WRAP_SPARES_ERRMEM (lua_closeslot != NULL)
#elif LUA_VERSION_NUM >= 504
#define SS_LUA_WRAP_SPARES_ERRMEM (LUA_VERSION_RELEASE_NUM >= 50403)
#else
#define SS_LUA_WRAP_SPARES_ERRMEM false
#endif

/* Make the collector count this much as allocated.  Since 5.5 in bytes. */
static inline void ss_lua_count_kib(lua_State *L, int kib)
{
#if LUA_VERSION_NUM >= 505
    (void)lua_gc(L, LUA_GCSTEP, (size_t)kib * 1024);
#else
    (void)lua_gc(L, LUA_GCSTEP, kib);
#endif
}

/* Before 5.4 the version was a number in memory. */
static inline int ss_lua_version(void)
{
#if LUA_VERSION_NUM < 504
    return (int)*lua_version(NULL);
#else
    return (int)lua_version(NULL);
#endif
}

#endif
