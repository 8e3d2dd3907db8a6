/* Prices an order: C calls Lua, and Lua calls C, which fails. */
#include <lauxlib.h>
#include <lualib.h>
#include <stacksplice/lua.h>
#include <stacksplice/stacksplice.h>
#include <stdio.h>
#include <string.h>

static HRESULT find_rate(const char *currency, double *rate)
{
    if (strcmp(currency, "EUR")) { /* the error is made where it happens */
        stacksplice_originate(E_BOUNDS, "no such rate", 12, NULL, NULL);
        return E_BOUNDS;
    }
    *rate = 1;
    return S_OK;
}

static int rate(lua_State *L) /* Lua calls this */
{
    double found;
    HRESULT hr = find_rate(luaL_checkstring(L, 1), &found);

    if (FAILED(hr)) /* the thread's error becomes a Lua error */
        return stacksplice_lua_raise(L, hr);
    lua_pushnumber(L, found);
    return 1;
}

static int print(const char *text, size_t length, void *file)
{
    return fwrite(text, 1, length, file) != length;
}

static void price(lua_State *L, const char *currency) /* C calls Lua */
{
    IRestrictedErrorInfo *error;

    lua_getglobal(L, "price");
    lua_pushstring(L, currency);
    if (stacksplice_lua_pcall(L, 1, 0) < 0 && GetRestrictedErrorInfo(&error) == S_OK) {
        stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, print, stderr);
        error->lpVtbl->Release(error);
    }
}

int main(void)
{
    lua_State *L = luaL_newstate();

    luaL_openlibs(L);
    lua_register(L, "rate", rate);
    if (luaL_dofile(L, "rules.lua"))
        return 2;
    price(L, "EUR");
    price(L, "XXX");
    lua_close(L);
    return 0;
}
