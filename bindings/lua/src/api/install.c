/*
 * install: replaces functions of the standard library that lose frames of an error.  What others
 * have put there, such as a profiler, stays.  Uninstalling restores each one if ours is still there.
 */
#include "api/api.h"
#include "cross/cross.h"
#include "traceback/traceback.h"

#include <stacksplice/crash.h>

#include <dlfcn.h>

#include <lualib.h>

/* A field of the library to replace. */
static const struct replacement {
    const char *library, *field;
    lua_CFunction function;
} replacements[] = {
    {LUA_DBLIBNAME, "traceback", ss_lua_traceback},
    {LUA_COLIBNAME, "wrap", ss_lua_wrap_function},
    {LUA_COLIBNAME, "resume", ss_lua_resume_function},
};

enum { REPLACEMENTS = sizeof replacements / sizeof *replacements };

/* The binary that FUNCTION lies in; NULL: unknown, as in a static program. */
static const void *binary_of(const void *function)
{
    Dl_info info;

    return dladdr(function, &info) ? info.dli_fbase : NULL;
}

bool ss_lua_is_of_lua(lua_State *L)
{
    lua_CFunction function = lua_tocfunction(L, -1);

    if (!function)
        return false;
    if (lua_getupvalue(L, -1, 1)) {
        lua_pop(L, 1);
        return false;
    }
    return binary_of((const void *)(uintptr_t)function) ==
           binary_of((const void *)(uintptr_t)lua_newstate);
}

/* Upvalues: for each replacement the library's table, or nil, and its former function; true if this
   installation switched local variables on. */
static int uninstall(lua_State *L)
{
    if (lua_toboolean(L, lua_upvalueindex(REPLACEMENTS * 2 + 1)))
        ss_lua_state_open(L)->shows_locals = false;
    for (int i = 0; i < REPLACEMENTS; i++) {
        int library = lua_upvalueindex(i * 2 + 1);

        if (!lua_istable(L, library))
            continue;
        lua_pushstring(L, replacements[i].field);
        lua_pushvalue(L, -1);
        lua_rawget(L, library);
        if (lua_tocfunction(L, -1) == replacements[i].function) {
            lua_pop(L, 1);
            lua_pushvalue(L, lua_upvalueindex(i * 2 + 2));
            lua_rawset(L, library);
        }
        lua_settop(L, 0);
        lua_pushnil(L);
        lua_replace(L, library);
    }
    return 0;
}

/*
 * Push the replacement.  The coroutine functions are other ones than the module's, with the same
 * effect, so that package.loaded has one name for each, the library's.  What they are closures over
 * is of no use, also to a script that reads it by the library debug.
 */
static void push_replacement(lua_State *L, const struct replacement *what)
{
    if (what->function == ss_lua_traceback) {
        lua_pushcfunction(L, what->function);
        return;
    }
    lua_pushboolean(L, 1);
    lua_pushcclosure(L, what->function, 1);
}

/* Report crashes, as the table of options at 1 wants it. [-0, +0, e] */
static void report_crashes(lua_State *L)
{
    const stacksplice_crash_options options = {.size = sizeof options, .others_first = 1};

    if (FAILED(stacksplice_install_crash_handler(ss_lua_option(L, "others_first", false) ? &options
                                                                                         : NULL)))
        luaL_error(L, "not enough memory");
}

/* What the table of options at 1, or nothing, asks for; whether it asks for local variables.
   [-0, +0, e] */
static bool take_options(lua_State *L, ss_lua_state *state)
{
    if (lua_isnoneornil(L, 1))
        return false;
    luaL_checktype(L, 1, LUA_TTABLE);
    if (ss_lua_option(L, "crash", false))
        report_crashes(L);
    if (!ss_lua_option(L, "locals", false))
        return false;
    state->shows_locals = true;
    return true;
}

static int install(lua_State *L, bool with_locals)
{
    lua_settop(L, 0);
    luaL_checkstack(L, 2 * REPLACEMENTS + 8, "stacksplice");
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    for (int i = 0; i < REPLACEMENTS; i++) {
        lua_pushstring(L, replacements[i].library);
        if (lua_rawget(L, 1) != LUA_TTABLE) {
            lua_pop(L, 1);
            lua_pushnil(L);
            lua_pushnil(L);
            continue;
        }
        lua_pushstring(L, replacements[i].field);
        lua_rawget(L, -2);
        if (!ss_lua_is_of_lua(L)) {
            lua_pushnil(L);
            lua_replace(L, -3);
        }
    }
    /* Replace only now: nothing can fail any more except for want of memory, in an existing
       field. */
    for (int i = 0; i < REPLACEMENTS; i++) {
        if (!lua_istable(L, 2 + i * 2))
            continue;
        lua_pushstring(L, replacements[i].field);
        push_replacement(L, &replacements[i]);
        lua_rawset(L, 2 + i * 2);
    }
    lua_pushboolean(L, with_locals);
    lua_pushcclosure(L, uninstall, REPLACEMENTS * 2 + 1);
    return 1;
}

int ss_lua_install_function(lua_State *L)
{
    luaL_argcheck(L, lua_isnoneornil(L, 1), 1, "only install of stacksplice.host has options");
    return install(L, false);
}

int ss_lua_host_install_function(lua_State *L)
{
    return install(L, take_options(L, ss_lua_state_open(L)));
}
