/* Interrupts and hosts: their hooks, their other states, and what they run afterwards. */
#include "interrupts.h"

INTERRUPT_TEST(test_former_hooks_are_restored)
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

/* A hook of a host in C, on the coroutine itself. */
static unsigned hooked;

static void count_lines(lua_State *L, lua_Debug *activation)
{
    hooked++;
}

INTERRUPT_TEST(test_hooks_of_the_host_come_back_as_they_were)
{
    static const char *const scripts[] = {
        "stacksplice.pcall(interrupt)",
        "stacksplice.pcall(function() while true do pcall(interrupt) end end)",
        "stacksplice.pcall(border, function() pcall(interrupt) end)",
        "local co = coroutine.wrap(function() stacksplice.pcall(pcall, interrupt) end) co()",
        "stacksplice.xpcall(function() coroutine.wrap(interrupt)() end, print)",
    };
    lua_State *L = *state;

    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        lua_sethook(L, count_lines, LUA_MASKLINE | LUA_MASKRET, 0);
        assert_int_equal(run(L, scripts[i]), S_OK);
        assert_ptr_equal((void *)(uintptr_t)lua_gethook(L), (void *)(uintptr_t)count_lines);
        assert_int_equal(lua_gethookmask(L), LUA_MASKLINE | LUA_MASKRET);
        hooked = 0;
        assert_int_equal(run(L, "local x = 1\nx = 2\nreturn x"), S_OK);
        assert_true(hooked >= 3);
        lua_sethook(L, count_lines, LUA_MASKCOUNT, 1234);
        assert_int_equal(run(L, "return pcall(interrupt)"), CANCELLED);
        RoClearError();
        assert_int_equal(lua_gethookmask(L), LUA_MASKCOUNT);
        assert_int_equal(lua_gethookcount(L), 1234);
        lua_sethook(L, NULL, 0, 0);
    }
}

#if LUA_VERSION_NUM >= 504
INTERRUPT_TEST(test_a_coroutine_that_rests_gets_its_hook_back)
{
    lua_State *L = *state;

    assert_int_equal(run(L,
                         "local function hook() end\n"
                         "local co = coroutine.create(function()\n"
                         "  debug.sethook(hook, 'l')\n"
                         "  pcall(function()\n"
                         "    local c <close> = setmetatable({}, {__close = function() "
                         "coroutine.yield(1) end})\n"
                         "    interrupt() end)\n"
                         "  return 2 end)\n"
                         "local ok = stacksplice.pcall(function()\n"
                         "  coroutine.resume(co) reached = 2 end)\n"
                         "assert(not ok and reached ~= 2 and coroutine.status(co) == 'suspended')\n"
                         "local ok, value = coroutine.resume(co)\n"
                         "assert(ok and value == 2)\n"
                         "local f, mask = debug.gethook(co) assert(f == hook and mask == 'l')"),
                     S_OK);
    assert_clean(L);
}
#endif

/* A script that has ended is over: its host got the error, and what it begins then runs. */
INTERRUPT_TEST(test_a_host_with_a_plain_pcall_goes_on)
{
    static const char *const scripts[] = {
        "interrupt()", "pcall(interrupt)", "return pcall(interrupt)",
        "while true do pcall(interrupt) end", "coroutine.wrap(function() pcall(interrupt) end)()"};
    lua_State *L = *state;

    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        assert_int_equal(luaL_loadstring(L, scripts[i]), LUA_OK);
        assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_ERRRUN);
        assert_string_equal(luaL_tolstring(L, -1, NULL), "stop");
        lua_settop(L, 0);
        assert_int_equal(luaL_dostring(L, "reached = 'on' pcall(error) reached = 'on and on'"),
                         LUA_OK);
        assert_reached(L, "on and on");
        assert_clean(L);
    }
}

/* Not as lua.c does it: with a function of its own between, as it does. */
static int run_lines(lua_State *L)
{
    unsigned failed = 0;

    for (int i = 0; i < 4; i++) {
        if (luaL_loadstring(L, i == 1 ? "pcall(interrupt)" : "lines = (lines or 0) + 1") !=
                LUA_OK ||
            lua_pcall(L, 0, 0, 0) != LUA_OK)
            failed++;
    }
    lua_pushinteger(L, failed);
    return 1;
}

INTERRUPT_TEST(test_a_prompt_goes_on_with_the_next_line)
{
    lua_State *L = *state;

    lua_pushcfunction(L, run_lines);
    assert_int_equal(lua_pcall(L, 0, 1, 0), LUA_OK);
    assert_int_equal(lua_tointeger(L, -1), 1);
    lua_getglobal(L, "lines");
    assert_int_equal(lua_tointeger(L, -1), 3);
    lua_settop(L, 0);
    assert_clean(L);
}

/* ---- The handler in a slot -------------------------------------------------------------------*/

/* A C function returns normally, but the interrupt that it swallowed fails the call. */
INTERRUPT_TEST(test_a_call_with_a_handler_in_a_slot)
{
    lua_State *L = *state;

    lua_pushcfunction(L, stacksplice_lua_handler);
    for (int nresults = LUA_MULTRET; nresults < 3; nresults++) {
        lua_getglobal(L, "pcall");
        lua_getglobal(L, "interrupt");
        assert_int_equal(stacksplice_lua_xpcall(L, 1, nresults, 1), CANCELLED);
        assert_int_equal(lua_gettop(L), 1);
        RoClearError();
        assert_int_equal(luaL_loadstring(L, "while true do pcall(interrupt) end"), LUA_OK);
        assert_int_equal(stacksplice_lua_xpcall(L, 0, nresults, 1), CANCELLED);
        assert_int_equal(lua_gettop(L), 1);
        RoClearError();
    }
    lua_settop(L, 0);
    assert_clean(L);
}

/* ---- Several states --------------------------------------------------------------------------*/

/* enter(state, script): runs it in another state, as a host does that knows of borders. */
static int enter(lua_State *L)
{
    lua_State *other = lua_touserdata(L, 1);
    HRESULT hr;

    if (luaL_loadstring(other, luaL_checkstring(L, 2)) != LUA_OK)
        return luaL_error(L, "%s", lua_tostring(other, -1));
    hr = stacksplice_lua_pcall(other, 0, 0);
    return FAILED(hr) ? stacksplice_lua_raise(L, hr) : 0;
}

INTERRUPT_TEST(test_through_other_states_and_back)
{
    static const char *const scripts[] = {
        "reached = 1 enter(B, 'pcall(interrupt)') reached = 2",
        "reached = 1 while true do pcall(enter, B, 'while true do pcall(interrupt) end') end",
        "reached = 1 pcall(enter, B, [[pcall(enter, A, 'pcall(interrupt)') reached = 2]])",
        "reached = 1 pcall(enter, B, [[return pcall(enter, A,\n"
        "'return pcall(enter, B, \"return pcall(interrupt)\")')]]) reached = 2",
        "reached = 1 coroutine.wrap(function() pcall(enter, B, [[coroutine.wrap(function()\n"
        "pcall(enter, A, 'return pcall(interrupt)') end)()]]) end)() reached = 2",
    };
    lua_State *A = *state, *B;
    void *second;

    (void)open_interruptible(&second);
    B = second;
    for (int i = 0; i < 2; i++) {
        lua_register(i ? A : B, "enter", enter);
        lua_pushlightuserdata(i ? A : B, i ? B : A);
        lua_setglobal(i ? A : B, i ? "B" : "A");
        lua_pushlightuserdata(i ? A : B, i ? A : B);
        lua_setglobal(i ? A : B, i ? "A" : "B");
    }
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        assert_int_equal(run(B, "reached = 'b'"), S_OK);
        if (run(A, scripts[i]) != CANCELLED)
            fail_msg("%s: was swallowed", scripts[i]);
        RoClearError();
        assert_reached(A, "1");
        assert_reached(B, "b");
        assert_clean(A);
        assert_clean(B);
    }
    assert_int_equal(run(A, "local ok, e = stacksplice.pcall(enter, B, 'pcall(interrupt)')\n"
                            "assert(not ok and e.hresult == 0x800704C7)\n"
                            "enter(B, 'pcall(error) reached = \"on\"') reached = 'on'"),
                     S_OK);
    assert_reached(B, "on");
    lua_close(B);
    assert_clean(A);
}

/* ---- Hosts that resume -----------------------------------------------------------------------*/

INTERRUPT_TEST(test_a_host_that_resumes)
{
    static const char *const scripts[] = {"pcall(interrupt)", "return pcall(interrupt)",
                                          "coroutine.yield() while true do pcall(interrupt) end"};
    lua_State *L = *state;

    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        lua_State *co = lua_newthread(L);
        int results = 0;
        HRESULT hr;

        assert_int_equal(luaL_loadstring(co, scripts[i]), LUA_OK);
        do
            hr = stacksplice_lua_resume(co, i % 2 ? L : NULL, 0, &results);
        while (hr == S_FALSE);
        assert_int_equal(hr, CANCELLED);
        RoClearError();
        lua_settop(L, 0);
        assert_clean(L);
    }
}
