/*
 * The newer Lua functions that this binding uses and Lua 5.3 lacks.  Later versions see none of
 * this.
 */
#ifndef SS_LUA_COMPAT_H
#define SS_LUA_COMPAT_H

#include <stdbool.h>
#include <stdint.h>

/* In the module all functions of Lua are weak: one that is built for another version loads, and says
   so.  A static library of Lua would lack what only weak names ask for. */
#ifndef SS_LUA_MODULE
#define SS_LUA_MODULE 0
#endif
#if SS_LUA_MODULE
#include <luaconf.h>
#undef LUA_API
#define LUA_API extern __attribute__((weak))
#endif
#include <lua.h>
#include <lauxlib.h>
#include <stacksplice/lua.h>

#include "version/facts.h"

#if LUA_VERSION_NUM < 503
#include "version/older.h"
#endif

/* What lua_Debug calls an activation; version/call_info.h says more. */
#if LUA_VERSION_NUM == 501
typedef int ss_lua_ci;
#else
typedef struct CallInfo *ss_lua_ci;
#endif

/* Whether A and B name one activation: LuaJIT puts in the upper half where it is at work. */
static inline bool ss_lua_is_same_ci(ss_lua_ci a, ss_lua_ci b)
{
    return SS_LUA_JIT ? (uint16_t)(uintptr_t)a == (uint16_t)(uintptr_t)b : a == b;
}

/*
 * The continuation K of lua_callk and lua_pcallk is written as for 5.3, and given as SS_LUA_K(K); in
 * 5.2 a continuation asks for what 5.3 passes, and its context is an int.
 */
#if LUA_VERSION_NUM == 502
#define SS_LUA_CONTINUATION(k)                             \
    static int k##_continued(lua_State *L)                 \
    {                                                      \
        int context = 0, status = lua_getctx(L, &context); \
                                                           \
        return k(L, status, context);                      \
    }                                                      \
    _Static_assert(1, "")
#define SS_LUA_K(k) k##_continued
#else
#define SS_LUA_CONTINUATION(k) _Static_assert(1, "")
#define SS_LUA_K(k) k
#endif

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
#if LUA_VERSION_NUM == 501
    int status;

#if !SS_LUA_JIT
    if (from)
        lua_setlevel(from, L); /* or nothing ends coroutines in coroutines but the stack */
#endif
    (void)from;
    status = lua_resume(L, nargs);
#else
    int status = lua_resume(L, from, nargs);
#endif

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

/* What lua_getinfo can say of an activation's place and name. */
#if LUA_VERSION_NUM >= 502
#define SS_LUA_ALL_INFO "Slnt"
#else
#define SS_LUA_ALL_INFO "Sln"
#endif

/* The functions by which C calls Lua; the others are macros of them. */
#if LUA_VERSION_NUM >= 502
#define SS_LUA_CALL lua_callk
#define SS_LUA_PCALL lua_pcallk
#define SS_LUA_YIELD lua_yieldk
#else
#define SS_LUA_CALL lua_call
#define SS_LUA_PCALL lua_pcall
#define SS_LUA_YIELD lua_yield
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

/* Make the collector count this much as allocated.  Since 5.5 in bytes; 5.2 takes 1600 bytes off. */
static inline void ss_lua_count_kib(lua_State *L, int kib)
{
#if LUA_VERSION_NUM >= 505
    (void)lua_gc(L, LUA_GCSTEP, (size_t)kib * 1024);
#else
    (void)lua_gc(L, LUA_GCSTEP, kib + (LUA_VERSION_NUM == 502 ? 2 : 0));
#endif
}

/* Push the main thread; in 5.1, which does not know it, a thread of ours that never runs. [-0, +1, m] */
static inline void ss_lua_push_main(lua_State *L)
{
#if LUA_VERSION_NUM == 501
    const void *key = (const void *)(uintptr_t)lua_newthread; /* the same in all files */

    if (lua_rawgetp(L, LUA_REGISTRYINDEX, key) == LUA_TTHREAD)
        return;
    lua_pop(L, 1);
    if (!lua_pushthread(L)) {
        lua_pop(L, 1);
        (void)lua_newthread(L);
    }
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
#else
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
#endif
}

/* Before 5.4 the version was a number in memory, and 5.1 has none. */
static inline int ss_lua_version(void)
{
#if LUA_VERSION_NUM == 501
    return 501;
#elif LUA_VERSION_NUM < 504
    return (int)*lua_version(NULL);
#else
    return (int)lua_version(NULL);
#endif
}

/*
 * Lua 5.1 and LuaJIT have one API and one folder for modules, and keep their calls in other ways.
 * NULL, or what is wrong and helps if this Lua is the other one of the two.
 */
#if LUA_VERSION_NUM == 501 && !SS_LUA_BY_NAME
extern __attribute__((weak)) int luaJIT_setmode(lua_State *L, int index, int mode);

static inline const char *ss_lua_kind_reason(void)
{
    if (SS_LUA_JIT)
        return luaJIT_setmode
                   ? NULL
                   : "stacksplice is built with the lua.h of LuaJIT, and this is Lua 5.1: "
                     "build it with that of Lua 5.1";
    return luaJIT_setmode ? "stacksplice is built with the lua.h of Lua 5.1, and this is LuaJIT: "
                            "build it with that of LuaJIT"
                          : NULL;
}
#else
static inline const char *ss_lua_kind_reason(void)
{
    return NULL;
}
#endif

#endif
