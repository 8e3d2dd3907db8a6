/* What Lua's frames are like in a build that knows no native frames. */
#include "lua_state.h"

static void run(lua_State *L, const char *script)
{
    run_chunk(L, "@script.lua", script, 0);
}

STATE_TEST(test_two_gaps_and_then_the_frames)
{
    run(*state, "local function inner()\nlocal s = stacksplice.capture()\nreturn s\nend\n"
                "local function outer()\nlocal s = inner()\nreturn s\nend\n"
                "local s = outer()\n"
                "assert(#s == 5)\n"
                "assert(s[1].reason == 'native frames not supported on this platform')\n"
                "assert(s[2].reason:find('without native frames', 1, true))\n"
                "assert(s[3].name == 'inner' and s[3].currentline == 2)\n"
                "assert(s[4].name == 'outer' and s[4].currentline == 6)\n"
                "assert(s[5].name == 'main chunk' and s[5].currentline == 9)");
}

STATE_TEST(test_of_coroutines_only_the_running_one)
{
    run(*state, "local s\n"
                "local co = coroutine.wrap(function()\ns = stacksplice.capture()\nend)\n"
                "co()\n"
                "assert(#s == 3 and s[3].currentline == 3)");
}

STATE_TEST(test_an_error_keeps_the_frames_of_its_raise)
{
    run(*state, "local function f()\nerror('bad')\nend\n"
                "local ok, _, e = stacksplice.pcall(f)\n"
                "local found\n"
                "for _, frame in ipairs(e.stack) do\n"
                "  found = found or frame.currentline == 2\n"
                "end\n"
                "assert(not ok and found)\n"
                "assert(e.stack[1].reason == 'native frames not supported on this platform')");
}
