/* An interrupt of another language gets through every plain protected call of Lua, and what hosts have of
   it: their hooks, their other states, and what they run afterwards. */
#include "error_double.h"
#include "host.h"

#include <stacksplice/script.h>

#define CANCELLED ((HRESULT)0x800704C7)

static error_double exception; /* of some other language */

/* ---- Helpers ---------------------------------------------------------------------------------*/

/* Fails as a function does that called the other language. */
static int interrupt(lua_State *L)
{
    (void)stacksplice_originate(CANCELLED, "stop", 4, error_double_unknown(&exception), NULL);
    return stacksplice_lua_raise(L, CANCELLED);
}

static int plain_border(lua_State *L)
{
    lua_pushboolean(L, lua_pcall(L, 0, 0, 0) == LUA_OK);
    return 1;
}

static int open_interruptible(void **state)
{
    lua_State *L = fill_state(luaL_newstate());

    lua_register(L, "interrupt", interrupt);
    lua_register(L, "border", border);
    lua_register(L, "plain_border", plain_border);
    error_double_init(&exception, 1);
    exception.is_interrupt = 1;
    exception.type = NULL;
    exception.message = "stop";
    exception.message_length = 4;
    *state = L;
    return 0;
}

static int close_and_count(void **state)
{
    (void)close_state(state);
    assert_int_equal(exception.outside, 1);
    return 0;
}

#define INTERRUPT_TEST(name) TEST_WITH(name, open_interruptible, close_and_count)

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

/* ---- Through protected calls ------------------------------------------------------------------*/

/* LuaJIT calls no hook when its own pcall returns to the host. */
#if SS_LUA_JIT
#define LAST_PCALL "pcall(interrupt) return 1"
#else
#define LAST_PCALL "return pcall(interrupt)"
#endif

/* What would swallow the interrupt if it were an error like others. */
static const char *const swallowing[] = {
    "interrupt()",
    "pcall(interrupt)",
    "return pcall(interrupt)",
    "return pcall(pcall, pcall, interrupt)",
    "pcall(function() pcall(interrupt) reached = 2 end)",
    "return pcall(function() return pcall(interrupt) end)",
    "while true do pcall(interrupt) end",
    "collectgarbage() pcall(pcall, error, select(2, pcall(interrupt)))",
    /* Coroutines, ones that have rested, too. */
    "coroutine.wrap(function() pcall(interrupt) reached = 2 end)()",
    "coroutine.resume(coroutine.create(function() pcall(interrupt) end))",
    "return coroutine.resume(coroutine.create(function() interrupt() end))",
    "return coroutine.wrap(function() interrupt() end)()",
    "return pcall(coroutine.wrap(function() interrupt() end))",
    "xpcall(function() return coroutine.resume(coroutine.create(function() interrupt() end)) end, "
    "print)",
#if LUA_VERSION_NUM >= 502 /* before it nothing yields across a pcall */
    "local co = coroutine.wrap(function() pcall(function() coroutine.yield() interrupt() end)\n"
    "reached = 2 end) co() co()",
#endif
    "local function nest(n) if n == 0 then return pcall(interrupt) end\n"
    "return coroutine.resume(coroutine.create(nest), n - 1) end nest(150)",
    /* Calls from C. */
    "while true do plain_border(interrupt) end",
    "pcall(border, function() while true do pcall(interrupt) end end)",
    "coroutine.wrap(function() border(function() return pcall(interrupt) end) end)()",
    "return pcall(plain_border, function() return pcall(interrupt) end)",
    "pcall(table.sort, {3, 1, 2}, function() pcall(interrupt) return true end)",
#if !SS_LUA_JIT /* whose load keeps all hooks off after an error in one */
    "load(function() pcall(interrupt) reached = 2 return nil end)",
#endif
    "pcall((loadstring or load)('return pcall(interrupt)'))",
    "local t = setmetatable({}, {__index = function() return pcall(interrupt) end})\n"
    "local x = t.field",
    "for _ in function() return pcall(interrupt) end do end",
    /* Handlers, ones that would run on if they were called, too. */
    "xpcall(interrupt, debug.traceback)",
    "xpcall(interrupt, stacksplice.handler)",
    "pcall(xpcall, interrupt, stacksplice.traceback)",
    "xpcall(interrupt, function() pcall(interrupt) error('in the handler') end)",
#if !SS_LUA_JIT /* whose handlers run inside of the hook, and no hook runs there */
    "xpcall(function() pcall(interrupt) end, function() while true do end end)",
#endif
#if LUA_VERSION_NUM >= 502 /* before it xpcall passes no arguments, and wrap wants a Lua function */
    "xpcall(pcall, coroutine.wrap(function() while true do end end), interrupt)",
    "coroutine.wrap(xpcall)(function() pcall(interrupt) end, function() while true do end end)",
#endif
};

/* Run SCRIPT, which is interrupted. */
static void run_interrupted(lua_State *L, const char *script)
{
    char whole[2000];

    (void)snprintf(whole, sizeof whole, "reached = 1 do %s end reached = 3", script);
    if (run(L, whole) != CANCELLED)
        fail_msg("%s: was swallowed", script);
    assert_reached(L, "1");
}

static void get_through(lua_State *L)
{
    for (size_t i = 0; i < sizeof swallowing / sizeof *swallowing; i++) {
        IRestrictedErrorInfo *error = NULL;

        run_interrupted(L, swallowing[i]);
        assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
        error->lpVtbl->Release(error);
        assert_clean(L);
    }
}

INTERRUPT_TEST(test_it_gets_through)
{
    get_through(*state);
}

/* Also past what keeps errors that are raised again, and without a call of a script's handler. */
INTERRUPT_TEST(test_it_gets_through_what_keeps_errors)
{
    assert_int_equal(run(*state, "uninstall = stacksplice.install{pcall = true}"), S_OK);
    get_through(*state);
    assert_int_equal(run(*state, "uninstall()"), S_OK);
}

static int text_of(lua_State *L)
{
    (void)luaL_tolstring(L, 1, NULL);
    return 1;
}

/* What is raised later has its handler again, and one in C is called. */
INTERRUPT_TEST(test_handlers_come_back)
{
    lua_State *L = *state;

    assert_int_equal(
        run(L, "local function outer(e) seen = e return e end\n"
               "xpcall(function()\n"
               "  stacksplice.pcall(xpcall, interrupt, function() seen = 'inner' end)\n"
               "  stacksplice.pcall(function()\n"
               "    xpcall(function() pcall(interrupt) end, function() seen = 'inner' end) end)\n"
               "  error('later', 0) end, outer)\n"
               "assert(seen == 'later') seen = nil\n"
               "coroutine.wrap(function()\n"
               "  xpcall(function()\n"
               "    stacksplice.pcall(xpcall, interrupt, function() seen = 'inner' end)\n"
               "    error('later', 0) end, outer) end)()\n"
               "assert(seen == 'later')"),
        S_OK);
    assert_int_equal(luaL_loadstring(L, "interrupt()"), LUA_OK);
    lua_pushcfunction(L, text_of);
    lua_insert(L, 1);
    assert_int_equal(lua_pcall(L, 0, 0, 1), LUA_ERRRUN);
    assert_string_equal(lua_tostring(L, -1), "stop");
    lua_settop(L, 0);
    assert_int_equal(luaL_dostring(L, "pcall(error)"), LUA_OK);
    assert_clean(L);
}

INTERRUPT_TEST(test_our_own_pcall_catches_it)
{
    static const char *const calls[] = {"pcall(interrupt)", "pcall(pcall, interrupt)",
                                        "xpcall(interrupt, function(v) return v end)"};
    lua_State *L = *state;
    char script[200];

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        (void)snprintf(script, sizeof script,
                       "local ok, e, info = stacksplice.%s\n"
                       "assert(not ok and e.hresult == 0x800704C7 and (not info or info == e))\n",
                       calls[i]);
        assert_int_equal(run(L, script), S_OK);
        assert_clean(L);
    }
}

#if LUA_VERSION_NUM >= 504
static const char closing_functions[] =
    "function step(name) cleaned = cleaned .. name end\n"
    "function closing(name, f) return setmetatable({}, {__close = function(_, err)\n"
    "  step(name) for i = 1, 100 do local x = tostring(i) .. name end\n"
    "  if f then f(err) end step(name:upper()) end}) end\n";
static const struct {
    const char *script, *cleaned;
} closings[] = {
    {"local c <close> = closing('a') interrupt()", "aA"},
    {"local c <close> = closing('a')\n"
     "while true do pcall(function() local d <close> = closing('b') interrupt() end) end",
     "bBaA"},
    {"local c <close> = closing('a', function() assert(pcall(step, 'p') and not pcall(error)) "
     "end)\n"
     "pcall(interrupt)",
     "apA"},
    {"local c <close> = closing('a', function() assert(stacksplice.pcall(step, 'p'))\n"
     "border(function() step('q') end) coroutine.wrap(step)('r') end)\n"
     "return pcall(interrupt)",
     "apqrA"},
    {"local c <close> = setmetatable({}, {__close = function(...) step('v') step('V') end})\n"
     "pcall(interrupt)",
     "vV"},
    {"pcall(function() local c <close> = closing('a', error) interrupt() end)", "a"},
    {"local c <close> = closing('a')\n"
     "coroutine.resume(coroutine.create(function() local d <close> = closing('b')\n"
     "coroutine.yield(pcall(interrupt)) end))",
     "aA"},
    {"local c <close> = closing('a')\n"
     "coroutine.wrap(function() local d <close> = closing('b') pcall(interrupt) end)()",
     "bBaA"},
    /* A second one ends the clean-up, too: so a loop in it can be stopped. */
    {"local c <close> = closing('a', function() while true do pcall(interrupt) end end)\n"
     "local d <close> = closing('b', interrupt)\n"
     "pcall(interrupt)",
     "ba"},
};

/* What closes variables on the way is clean-up code. */
INTERRUPT_TEST(test_clean_up_runs_to_its_end)
{
    lua_State *L = *state;

    assert_int_equal(run(L, closing_functions), S_OK);
    for (size_t i = 0; i < sizeof closings / sizeof *closings; i++) {
        assert_int_equal(run(L, "cleaned = ''"), S_OK);
        run_interrupted(L, closings[i].script);
        RoClearError();
        lua_getglobal(L, "cleaned");
        if (strcmp(lua_tostring(L, -1), closings[i].cleaned) != 0)
            fail_msg("%s: %s", closings[i].script, lua_tostring(L, -1));
        lua_pop(L, 1);
        assert_clean(L);
    }
}
#endif

INTERRUPT_TEST(test_another_error_with_that_hresult_is_caught)
{
    lua_State *L = *state;

    exception.is_interrupt = 0;
    assert_int_equal(run(L, "local ok, e = pcall(interrupt)\n"
                            "assert(not ok and e.hresult == 0x800704C7) reached = 'on'"),
                     S_OK);
    assert_reached(L, "on");
    assert_clean(L);
}

INTERRUPT_TEST(test_an_interrupted_state_may_be_closed)
{
    lua_State *L = luaL_newstate();

    luaL_openlibs(L);
    lua_register(L, "interrupt", interrupt);
    assert_int_equal(luaL_loadstring(L, LAST_PCALL), LUA_OK);
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_ERRRUN);
    lua_close(L);
    assert_clean(*state);
}

/* ---- Hooks of hosts ---------------------------------------------------------------------------*/

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
        "stacksplice.pcall(border, function() while true do pcall(interrupt) end end)",
        "local co = coroutine.wrap(function() stacksplice.pcall(pcall, interrupt) end) co()",
        "stacksplice.xpcall(function() coroutine.wrap(function() interrupt() end)() end, print)",
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
    static const char *const scripts[] = {LAST_PCALL,
                                          "coroutine.wrap(function() pcall(interrupt) end)()"};
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
        "while true do pcall(enter, B, 'while true do pcall(interrupt) end') end",
        "pcall(enter, B, [[pcall(enter, A, 'pcall(interrupt)') reached = 2]])",
        "coroutine.wrap(function() pcall(enter, B, [[coroutine.wrap(function()\n"
        "return pcall(enter, A, 'return pcall(enter, B, \"return pcall(interrupt)\")')\n"
        "end)()]]) end)()",
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
        run_interrupted(A, scripts[i]);
        RoClearError();
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
