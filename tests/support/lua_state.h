/* For tests of the Lua binding in C: states that have everything, and scripts in them. */
#ifndef STACKSPLICE_TEST_LUA_STATE_H
#define STACKSPLICE_TEST_LUA_STATE_H

#include "support.h"

#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include <stacksplice/lua.h>

#if LUA_VERSION_NUM >= 505
#define NEW_STATE(allocator, data) lua_newstate(allocator, data, 1)
#else
#define NEW_STATE(allocator, data) lua_newstate(allocator, data)
#endif

/* Give L Lua's libraries, and ours as a global; nothing is left on its stack. */
static inline lua_State *fill_state(lua_State *L)
{
    assert_non_null(L);
    luaL_openlibs(L);
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 1);
    luaL_requiref(L, "stacksplice.host", luaopen_stacksplice_host, 0);
    lua_settop(L, 0);
    return L;
}

static inline int open_state(void **state)
{
    RoClearError();
    *state = fill_state(luaL_newstate());
    return 0;
}

static inline int close_state(void **state)
{
    RoClearError();
    if (*state)
        lua_close(*state);
    return 0;
}

/* A test whose *state is a state that has everything. */
#define STATE_TEST(name) TEST_WITH(name, open_state, close_state)

/* Run SCRIPT as CHUNK ("@name"), and leave RESULTS results. */
static inline void run_chunk(lua_State *L, const char *chunk, const char *script, int results)
{
    if (luaL_loadbufferx(L, script, strlen(script), chunk, "t") != LUA_OK ||
        lua_pcall(L, 0, results, 0) != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
}

#endif
