/* An interrupt of another language gets through every plain protected call of Lua. */
#include "interrupts.h"

/* What would swallow the interrupt if it were an error like others. */
static const char *const swallowing[] = {
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
    "reached = 1 for i = 1, 1e9 do pcall(interrupt) end reached = 2",
    "reached = 1 ::again:: pcall(interrupt) goto again",
    "reached = 1 return (pcall(interrupt))",
    "reached = 1 return pcall(function() return pcall(interrupt) end)",
    "reached = 1 return coroutine.wrap(function() return pcall(interrupt) end)()",
    "reached = 1 return coroutine.resume(coroutine.create(interrupt))",
    "reached = 1 string.gsub('abc', '.', function() pcall(interrupt) reached = 2 end) reached "
    "= 3",
    "reached = 1 return pcall(string.gsub, 'abc', '.', function() return pcall(interrupt) end)",
    "reached = 1 pcall(table.sort, {3, 1, 2}, function() pcall(interrupt) end) reached = 2",
    "reached = 1 load(function() pcall(interrupt) reached = 2 return nil end) reached = 3",
    "reached = 1 load('pcall(interrupt) reached = 2')() reached = 3",
    "reached = 1 pcall(load('return pcall(interrupt)')) reached = 2",
    "reached = 1 local t = setmetatable({}, {__index = function() return pcall(interrupt) "
    "end})\n"
    "local x = t.field reached = 2",
    "reached = 1 local t = setmetatable({}, {__lt = function() pcall(interrupt) end})\n"
    "pcall(function() return t < t end) reached = 2",
    "reached = 1 tostring(setmetatable({}, {__tostring = function() pcall(interrupt)\n"
    "return '' end})) reached = 2",
    "reached = 1 for _ in function() return pcall(interrupt) end do end reached = 2",
    "reached = 1 require('coroutine') pcall(require, 'no module') pcall(interrupt) reached = 2",
    "reached = 1 xpcall(interrupt, function() error('in the handler') end) reached = 2",
    "reached = 1 xpcall(interrupt, function() pcall(interrupt) return 1 end) reached = 2",
    "reached = 1 pcall(xpcall, interrupt, print) reached = 2",
    "reached = 1 xpcall(interrupt, stacksplice.handler) reached = 2",
    "reached = 1 xpcall(interrupt, stacksplice.traceback) reached = 2",
    "reached = 1 pcall(pcall, error, select(2, pcall(interrupt))) reached = 2",
    "reached = 1 local co = coroutine.wrap(function() coroutine.yield() pcall(interrupt)\n"
    "reached = 2 end) co() co() reached = 3",
    "reached = 1 local co = coroutine.wrap(function() pcall(function() coroutine.yield()\n"
    "interrupt() end) reached = 2 end) co() co() reached = 3",
    "reached = 1 local function nest(n) if n == 0 then return pcall(interrupt) end\n"
    "return coroutine.resume(coroutine.create(nest), n - 1) end nest(150) reached = 2",
    "reached = 1 pcall(border, function() while true do pcall(interrupt) end end) reached = 2",
    "reached = 1 coroutine.wrap(function() border(function() return pcall(interrupt) end) "
    "end)()",
    "reached = 1 return pcall(plain_border, function() return pcall(interrupt) end)",
    "reached = 1 while true do plain_border(interrupt) end",
    "reached = 1 collectgarbage() pcall(interrupt) reached = 2",
    /* Handlers that run on, if they are called. */
    "reached = 1 xpcall(interrupt, function() while true do end end) reached = 2",
    "reached = 1 xpcall(function() pcall(interrupt) end, function() while true do end end)\n"
    "reached = 2",
    "reached = 1 xpcall(interrupt, coroutine.wrap(function() while true do end end)) reached = 2",
    "reached = 1 xpcall(pcall, coroutine.wrap(function() while true do end end), interrupt)\n"
    "reached = 2",
    "reached = 1 coroutine.wrap(xpcall)(function() pcall(interrupt) reached = 2 end,\n"
    "function() while true do end end) reached = 3",
};

INTERRUPT_TEST(test_it_gets_through)
{
    lua_State *L = *state;

    for (size_t i = 0; i < sizeof swallowing / sizeof *swallowing; i++) {
        IRestrictedErrorInfo *error = NULL;

        if (run(L, swallowing[i]) != CANCELLED)
            fail_msg("%s: was swallowed", swallowing[i]);
        assert_reached(L, "1");
        assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
        error->lpVtbl->Release(error);
        assert_clean(L);
    }
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

#if LUA_VERSION_NUM >= 504
static const char closing_head[] =
    "reached = 1 cleaned = ''\n"
    "local function step(name) cleaned = cleaned .. name end\n"
    "local function closing(name, f) return setmetatable({}, {__close = function(_, err)\n"
    "  step(name) for i = 1, 100 do local x = tostring(i) .. name end\n"
    "  if f then f(err) end step(name:upper()) end}) end\n";
static const struct {
    const char *script, *cleaned;
} closings[] = {
    {"local c <close> = closing('a') interrupt() reached = 2", "aA"},
    {"pcall(function() local c <close> = closing('a') interrupt() end) reached = 2", "aA"},
    {"local c <close> = closing('a')\n"
     "while true do pcall(function() local d <close> = closing('b') interrupt() end) end",
     "bBaA"},
    {"local c <close> = closing('a', function() assert(pcall(tostring, 1)) end)\n"
     "pcall(interrupt) reached = 2",
     "aA"},
    {"local c <close> = closing('a', function() assert(not pcall(error, 'x')) end)\n"
     "pcall(interrupt) reached = 2",
     "aA"},
    {"local c <close> = closing('a', function() assert(stacksplice.pcall(step, 'p')) end)\n"
     "return pcall(interrupt)",
     "apA"},
    {"local c <close> = closing('a', function() border(function() step('p') end) end)\n"
     "return pcall(interrupt)",
     "apA"},
    {"local c <close> = closing('a', function() coroutine.wrap(step)('p') end)\n"
     "pcall(interrupt) reached = 2",
     "apA"},
    {"local c <close> = setmetatable({}, {__close = function(...) step('v') step('V') end})\n"
     "pcall(interrupt) reached = 2",
     "vV"},
    {"pcall(function() local c <close> = closing('a', function() error('in close') end)\n"
     "interrupt() end) reached = 2",
     "a"},
    {"local c <close> = closing('a')\n"
     "coroutine.wrap(function() local d <close> = closing('b') pcall(interrupt) end)()\n"
     "reached = 2",
     "bBaA"},
    {"local c <close> = closing('a')\n"
     "coroutine.resume(coroutine.create(function() local d <close> = closing('b')\n"
     "coroutine.yield(pcall(interrupt)) end)) reached = 2",
     "aA"},
    /* A second one ends the clean-up, too: so a loop in it can be stopped. */
    {"local c <close> = closing('a', function() while true do pcall(interrupt) end end)\n"
     "pcall(interrupt) reached = 2",
     "a"},
    {"local c <close> = closing('a', function() interrupt() end)\n"
     "local d <close> = closing('b', function() interrupt() end)\n"
     "pcall(interrupt) reached = 2",
     "ba"},
};

/* What closes variables on the way is clean-up code. */
INTERRUPT_TEST(test_clean_up_runs_to_its_end)
{
    lua_State *L = *state;

    for (size_t i = 0; i < sizeof closings / sizeof *closings; i++) {
        char script[2000];

        (void)snprintf(script, sizeof script, "%s%s", closing_head, closings[i].script);
        if (run(L, script) != CANCELLED)
            fail_msg("%s: was swallowed", closings[i].script);
        RoClearError();
        assert_reached(L, "1");
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

    is_interrupt = false;
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
    assert_int_equal(luaL_loadstring(L, "return pcall(interrupt)"), LUA_OK);
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_ERRRUN);
    lua_close(L);
    assert_clean(*state);
}
