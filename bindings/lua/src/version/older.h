/*
 * Lua 5.1, 5.2 and LuaJIT: the functions of Lua 5.3 that this binding calls and these lack, made of
 * those that they have.  As in 5.3 a function that pushes a value returns its type.  Later versions
 * see none of this.
 *
 * All are macros with parentheses, or functions of our own: an address that is taken stays Lua's.
 */
#ifndef SS_LUA_OLDER_H
#define SS_LUA_OLDER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <lua.h>
#include <lauxlib.h>

/* ---- Types and constants ---------------------------------------------------------------------*/

#if !defined SS_LUA_ABI && \
    LUA_VERSION_NUM == 501 /* else our lua.h has them, or stacksplice/lua.h */
typedef intptr_t lua_KContext;
typedef int (*lua_KFunction)(lua_State *L, int status, lua_KContext context);
typedef unsigned long long lua_Unsigned;
#endif
#ifndef LUA_OK
#define LUA_OK 0
#endif
#ifndef LUA_OPADD
#define LUA_OPADD 0
#define LUA_OPLT 1
#endif
#ifndef LUA_GCISRUNNING
#define LUA_GCISRUNNING 9
#endif
#ifndef LUA_HOOKTAILCALL
#define LUA_HOOKTAILCALL 4 /* 5.1 has a return event of that number: LUA_HOOKTAILRET */
#endif
#ifndef LUA_LOADED_TABLE
#define LUA_LOADED_TABLE "_LOADED"
#endif
#ifndef LUA_VERSION_RELEASE_NUM
#define LUA_VERSION_RELEASE_NUM (LUA_VERSION_NUM * 100)
#endif

/* ---- Pushing ---------------------------------------------------------------------------------*/

static inline int ss_lua_old_getfield(lua_State *L, int index, const char *key)
{
    lua_getfield(L, index, key);
    return lua_type(L, -1);
}

static inline int ss_lua_old_gettable(lua_State *L, int index)
{
    lua_gettable(L, index);
    return lua_type(L, -1);
}

static inline int ss_lua_old_rawget(lua_State *L, int index)
{
    lua_rawget(L, index);
    return lua_type(L, -1);
}

/* A larger number is no index of a table that can be made. */
static inline int ss_lua_old_rawgeti(lua_State *L, int index, long long n)
{
    lua_rawgeti(L, index, n > INT_MAX ? INT_MAX : (int)n);
    return lua_type(L, -1);
}

static inline int ss_lua_old_getmetafield(lua_State *L, int index, const char *name)
{
    return luaL_getmetafield(L, index, name) ? lua_type(L, -1) : LUA_TNIL;
}

#define lua_getfield(L, index, key) ss_lua_old_getfield(L, index, key)
#define lua_gettable(L, index) ss_lua_old_gettable(L, index)
#define lua_rawget(L, index) ss_lua_old_rawget(L, index)
#define lua_rawgeti(L, index, n) ss_lua_old_rawgeti(L, index, n)
#define lua_rawseti(L, index, n) lua_rawseti(L, index, (int)(n))
#define luaL_getmetafield(L, index, name) ss_lua_old_getmetafield(L, index, name)
#undef luaL_getmetatable
#define luaL_getmetatable(L, name) lua_getfield(L, LUA_REGISTRYINDEX, name)

/* ---- Numbers ---------------------------------------------------------------------------------*/

#if LUA_VERSION_NUM == 501
static inline lua_Integer ss_lua_old_tointeger(lua_State *L, int index, int *is_number)
{
    if (is_number)
        *is_number = lua_isnumber(L, index);
    return (lua_tointeger)(L, index);
}

static inline lua_Number ss_lua_old_tonumber(lua_State *L, int index, int *is_number)
{
    if (is_number)
        *is_number = lua_isnumber(L, index);
    return (lua_tonumber)(L, index);
}

#define lua_tointegerx(L, index, is_number) ss_lua_old_tointeger(L, index, is_number)
#define lua_tonumberx(L, index, is_number) ss_lua_old_tonumber(L, index, is_number)
#endif

/* Numbers have one type: an integer is one that a double holds exactly. */
static inline int ss_lua_old_isinteger(lua_State *L, int index)
{
    const lua_Number most = 9007199254740992.0;
    lua_Number n = lua_type(L, index) == LUA_TNUMBER ? lua_tonumberx(L, index, NULL) : 0.5;

    return n >= -most && n <= most && n == (lua_Number)(long long)n;
}

#define lua_isinteger(L, index) ss_lua_old_isinteger(L, index)

/* ---- Without protection ----------------------------------------------------------------------*/

/*
 * In 5.1 a function in C is an object, and room on the stack is memory: where there is none, either
 * raises.  This binding asks for both outside of protected calls, where that ends the program.
 */
#if LUA_VERSION_NUM == 501
/* Hooks, ours of an interrupt too, see no call of a script in it.  False, and nothing is left on the
   stack, if it raised. */
static inline bool ss_lua_old_protect(lua_State *L, lua_CFunction function, void *data)
{
    lua_Hook hook = lua_gethook(L);
    int mask = lua_gethookmask(L), count = lua_gethookcount(L);
    bool done;

    if (hook)
        lua_sethook(L, NULL, 0, 0);
    done = lua_cpcall(L, function, data) == LUA_OK;
    if (!done)
        lua_pop(L, 1);
    if (hook)
        lua_sethook(L, hook, mask, count);
    return done;
}

static inline int ss_lua_old_keep_function(lua_State *L)
{
    void *function = lua_touserdata(L, 1);

    lua_pushlightuserdata(L, function);
    lua_pushcclosure(L, (lua_CFunction)(uintptr_t)function, 0);
    lua_rawset(L, LUA_REGISTRYINDEX);
    return 0;
}

/* The one object of the function; nil, of which a call fails, if it cannot be made.  Wants two slots. */
static inline void ss_lua_old_pushcfunction(lua_State *L, lua_CFunction function)
{
    void *key = (void *)(uintptr_t)function;

    lua_pushlightuserdata(L, key);
    if (lua_rawget(L, LUA_REGISTRYINDEX) == LUA_TFUNCTION)
        return;
    lua_pop(L, 1);
    (void)ss_lua_old_protect(L, ss_lua_old_keep_function, key);
    lua_pushlightuserdata(L, key);
    (void)lua_rawget(L, LUA_REGISTRYINDEX);
}

static inline int ss_lua_old_grow(lua_State *L)
{
    (void)lua_checkstack(L, (int)(uintptr_t)lua_touserdata(L, 1));
    return 0;
}

/* A coroutine that waits can make no call. */
static inline int ss_lua_old_checkstack(lua_State *L, int room)
{
    return (lua_status(L) != LUA_OK ||
            ss_lua_old_protect(L, ss_lua_old_grow, (void *)(uintptr_t)room)) &&
           lua_checkstack(L, room);
}

#undef lua_pushcfunction
#define lua_pushcfunction(L, function) ss_lua_old_pushcfunction(L, function)
#define lua_checkstack(L, room) ss_lua_old_checkstack(L, room)
#endif

/* ---- The stack -------------------------------------------------------------------------------*/

static inline int ss_lua_old_absindex(lua_State *L, int index)
{
    return index > 0 || index <= LUA_REGISTRYINDEX ? index : lua_gettop(L) + index + 1;
}

/* Wants a slot more than lua_rotate. */
static inline void ss_lua_old_rotate(lua_State *L, int index, int n)
{
    index = ss_lua_old_absindex(L, index);
    for (; n > 0; n--)
        lua_insert(L, index);
    for (; n < 0; n++) {
        lua_pushvalue(L, index);
        lua_remove(L, index);
    }
}

#define lua_rotate(L, index, n) ss_lua_old_rotate(L, index, n)
#undef lua_pushglobaltable
#if LUA_VERSION_NUM == 501
static inline void ss_lua_old_copy(lua_State *L, int from, int to)
{
    to = ss_lua_old_absindex(L, to);
    lua_pushvalue(L, from);
    lua_replace(L, to);
}

static inline int ss_lua_old_compare(lua_State *L, int left, int right, int operation)
{
    return operation == LUA_OPLT ? lua_lessthan(L, left, right) : lua_equal(L, left, right);
}

#define lua_absindex(L, index) ss_lua_old_absindex(L, index)
#define lua_copy(L, from, to) ss_lua_old_copy(L, from, to)
#define lua_compare(L, left, right, operation) ss_lua_old_compare(L, left, right, operation)
#define lua_pushglobaltable(L) lua_pushvalue(L, LUA_GLOBALSINDEX)
#undef lua_getglobal
#undef lua_setglobal
#define lua_getglobal(L, name) lua_getfield(L, LUA_GLOBALSINDEX, name)
#define lua_setglobal(L, name) lua_setfield(L, LUA_GLOBALSINDEX, name)
#else
#define lua_pushglobaltable(L) ((void)lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS))
#endif

/* ---- Tables and userdata ---------------------------------------------------------------------*/

#if LUA_VERSION_NUM == 501
/* Wants a slot more than lua_rawgetp. */
static inline int ss_lua_old_rawgetp(lua_State *L, int index, const void *key)
{
    index = ss_lua_old_absindex(L, index);
    lua_pushlightuserdata(L, (void *)(uintptr_t)key);
    return lua_rawget(L, index);
}

static inline void ss_lua_old_rawsetp(lua_State *L, int index, const void *key)
{
    index = ss_lua_old_absindex(L, index);
    lua_pushlightuserdata(L, (void *)(uintptr_t)key);
    lua_insert(L, -2);
    lua_rawset(L, index);
}

static inline int ss_lua_old_getsubtable(lua_State *L, int index, const char *name)
{
    index = ss_lua_old_absindex(L, index);
    if (lua_getfield(L, index, name) == LUA_TTABLE)
        return 1;
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, index, name);
    return 0;
}

static inline void *ss_lua_old_testudata(lua_State *L, int index, const char *name)
{
    void *block = lua_touserdata(L, index);

    if (!block || !lua_getmetatable(L, index))
        return NULL;
    luaL_getmetatable(L, name);
    if (!lua_rawequal(L, -1, -2))
        block = NULL;
    lua_pop(L, 2);
    return block;
}

/* What a userdata refers to is its environment; compat.h makes that a table of several values. */
static inline void ss_lua_old_setuservalue(lua_State *L, int index)
{
    (void)lua_setfenv(L, index);
}

#define lua_rawgetp(L, index, key) ss_lua_old_rawgetp(L, index, key)
#define lua_rawsetp(L, index, key) ss_lua_old_rawsetp(L, index, key)
#define lua_rawlen(L, index) lua_objlen(L, index)
#define luaL_getsubtable(L, index, name) ss_lua_old_getsubtable(L, index, name)
#define luaL_testudata(L, index, name) ss_lua_old_testudata(L, index, name)
#define lua_getuservalue(L, index) lua_getfenv(L, index)
#define lua_setuservalue(L, index) ss_lua_old_setuservalue(L, index)
#else
static inline int ss_lua_old_rawgetp(lua_State *L, int index, const void *key)
{
    lua_rawgetp(L, index, key);
    return lua_type(L, -1);
}

#define lua_rawgetp(L, index, key) ss_lua_old_rawgetp(L, index, key)
#endif

/* ---- Libraries -------------------------------------------------------------------------------*/

#if LUA_VERSION_NUM == 501
static inline void ss_lua_old_setfuncs(lua_State *L, const luaL_Reg *functions, int upvalues)
{
    for (; functions->name; functions++) {
        for (int i = 0; i < upvalues; i++)
            lua_pushvalue(L, -upvalues);
        lua_pushcclosure(L, functions->func, upvalues);
        lua_setfield(L, -(upvalues + 2), functions->name);
    }
    lua_pop(L, upvalues);
}

static inline void ss_lua_old_requiref(lua_State *L, const char *name, lua_CFunction open,
                                       int global)
{
    lua_pushcclosure(L, open, 0);
    lua_pushstring(L, name);
    lua_call(L, 1, 1);
    (void)ss_lua_old_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
    if (!global)
        return;
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_GLOBALSINDEX, name);
}

/* As in 5.1 tostring of a value of that kind. */
static inline const char *ss_lua_old_tolstring(lua_State *L, int index, size_t *length)
{
    index = ss_lua_old_absindex(L, index);
    if (luaL_getmetafield(L, index, "__tostring") != LUA_TNIL) {
        lua_pushvalue(L, index);
        lua_call(L, 1, 1);
        if (!lua_isstring(L, -1))
            luaL_error(L, "'__tostring' must return a string");
        return lua_tolstring(L, -1, length);
    }
    switch (lua_type(L, index)) {
    case LUA_TNUMBER:
    case LUA_TSTRING:
        lua_pushvalue(L, index);
        break;
    case LUA_TBOOLEAN:
        lua_pushstring(L, lua_toboolean(L, index) ? "true" : "false");
        break;
    case LUA_TNIL:
        lua_pushstring(L, "nil");
        break;
    default:
        lua_pushfstring(L, "%s: %p", lua_typename(L, lua_type(L, index)), lua_topointer(L, index));
        break;
    }
    return lua_tolstring(L, -1, length);
}

#undef luaL_newlib
#define luaL_setfuncs(L, functions, upvalues) ss_lua_old_setfuncs(L, functions, upvalues)
#define luaL_requiref(L, name, open, global) ss_lua_old_requiref(L, name, open, global)
#define luaL_tolstring(L, index, length) ss_lua_old_tolstring(L, index, length)
#define luaL_newlib(L, functions)                                             \
    (lua_createtable(L, 0, (int)(sizeof(functions) / sizeof *(functions)-1)), \
     luaL_setfuncs(L, functions, 0))
#define luaL_loadbufferx(L, text, length, name, mode) luaL_loadbuffer(L, text, length, name)
#undef luaL_checkversion
#define luaL_checkversion(L) ((void)(L))
#endif

/* ---- Calls that may yield --------------------------------------------------------------------*/

#if LUA_VERSION_NUM == 501
/* None may: a call that has returned goes on behind it, as where 5.3 calls no continuation. */
#define lua_callk(L, arguments, results, context, k) \
    ((void)(context), (void)(k), lua_call(L, arguments, results))
#define lua_pcallk(L, arguments, results, handler, context, k) \
    ((void)(context), (void)(k), lua_pcall(L, arguments, results, handler))
#define lua_yieldk(L, results, context, k) lua_yield(L, results)
#endif

#endif
