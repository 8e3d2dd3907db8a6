/* traceback with another language on the stack: its frames stand in their places. */
#include "frames.h"
#include "lua_state.h"

#include <stdbool.h>

#include <stacksplice/source.h>

/* ---- Another language: each frame of its interpreter stands for one script frame --------------*/

static int interpret(lua_State *L)
{
    lua_call(L, lua_gettop(L) - 1, 1);
    AFTER();
    return 1;
}

/* Its pointer is called, so that it is neither inlined nor cloned. */
static int (*volatile interpreter)(lua_State *L) = interpret;

/* A native function between Lua's and the other language's. */
NOINLINE static int lend_a_hand(lua_State *L)
{
    int results = interpreter(L);

    AFTER();
    return results;
}

static int by_help(lua_State *L)
{
    int results = lend_a_hand(L);

    AFTER();
    return results;
}

static int into_other_language(lua_State *L)
{
    int results = interpreter(L);

    AFTER();
    return results;
}

static const char collect_identity[] = "logo";

static void collect(stacksplice_walk *walk, void *data)
{
    const stacksplice_token_info info = {SCRIPT_TOKEN, .language = "logo", .function = "turtle",
                                         .file = "garden.logo", .line = 12};
    uintptr_t token = 0;

    (void)stacksplice_intern(&info, &token);
    for (uint32_t i = 0; i < walk->frame_count; i++)
        if (walk->frames[i].function == (uintptr_t)interpret) {
            assert_true(stacksplice_walk_splice(walk, i, 1));
            assert_true(stacksplice_walk_push(walk, token));
        }
}

static int open_with_logo(void **state)
{
    const stacksplice_source source = {SOURCE, .language = "logo", .identity = collect_identity,
                                       .collect = collect};
    lua_State *L = fill_state(luaL_newstate());

    assert_true(stacksplice_add_source(&source) >= 0);
    lua_register(L, "logo", into_other_language);
    lua_register(L, "by_help", by_help);
    *state = L;
    return 0;
}

#define LOGO_TEST(name) TEST_WITH(name, open_with_logo, close_state)

/* Push what SCRIPT returns. */
static void run(lua_State *L, const char *script)
{
    if (luaL_loadbufferx(L, script, strlen(script), "@m.lua", "t") != LUA_OK ||
        lua_pcall(L, 0, 1, 0) != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
}

/* Take the lines of native functions out of TEXT: those of this program and of what runs it. */
static void remove_native(char *text)
{
    char *line = text;

    while ((line = strchr(line, '\n')) != NULL) {
        char *end = strchr(line + 1, '\n'), *native = strstr(line, " in native function '");

        if (native && (!end || native < end))
            memmove(line, end ? end : "", end ? strlen(end) + 1 : 1);
        else
            line++;
    }
}

static void assert_traceback(lua_State *L, const char *script, const char *expected)
{
    char text[2000];

    run(L, script);
    (void)snprintf(text, sizeof text, "%s", lua_tostring(L, -1));
    remove_native(text);
    assert_string_equal(text, expected);
    lua_pop(L, 1);
}

LOGO_TEST(test_its_frames_stand_in_their_places)
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

LOGO_TEST(test_a_level_leaves_out_what_is_inside_of_it)
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

LOGO_TEST(test_it_goes_on_beyond_a_coroutine)
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

LOGO_TEST(test_long_texts_are_cut_as_lua_does)
{
    run(*state, "local function deep(n)\n"
                "if n == 0 then return stacksplice.traceback() .. '' end\n"
                "return logo(deep, n - 1) .. ''\nend\n"
                "local text = deep(20)\n"
                "local _, lines = text:gsub('\\n', '')\n"
                "assert(lines == 22, lines)\n"
                "assert(text:find('\\n\\t...', 1, true), text)\n"
                "local count = tonumber(text:match('skipping (%d+) levels'))\n"
                "assert(_VERSION == 'Lua 5.3' or count >= 41 and count < 60, text)");
}

static int has_name(const stacksplice_frame *frame, void *data)
{
    *(bool *)data = frame->function != NULL;
    return 1;
}

/* Where the program has its symbols. */
LOGO_TEST(test_native_functions_stand_in_their_places)
{
    static const char script[] = "return (by_help(function()\nreturn (stacksplice.traceback())\n"
                                 "end))";
    bool named = false;
    const char *turtle, *hand, *lua;

    run(*state, script);
    turtle = strstr(lua_tostring(*state, -1), " in logo function 'turtle'");
    hand = strstr(lua_tostring(*state, -1), " in native function 'lend_a_hand'");
    lua = strstr(lua_tostring(*state, -1), "[C]: in function 'by_help'");
    assert_non_null(turtle);
    assert_true(turtle < lua);
    (void)stacksplice_resolve((uintptr_t)lend_a_hand + 4, has_name, &named);
    assert_int_equal(hand != NULL, named);
    assert_true(!hand || (turtle < hand && hand < lua));
    /* What is of an interpreter is no line. */
    assert_null(strstr(lua_tostring(*state, -1), "lua_callk"));
}

/* A coroutine that waits for the running one is on the stack, too. */
LOGO_TEST(test_that_of_a_parent_has_them_as_well)
{
    assert_traceback(
        *state,
        "local main = coroutine.running()\nreturn (logo(function()\n"
        "return coroutine.wrap(function()\nreturn (stacksplice.traceback(main, 'm'))\nend)() .. ''"
        "\nend))",
        "m\nstack traceback:\n\t[C]: in ?\n\tm.lua:3: in function <m.lua:2>\n"
        "\tgarden.logo:12: in logo function 'turtle'\n\t[C]: in function 'logo'\n"
        "\tm.lua:2: in main chunk");
    assert_traceback(*state,
                     "local co = coroutine.create(function()\ncoroutine.yield()\nend)\n"
                     "coroutine.resume(co)\nreturn (logo(stacksplice.traceback, co, 'm'))",
                     "m\nstack traceback:\n\t[C]: in function 'coroutine.yield'\n"
                     "\tm.lua:2: in function <m.lua:1>");
}

LOGO_TEST(test_a_tail_call_is_shown)
{
    assert_traceback(*state,
                     "local function f() return (stacksplice.traceback()) end\n"
                     "local function g() return f() end\nreturn (logo(g))",
                     "stack traceback:\n\tm.lua:1: in function <m.lua:1>\n\t(...tail calls...)\n"
                     "\tgarden.logo:12: in logo function 'turtle'\n\t[C]: in function 'logo'\n"
                     "\tm.lua:3: in main chunk");
}
