/* A host with a Lua of its own that no other library can see. */
#define _GNU_SOURCE
#include <stacksplice/stacksplice.h>
#include <stacksplice/lua.h>

#include <lauxlib.h>
#include <lualib.h>
#include <dlfcn.h>

#include "../shared/check.h"

static const char script[] = "local function price_of(order)\n"
                             "  error('no price for ' .. order)\n"
                             "end\n"
                             "function run(order)\n"
                             "  price_of(order)\n"
                             "end\n";

static int call_back(lua_State *L)
{
    lua_getglobal(L, "run");
    lua_pushvalue(L, 1);
    lua_call(L, 1, 0);
    return 0;
}

int main(void)
{
    static report r;
    lua_State *L = luaL_newstate();
    IRestrictedErrorInfo *error = NULL;

    CHECK(dlsym(RTLD_DEFAULT, "lua_pcallk") == NULL);
    CHECK(L != NULL);
    luaL_openlibs(L);
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 0);
    lua_pop(L, 1);
    CHECK(luaL_loadbuffer(L, script, sizeof script - 1, "@prices.lua") == LUA_OK);
    CHECK(lua_pcall(L, 0, 0, 0) == LUA_OK);

    lua_pushcfunction(L, call_back);
    lua_pushliteral(L, "order 17");
    CHECK(stacksplice_lua_pcall(L, 1, 0) < 0);
    CHECK(lua_gettop(L) == 0);
    CHECK(stacksplice_peek_error(&error) == S_OK && error != NULL);
    CHECK(stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, report_write, &r) ==
          S_OK);
    REPORT_HOLDS(&r, "no price for order 17");
    REPORT_HOLDS(&r, "prices.lua");
    REPORT_HOLDS(&r, "price_of");
    REPORT_HOLDS(&r, "main"); /* the native part of the stack */
    error->lpVtbl->Release(error);
    RoClearError();
    lua_close(L);
    printf("\nok\n");
    return 0;
}
