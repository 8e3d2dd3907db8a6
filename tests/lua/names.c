/*
 * What captures ask of Lua is counted: where activations are, and the names that only
 * package.loaded has, for which they go through its tables.  They ask once, not for each frame, and
 * a collection makes them ask nothing again.  And a script's frame has the name of what it calls.
 */
#include "frames.h"
#include "host.h"
#include "lua_state.h"

enum { MAX_FRAMES = 256, LEVELS = 10, CAPTURES = 100 };

static unsigned long steps, questions; /* through tables, and for activations, by captures */
static int counting;

int __real_lua_next(lua_State *L, int index);
int __wrap_lua_next(lua_State *L, int index);

int __wrap_lua_next(lua_State *L, int index)
{
    steps += (unsigned long)counting;
    return __real_lua_next(L, index);
}

int __real_lua_getinfo(lua_State *L, const char *what, lua_Debug *activation);
int __wrap_lua_getinfo(lua_State *L, const char *what, lua_Debug *activation);

int __wrap_lua_getinfo(lua_State *L, const char *what, lua_Debug *activation)
{
    questions += (unsigned long)(counting && strchr(what, 'l'));
    return __real_lua_getinfo(L, what, activation);
}

static int count_named(const stacksplice_frame *frame, void *data)
{
    if (frame->function && strcmp(frame->function, "descend") == 0)
        ++*(unsigned *)data;
    return 0;
}

/* A capture, in which each level has its name; the steps that it took. */
static unsigned long capture(void)
{
    uintptr_t frames[MAX_FRAMES];
    uint32_t count = 0;
    unsigned named = 0;

    steps = questions = 0;
    counting = 1;
    assert_int_equal(stacksplice_capture(0, MAX_FRAMES, frames, &count, NULL), S_OK);
    counting = 0;
    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], count_named, &named);
    assert_int_equal(named, LEVELS + 1);
    return steps;
}

/* Lua calls it with the level; each function is called from C, so that no call names it. */
static int go_on(lua_State *L)
{
    lua_CFunction innermost = lua_tocfunction(L, lua_upvalueindex(1));
    lua_Integer level = luaL_checkinteger(L, 1);

    if (level == 0)
        return innermost(L);
    lua_getglobal(L, "descend");
    lua_pushinteger(L, level - 1);
    return stacksplice_lua_pcall(L, 1, 0) == S_OK ? 0 : luaL_error(L, "failed");
}

static void run(lua_State *L, lua_CFunction innermost)
{
    lua_pushcfunction(L, innermost);
    lua_pushcclosure(L, go_on, 1);
    lua_setglobal(L, "go_on");
    lua_getglobal(L, "descend");
    lua_pushinteger(L, LEVELS);
    assert_int_equal(stacksplice_lua_pcall(L, 1, 0), S_OK);
}

static int open_with_descend(void **state)
{
    lua_State *L = fill_state(luaL_newstate());
    uint32_t none;

    *state = L;
    /* Learning, which goes through tables of its own, is not counted. */
    (void)stacksplice_capture(0, 0, NULL, &none, NULL);
    return luaL_dostring(L, "function descend(level) go_on(level) return 1 end") != LUA_OK;
}

/* How many steps one search of all tables takes at most. */
static unsigned long size_of_tables(lua_State *L)
{
    unsigned long size = 1;

    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1), size++)
        if (lua_istable(L, -1))
            for (lua_pushnil(L), size++; lua_next(L, -2); lua_pop(L, 1))
                size++;
    lua_pop(L, 1);
    return size;
}

static void collect(lua_State *L)
{
    lua_gc(L, LUA_GCCOLLECT, 0);
    lua_gc(L, LUA_GCCOLLECT, 0);
}

/* Nothing of ours runs in Lua that could plant a sentinel. */
static int capture_after_collections(lua_State *L)
{
    collect(L);
    /* One for "descend"; another for this function, which has no name. */
    assert_in_range(capture(), 1, 2 * size_of_tables(L));
    for (int i = 0; i < 3; i++) {
        collect(L);
        assert_int_equal(capture(), 0);
        /* The first collection after the first capture makes the room for what outlives others. */
        assert_true(i == 0 || questions == 0);
    }
    return 0;
}

TEST_WITH(test_one_search_for_all_levels_and_all_collections, open_with_descend, close_state)
{
    run(*state, capture_after_collections);
}

static int captures_in_finalizer;

/* Runs before the finalizer that plants a sentinel, since its object is younger. */
static int capture_in_finalizer(lua_State *L)
{
    unsigned long searched = capture();

    /* At first this function's own name is looked up. */
    if (captures_in_finalizer++ > 0) {
        assert_int_equal(searched, 0);
        assert_int_equal(questions, 0);
    }
    return 0;
}

static void push_finalized(lua_State *L)
{
    lua_newtable(L);
    lua_newtable(L);
    lua_pushcfunction(L, capture_in_finalizer);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
}

static int capture_without_sentinel(lua_State *L)
{
    for (int i = 0; i < 2; i++) { /* from the second capture on, room is made for what lives on */
        (void)capture();
        collect(L);
    }
    (void)capture();
    captures_in_finalizer = 0;
    for (int i = 1; i <= 3; i++) {
        push_finalized(L);
        lua_pop(L, 1);
        collect(L);
        assert_int_equal(captures_in_finalizer, i);
    }
    return 0;
}

TEST_WITH(test_no_question_before_the_next_sentinel, open_with_descend, close_state)
{
    run(*state, capture_without_sentinel);
}

static int capture_once(lua_State *L)
{
    (void)capture();
    return 0;
}

static int capture_often(lua_State *L)
{
    unsigned long sum = capture();

    for (int i = 1; i < CAPTURES; i++)
        sum += capture();
    /* Here the tables may have been asked once, never at each capture. */
    assert_in_range(sum, 0, size_of_tables(L));
    return 0;
}

/* A collection that ends between two captures costs the second one nothing. */
TEST_WITH(test_no_search_once_a_collection_is_over, open_with_descend, close_state)
{
    run(*state, capture_once);
    collect(*state);
    run(*state, capture_often);
}

/* ---- The name by which a script calls C ------------------------------------------------------*/

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

static int keep_text(const char *bytes, size_t length, void *data)
{
    strncat(data, bytes, length);
    return 0;
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
        stacksplice_format((IUnknown *)peek(), STACKSPLICE_FORMAT_TEXT, NULL, keep_text, report),
        S_OK);
    called = strstr(report, " (Lua: logic) (");
    assert_non_null(called);
    *called = '\0';
    assert_non_null(strstr(report, "fail_in_c"));
    assert_int_equal(
        stacksplice_format((IUnknown *)peek(), STACKSPLICE_FORMAT_JSON, NULL, keep_text, json),
        S_OK);
    assert_non_null(strstr(json, "\"calls\":\"logic\""));
}
