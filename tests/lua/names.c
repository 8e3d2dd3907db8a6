/* A script's frame has the name of what it calls. */
#include "frames.h"
#include "host.h"
#include "lua_state.h"
#include "text.h"

static void collect(lua_State *L)
{
    lua_gc(L, LUA_GCCOLLECT, 0);
    lua_gc(L, LUA_GCCOLLECT, 0);
}

/* Of the script's frame outside of ours; "-" if it has none. */
static int keep_calls(const stacksplice_frame *frame, void *data)
{
    if (frame->kind == STACKSPLICE_FRAME_SCRIPT)
        (void)snprintf(data, 64, "%s", frame->calls ? frame->calls : "-");
    return 0;
}

/* One machine function that stands for many of C++, as those of bindings do. */
static int stand_in(lua_State *L)
{
    uintptr_t frames[2] = {0};
    uint32_t count = 0;
    char called[64] = "no script frame";

    /* Of our frame and the next one outward. */
    (void)stacksplice_capture(0, 2, frames, &count, NULL);
    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], keep_calls, called);
    lua_pushfstring(L, "%s%s;", lua_tostring(L, lua_upvalueindex(1)), called);
    lua_replace(L, lua_upvalueindex(1));
    return 0;
}

static int take_seen(lua_State *L)
{
    (void)lua_getupvalue(L, lua_upvalueindex(1), 1);
    lua_pushliteral(L, "");
    (void)lua_setupvalue(L, lua_upvalueindex(1), 1);
    return 1;
}

static int open_with_stand_in(void **state)
{
    lua_State *L = fill_state(luaL_newstate());

    *state = L;
    lua_pushliteral(L, "");
    lua_pushcclosure(L, stand_in, 1);
    lua_pushvalue(L, -1);
    lua_setglobal(L, "logic");
    lua_pushcclosure(L, take_seen, 1);
    lua_setglobal(L, "seen");
    return 0;
}

#define CALLED_TEST(name) TEST_WITH(name, open_with_stand_in, close_state)

/* What SCRIPT's calls are called, several times: captures are kept and repeated. */
static void check_calls(lua_State *L, const char *script, const char *wanted)
{
    NEEDS_NATIVE_FRAMES();
    lua_settop(L, 0);
    assert_int_equal(luaL_loadbufferx(L, script, strlen(script), "@called.lua", "t"), LUA_OK);
    for (int i = 0; i < 20; i++) {
        lua_pushvalue(L, 1);
        if (lua_pcall(L, 0, 0, 0) != LUA_OK)
            fail_msg("%s", lua_tostring(L, -1));
        lua_getglobal(L, "seen");
        lua_call(L, 0, 1);
        assert_string_equal(lua_tostring(L, -1), wanted);
        lua_settop(L, 1);
        if (i % 5 == 4)
            collect(L);
    }
}

CALLED_TEST(test_one_function_has_the_name_of_each_call)
{
    check_calls(*state,
                "local up, object, module = logic, {name = logic}, {size = {of = logic}}\n"
                "local function outer(...) up() ; object:name() ; module.size.of(...) end\n"
                "logic() ; outer(1, 2, 3) ; local near = logic ; near()\n",
                "logic;up;name;of;near;");
}

CALLED_TEST(test_calls_of_one_line_have_their_own_names)
{
    check_calls(*state, "local a, b = logic, logic ; for i = 1, 2 do a(b()) end", "b;a;b;a;");
}

CALLED_TEST(test_a_coroutine_names_what_it_calls)
{
    check_calls(*state,
                "local t = {step = logic}\n"
                "local co = coroutine.wrap(function() t.step() coroutine.yield() t.step() end)\n"
                "co() ; co()",
                "step;step;");
}

/* Lua's own traceback names a message handler after the instruction that failed. */
CALLED_TEST(test_no_name_is_of_another_call)
{
    check_calls(*state, "pcall(logic)", "no script frame;");
    check_calls(*state, "xpcall(function() local x = nil + 1 end, logic)", "-;");
    check_calls(*state, "xpcall(function() local x = {} .. 'y' end, logic)", "-;");
    check_calls(*state, "setmetatable({}, {__gc = logic}) ; for i = 1, 20000 do local t = {} end",
                "-;");
}

/* One place that calls a function in C, and in which a message handler is called. */
CALLED_TEST(test_a_place_that_calls_and_fails)
{
    check_calls(*state,
                "local function call(f) f(1, 2) end\n"
                "for i = 1, 3 do call(logic) xpcall(call, logic) end\n",
                "f;-;f;-;f;-;");
}

static int fail_in_c(lua_State *L)
{
    int results = luaL_error(L, "failed");

    AFTER();
    return results;
}

STATE_TEST(test_a_report_shows_both_names)
{
    lua_State *L = *state;
    static char report[8000], json[8000];
    char *called;

    NEEDS_NATIVE_FRAMES();
    lua_register(L, "logic", fail_in_c);
    lua_register(L, "fail_in_c", fail_in_c);
    assert_int_equal(luaL_loadstring(L, "pcall(fail_in_c) ; local x = logic() ; return x"), LUA_OK);
    assert_true(FAILED(stacksplice_lua_pcall(L, 0, 0)));
    assert_int_equal(
        stacksplice_format((IUnknown *)peek(), STACKSPLICE_FORMAT_TEXT, NULL, append, report),
        S_OK);
    called = strstr(report, " (Lua: logic) (");
    assert_non_null(called);
    *called = '\0';
    assert_non_null(strstr(report, "fail_in_c"));
    assert_int_equal(
        stacksplice_format((IUnknown *)peek(), STACKSPLICE_FORMAT_JSON, NULL, append, json), S_OK);
    assert_non_null(strstr(json, "\"calls\":\"logic\""));
}
