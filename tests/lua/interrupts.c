/* An interrupt of another language gets through every plain protected call of Lua. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include <stacksplice/lua.h>
#include <stacksplice/source.h>

#define CANCELLED ((HRESULT)0x800704C7)

/* ---- A language exception of some other language ---------------------------------------------*/

static atomic_int references;
static bool is_interrupt;

static HRESULT STDMETHODCALLTYPE double_QueryInterface(IUnknown *self, REFIID iid, void **out)
{
    *out = NULL;
    if (memcmp(iid, &IID_IUnknown, sizeof *iid) != 0 &&
        memcmp(iid, &IID_IAgileObject, sizeof *iid) != 0 &&
        !(is_interrupt && memcmp(iid, &stacksplice_IID_IScriptInterrupt, sizeof *iid) == 0))
        return E_NOINTERFACE;
    atomic_fetch_add(&references, 1);
    *out = self;
    return S_OK;
}

static ULONG STDMETHODCALLTYPE double_AddRef(IUnknown *self)
{
    (void)self;
    return (ULONG)atomic_fetch_add(&references, 1) + 1;
}

static ULONG STDMETHODCALLTYPE double_Release(IUnknown *self)
{
    (void)self;
    return (ULONG)atomic_fetch_sub(&references, 1) - 1;
}

static const IUnknownVtbl double_vtbl = {double_QueryInterface, double_AddRef, double_Release};
static IUnknown exception = {&double_vtbl};

/* ---- Helpers ---------------------------------------------------------------------------------*/

/* Fails as a function does that called the other language. */
static int interrupt(lua_State *L)
{
    (void)stacksplice_originate(CANCELLED, "stop", 4, &exception, NULL);
    return stacksplice_lua_raise(L, CANCELLED);
}

/* A host's function in the middle that knows of borders: f() and on with its failure. */
static int border(lua_State *L)
{
    HRESULT hr = stacksplice_lua_pcall(L, 0, 0);

    return FAILED(hr) ? stacksplice_lua_raise(L, hr) : 0;
}

static int plain_border(lua_State *L)
{
    lua_pushboolean(L, lua_pcall(L, 0, 0, 0) == LUA_OK);
    return 1;
}

static int open_state(void **state)
{
    lua_State *L = luaL_newstate();

    luaL_openlibs(L);
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 1);
    lua_register(L, "interrupt", interrupt);
    lua_register(L, "border", border);
    lua_register(L, "plain_border", plain_border);
    lua_settop(L, 0);
    is_interrupt = true;
    *state = L;
    return 0;
}

static int close_state(void **state)
{
    RoClearError();
    lua_close(*state);
    assert_int_equal(atomic_load(&references), 0);
    return 0;
}

static HRESULT run(lua_State *L, const char *script)
{
    HRESULT hr;

    if (luaL_loadbufferx(L, script, strlen(script), "@interrupts.lua", "t") != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
    hr = stacksplice_lua_pcall(L, 0, 0);
    assert_int_equal(lua_gettop(L), 0);
    return hr;
}

/* What a script set before it was interrupted. */
static void assert_reached(lua_State *L, const char *expected)
{
    lua_getglobal(L, "reached");
    assert_string_equal(luaL_tolstring(L, -1, NULL), expected);
    lua_pop(L, 2);
}

static void assert_clean(lua_State *L)
{
    assert_null((void *)(uintptr_t)lua_gethook(L));
    assert_int_equal(run(L, "reached = 'clean' pcall(error) reached = 'after'"), S_OK);
    assert_reached(L, "after");
}

/* ---- Tests -----------------------------------------------------------------------------------*/

static void test_it_gets_through(void **state)
{
    static const char *const scripts[] = {
        "reached = 1 interrupt() reached = 2",
        "reached = 1 pcall(interrupt) reached = 2",
        "reached = 1 return pcall(interrupt)",
        "reached = 1 return pcall(pcall, pcall, interrupt)",
        "reached = 1 pcall(function() pcall(interrupt) reached = 2 end) reached = 3",
        "reached = 1 xpcall(interrupt, function(e) return e end) reached = 2",
        "reached = 1 xpcall(interrupt, debug.traceback) reached = 2",
        "reached = 1 coroutine.wrap(function() pcall(interrupt) reached = 2 end)() reached = 3",
        "reached = 1 coroutine.resume(coroutine.create(interrupt)) reached = 2",
        ("reached = 1 coroutine.resume(coroutine.create(function() pcall(interrupt) end)) reached "
         "= 2"),
        "reached = 1 plain_border(interrupt) reached = 2",
        "reached = 1 plain_border(function() plain_border(interrupt) end) reached = 2",
        "reached = 1 border(interrupt) reached = 2",
        "reached = 1 pcall(border, function() pcall(interrupt) end) reached = 2",
        "reached = 1 table.sort({1, 2}, function() pcall(interrupt) return true end) reached = 2",
        "reached = 1 while true do pcall(interrupt) end",
        "reached = 1 repeat local ok = pcall(interrupt) until ok reached = 2",
    };
    lua_State *L = *state;

    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        IRestrictedErrorInfo *error = NULL;

        if (run(L, scripts[i]) != CANCELLED)
            fail_msg("%s: was swallowed", scripts[i]);
        assert_reached(L, "1");
        assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
        error->lpVtbl->Release(error);
        assert_clean(L);
    }
}

static void test_our_own_pcall_catches_it(void **state)
{
    lua_State *L = *state;

    assert_int_equal(run(L, "local ok, e, info = stacksplice.pcall(interrupt)\n"
                            "assert(not ok and e.hresult == 0x800704C7 and info == e)\n"
                            "pcall(error) reached = 'on'"),
                     S_OK);
    assert_reached(L, "on");
    assert_int_equal(run(L, "local ok, e = stacksplice.pcall(pcall, interrupt)\n"
                            "assert(not ok and e.hresult == 0x800704C7)\n"
                            "ok, e = stacksplice.xpcall(interrupt, function(v) return v end)\n"
                            "assert(not ok and e.hresult == 0x800704C7) reached = 'on and on'"),
                     S_OK);
    assert_reached(L, "on and on");
    assert_clean(L);
}

static void test_former_hooks_are_restored(void **state)
{
    lua_State *L = *state;

    assert_int_equal(run(L, "local function hook() end debug.sethook(hook, 'l', 1000)\n"
                            "stacksplice.pcall(interrupt)\n"
                            "local f, mask, count = debug.gethook()\n"
                            "assert(f == hook and mask == 'l' and count == 1000)\n"
                            "local co = coroutine.wrap(function()\n"
                            "  debug.sethook(hook, 'r')\n"
                            "  stacksplice.pcall(function() pcall(interrupt) end)\n"
                            "  local g, m = debug.gethook() assert(g == hook and m == 'r')\n"
                            "end) co()\n"
                            "debug.sethook()"),
                     S_OK);
    assert_clean(L);
}

static void test_another_error_with_that_hresult_is_caught(void **state)
{
    lua_State *L = *state;

    is_interrupt = false;
    assert_int_equal(run(L, "local ok, e = pcall(interrupt)\n"
                            "assert(not ok and e.hresult == 0x800704C7) reached = 'on'"),
                     S_OK);
    assert_reached(L, "on");
    assert_clean(L);
}

static void test_an_interrupted_state_may_be_closed(void **state)
{
    lua_State *L = luaL_newstate();

    (void)state;
    luaL_openlibs(L);
    lua_register(L, "interrupt", interrupt);
    assert_int_equal(luaL_loadstring(L, "return pcall(interrupt)"), LUA_OK);
    /* Lua 5.3 has one more instruction behind a tail call, so the hook comes in time there. */
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_VERSION_NUM < 504 ? LUA_ERRRUN : LUA_OK);
    lua_close(L);
    assert_clean(*state);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_state, close_state)
    static const struct CMUnitTest tests[] = {
        TEST(test_it_gets_through),
        TEST(test_our_own_pcall_catches_it),
        TEST(test_former_hooks_are_restored),
        TEST(test_another_error_with_that_hresult_is_caught),
        TEST(test_an_interrupted_state_may_be_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
