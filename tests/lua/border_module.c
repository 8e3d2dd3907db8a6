/* A C module of somebody else, which brought its own copy of the binding along. */
#include <lauxlib.h>

#include <stacksplice/lua.h>

/* border(f, ...): calls f as a host does, and raises again what comes out. */
static int border(lua_State *L)
{
    stacksplice_hresult hr = stacksplice_lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET);

    return hr < 0 ? stacksplice_lua_raise(L, hr) : lua_gettop(L);
}

/* fail(): an error that was born in C. */
static int fail(lua_State *L)
{
    RoOriginateErrorW(E_ACCESSDENIED, 0, (PCWSTR)u"no entry");
    return stacksplice_lua_raise(L, E_ACCESSDENIED);
}

static const luaL_Reg functions[] = {
    {"border", border},
    {"fail", fail},
    {"handler", stacksplice_lua_handler},
    {NULL, NULL},
};

__attribute__((visibility("default"))) int luaopen_stacksplice_test_border(lua_State *L);

int luaopen_stacksplice_test_border(lua_State *L)
{
    luaL_newlib(L, functions);
    return 1;
}
