/* lua.h: a host calls Lua, and Lua calls the host. */
#include <assert.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stacksplice/deadline.h>
#include <stacksplice/lua.h>
#include <stacksplice/script.h>
#include <stdio.h>
#include <string.h>

/* A state with the module, and with the part of it that only trusted scripts may have. */
static lua_State *open_state(void)
{
    lua_State *L = luaL_newstate();

    luaL_openlibs(L);
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 0);
    luaL_requiref(L, "stacksplice.host", luaopen_stacksplice_host, 0);
    lua_pop(L, 2);
    stacksplice_lua_allow_source_lines(L, 1); /* these scripts may open files anyway */
    return L;
}

/* ---- Calls -----------------------------------------------------------------------------------*/

static HRESULT price(lua_State *L, const char *currency, double *result)
{
    HRESULT hr;

    lua_getglobal(L, "price");
    lua_pushstring(L, currency);
    hr = stacksplice_lua_pcall(L, 1, 1);
    if (SUCCEEDED(hr)) { /* otherwise the thread has the error, and the stack is as before */
        *result = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    return hr;
}

/* Many calls share one message handler, below their functions. */
static HRESULT price_many(lua_State *L, int count)
{
    HRESULT hr = S_OK;
    int handler;

    lua_pushcfunction(L, stacksplice_lua_handler);
    handler = lua_gettop(L);
    for (int i = 0; i < count && SUCCEEDED(hr); i++) {
        lua_getglobal(L, "price");
        lua_pushliteral(L, "EUR");
        hr = stacksplice_lua_xpcall(L, 1, 0, handler);
    }
    lua_pop(L, 1);
    return hr;
}

/* A script that does not end is interrupted after 50 milliseconds, here without a report. */
static HRESULT run_within(lua_State *L, const char *script)
{
    if (luaL_loadstring(L, script) != LUA_OK)
        return stacksplice_lua_originate_status(L, -1, LUA_ERRSYNTAX);
    return stacksplice_lua_pcall_within(
        L, 0, 0, 50, STACKSPLICE_DEADLINE_NO_TEXT | STACKSPLICE_DEADLINE_NO_FILE, "rules");
}

/* One step of a coroutine: S_FALSE while it yields, S_OK when it has returned. */
static HRESULT step(lua_State *coroutine, lua_State *from)
{
    int count;
    HRESULT hr = stacksplice_lua_resume(coroutine, from, 0, &count);

    if (SUCCEEDED(hr))
        lua_pop(coroutine, count);
    return hr;
}

#if LUA_VERSION_NUM >= 502
static int finish(lua_State *L, int status, lua_KContext unused)
{
    (void)unused;
    lua_pushboolean(L, status >= 0 || status == LUA_YIELD);
    return 1;
}

/* For Lua: calls its argument, which may yield, and says whether that went well. */
static int try(lua_State *L)
{
    return finish(L, stacksplice_lua_pcallk(L, 0, 0, 0, finish), 0);
}
#endif

/* ---- Errors of the host ----------------------------------------------------------------------*/

/* Lua calls this: the thread's error becomes a Lua error. */
static int rate(lua_State *L)
{
    if (strcmp(luaL_checkstring(L, 1), "EUR") != 0) {
        stacksplice_originate(E_BOUNDS, "no such rate", 12, NULL, NULL);
        return stacksplice_lua_raise(L, E_BOUNDS);
    }
    lua_pushnumber(L, 1);
    return 1;
}

/* The same for code that frees what it holds before it raises. */
static int rate_with_cleanup(lua_State *L)
{
    stacksplice_originate(E_BOUNDS, "no such rate", 12, NULL, NULL);
    if (!stacksplice_lua_push_error(L, E_BOUNDS))
        return luaL_error(L, "stack overflow");
    return lua_error(L);
}

/* ---- Errors that a plain lua_pcall caught ----------------------------------------------------*/

static HRESULT run(lua_State *L, const char *script)
{
    HRESULT hr;
    int status = luaL_loadstring(L, script);

    if (status != LUA_OK)
        hr = stacksplice_lua_originate_status(L, -1, status); /* 80020101: it does not compile */
    else if (lua_pcall(L, 0, 0, 0) != LUA_OK)
        hr = stacksplice_lua_originate(L, -1);
    else
        return S_OK;
    lua_pop(L, 1);
    return hr;
}

/* An error as an object of COM that stands for the value on the top, and the value of it again. */
static void keep_value(lua_State *L)
{
    IUnknown *exception = NULL;

    if (stacksplice_lua_exception(L, -1, &exception) != S_OK)
        return;
    if (stacksplice_lua_push(L, exception)) {
        assert(lua_rawequal(L, -1, -2));
        lua_pop(L, 1);
    }
    exception->lpVtbl->Release(exception);
}

static const char script[] = "function price(currency) return 25 * rate(currency) end\n"
                             "function steps() coroutine.yield() end\n";

int main(void)
{
    lua_State *L = open_state(), *coroutine;
    double result;

    lua_register(L, "rate", rate);
    lua_register(L, "rate_with_cleanup", rate_with_cleanup);
    assert(luaL_dostring(L, script) == LUA_OK);
    assert(price(L, "EUR", &result) == S_OK && result == 25);
    assert(price(L, "XXX", &result) == E_BOUNDS);
    assert(price_many(L, 3) == S_OK);
    assert(run_within(L, "while true do end") == HRESULT_FROM_WIN32(ERROR_TIMEOUT));
    assert(run(L, "return +") == SCRIPT_E_REPORTED && run(L, "rate_with_cleanup()") == E_BOUNDS);

    coroutine = lua_newthread(L);
    lua_getglobal(coroutine, "steps");
    assert(step(coroutine, L) == S_FALSE && step(coroutine, L) == S_OK);
#if LUA_VERSION_NUM >= 502
    lua_register(L, "try", try);
    assert(run(L, "assert(not try(function() error('late') end) and try(rate == nil or print))") ==
           S_OK);
#endif
    lua_newtable(L);
    keep_value(L);
    lua_close(L);
    puts("\nok");
    return 0;
}
