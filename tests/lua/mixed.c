/* traceback with another language on the stack: its frames stand in their places. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include <stacksplice/lua.h>
#include <stacksplice/source.h>

/* ---- Another language: each frame of its interpreter stands for one script frame --------------*/

static int interpret(lua_State *L)
{
    lua_call(L, lua_gettop(L) - 1, 1);
    __asm__ volatile("" ::: "memory");
    return 1;
}

/* Its pointer is called, so that it is neither inlined nor cloned. */
static int (*volatile interpreter)(lua_State *L) = interpret;

static int into_other_language(lua_State *L)
{
    int results = interpreter(L);

    __asm__ volatile("" ::: "memory");
    return results;
}

static const char collect_identity[] = "logo";

static void collect(stacksplice_walk *walk, void *data)
{
    const stacksplice_token_info info = {.size = sizeof info,
                                         .kind = STACKSPLICE_FRAME_SCRIPT,
                                         .trust = STACKSPLICE_TRUST_EXACT,
                                         .language = "logo",
                                         .function = "turtle",
                                         .file = "garden.logo",
                                         .line = 12};
    uintptr_t token = 0;

    (void)data;
    (void)stacksplice_intern(&info, &token);
    for (uint32_t i = 0; i < walk->frame_count; i++)
        if (walk->frames[i].function == (uintptr_t)interpret) {
            assert_true(stacksplice_walk_splice(walk, i, 1));
            assert_true(stacksplice_walk_push(walk, token));
        }
}

static int open_state(void **state)
{
    const stacksplice_source source = {.size = sizeof source,
                                       .version = STACKSPLICE_SOURCE_VERSION,
                                       .language = "logo",
                                       .identity = collect_identity,
                                       .collect = collect};
    lua_State *L = luaL_newstate();

    assert_true(stacksplice_add_source(&source) >= 0);
    luaL_openlibs(L);
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 1);
    lua_register(L, "logo", into_other_language);
    lua_settop(L, 0);
    *state = L;
    return 0;
}

static int close_state(void **state)
{
    lua_close(*state);
    return 0;
}

static void assert_traceback(lua_State *L, const char *script, const char *expected)
{
    if (luaL_loadbufferx(L, script, strlen(script), "@m.lua", "t") != LUA_OK ||
        lua_pcall(L, 0, 1, 0) != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
    assert_string_equal(lua_tostring(L, -1), expected);
    lua_pop(L, 1);
}

static void test_its_frames_stand_in_their_places(void **state)
{
    assert_traceback(*state,
                     "local function inner()\nreturn (stacksplice.traceback('msg'))\nend\n"
                     "local function outer()\nreturn (logo(inner))\nend\n"
                     "function globe() return (logo(outer)) end\nreturn (globe())",
                     "msg\nstack traceback:\n"
                     "\tm.lua:2: in function <m.lua:1>\n"
                     "\tgarden.logo:12: in logo function 'turtle'\n"
                     "\t[C]: in function 'logo'\n"
                     "\tm.lua:5: in function <m.lua:4>\n"
                     "\tgarden.logo:12: in logo function 'turtle'\n"
                     "\t[C]: in function 'logo'\n"
                     "\tm.lua:7: in function 'globe'\n"
                     "\tm.lua:8: in main chunk");
}

static void test_a_level_leaves_out_what_is_inside_of_it(void **state)
{
    static const char script[] = "local function inner()\nreturn (stacksplice.traceback(nil, %d))\n"
                                 "end\nlocal function outer()\nreturn (logo(inner))\nend\n"
                                 "return (outer())";
    static const char *const expected[] = {
        ("stack traceback:\n\tm.lua:2: in function <m.lua:1>\n"
         "\tgarden.logo:12: in logo function 'turtle'\n\t[C]: in function 'logo'\n"
         "\tm.lua:5: in local 'outer'\n\tm.lua:7: in main chunk"),
        ("stack traceback:\n\t[C]: in function 'logo'\n\tm.lua:5: in local 'outer'\n"
         "\tm.lua:7: in main chunk"),
        "stack traceback:\n\tm.lua:5: in local 'outer'\n\tm.lua:7: in main chunk",
        "stack traceback:\n\tm.lua:7: in main chunk",
        "stack traceback:",
    };

    for (int level = 1; level <= 5; level++) {
        char text[300];

        (void)snprintf(text, sizeof text, script, level);
        assert_traceback(*state, text, expected[level - 1]);
    }
}

static void test_it_goes_on_beyond_a_coroutine(void **state)
{
    assert_traceback(
        *state,
        "local co = coroutine.create(function()\nreturn stacksplice.traceback() .. ''\nend)\n"
        "return (logo(function()\nlocal _, text = coroutine.resume(co)\nreturn text\nend))",
        "stack traceback:\n\tm.lua:2: in function <m.lua:1>\n"
        "\t[C]: in function 'coroutine.resume'\n"
        "\tm.lua:5: in function <m.lua:4>\n"
        "\tgarden.logo:12: in logo function 'turtle'\n"
        "\t[C]: in function 'logo'\n\tm.lua:4: in main chunk");
}

static void test_long_texts_are_cut_as_lua_does(void **state)
{
    lua_State *L = *state;

    assert_int_equal(
        luaL_dostring(L, "local function deep(n)\n"
                         "if n == 0 then return stacksplice.traceback() .. '' end\n"
                         "return logo(deep, n - 1) .. ''\nend\n"
                         "local text = deep(20)\n"
                         "local _, lines = text:gsub('\\n', '')\n"
                         "assert(lines == 22, lines)\n"
                         "assert(text:find('\\n\\t...\\t(skipping 41 levels)', 1, true), text)"),
        LUA_OK);
}

static void test_a_tail_call_is_shown(void **state)
{
    assert_traceback(*state,
                     "local function f() return (stacksplice.traceback()) end\n"
                     "local function g() return f() end\nreturn (logo(g))",
                     "stack traceback:\n\tm.lua:1: in function <m.lua:1>\n\t(...tail calls...)\n"
                     "\tgarden.logo:12: in logo function 'turtle'\n\t[C]: in function 'logo'\n"
                     "\tm.lua:3: in main chunk");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_state, close_state)
    static const struct CMUnitTest tests[] = {
        TEST(test_its_frames_stand_in_their_places),
        TEST(test_a_level_leaves_out_what_is_inside_of_it),
        TEST(test_it_goes_on_beyond_a_coroutine),
        TEST(test_long_texts_are_cut_as_lua_does),
        TEST(test_a_tail_call_is_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
