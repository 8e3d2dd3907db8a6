/* What Lua's frames are like in a build that knows no native frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <lauxlib.h>
#include <lualib.h>

#include <stacksplice/lua.h>

static int open_state(void **state)
{
    lua_State *L = luaL_newstate();

    luaL_openlibs(L);
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 1);
    lua_settop(L, 0);
    *state = L;
    return 0;
}

static int close_state(void **state)
{
    lua_close(*state);
    return 0;
}

static void run(lua_State *L, const char *script)
{
    if (luaL_loadbufferx(L, script, strlen(script), "@script.lua", "t") != LUA_OK ||
        lua_pcall(L, 0, 0, 0) != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
}

static void test_two_gaps_and_then_the_frames(void **state)
{
    run(*state, "local function inner()\nlocal s = stacksplice.capture()\nreturn s\nend\n"
                "local function outer()\nlocal s = inner()\nreturn s\nend\n"
                "local s = outer()\n"
                "assert(#s == 5)\n"
                "assert(s[1].reason == 'native frames are not known on this machine')\n"
                "assert(s[2].reason:find('without native frames', 1, true))\n"
                "assert(s[3].name == 'inner' and s[3].currentline == 2)\n"
                "assert(s[4].name == 'outer' and s[4].currentline == 6)\n"
                "assert(s[5].name == 'main chunk' and s[5].currentline == 9)");
}

static void test_of_coroutines_only_the_running_one(void **state)
{
    run(*state, "local s\n"
                "local co = coroutine.wrap(function()\ns = stacksplice.capture()\nend)\n"
                "co()\n"
                "assert(#s == 3 and s[3].currentline == 3)");
}

static void test_an_error_keeps_the_frames_of_its_raise(void **state)
{
    run(*state, "local function f()\nerror('bad')\nend\n"
                "local ok, _, e = stacksplice.pcall(f)\n"
                "local found\n"
                "for _, frame in ipairs(e.stack) do\n"
                "  found = found or frame.currentline == 2\n"
                "end\n"
                "assert(not ok and found)\n"
                "assert(e.stack[1].reason == 'native frames are not known on this machine')");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_gaps_and_then_the_frames, open_state, close_state),
        cmocka_unit_test_setup_teardown(test_of_coroutines_only_the_running_one, open_state,
                                        close_state),
        cmocka_unit_test_setup_teardown(test_an_error_keeps_the_frames_of_its_raise, open_state,
                                        close_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
