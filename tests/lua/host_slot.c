/* stacksplice_lua_xpcall: the handler stays in a slot of the host's stack. */
#include "host.h"

enum { SLOT = 2 };

/* The host's own handler, which counts what it sees. */
static int seen;

static int counting(lua_State *L)
{
    int results = stacksplice_lua_handler(L);

    seen++; /* after the call: a jump would lose this function's native frame */
    return results;
}

static int pass(lua_State *L)
{
    lua_settop(L, 1);
    return 1;
}

/* Leave "below" and HANDLER on the stack. */
static void begin(lua_State *L, lua_CFunction handler)
{
    lua_settop(L, 0);
    lua_pushliteral(L, "below");
    lua_pushcfunction(L, handler);
    seen = 0;
}

static void assert_slot(lua_State *L, lua_CFunction handler)
{
    assert_string_equal(lua_tostring(L, 1), "below");
    assert_ptr_equal(lua_tocfunction(L, SLOT), handler);
}

static const char failing[] = "local function inner()\nerror({hresult = 0x80070005})\nend\n"
                              "local function outer()\ninner()\nend\nouter()";

STATE_TEST(test_it_succeeds_like_lua_pcall)
{
    lua_State *L = *state;

    begin(L, stacksplice_lua_handler);
    for (int round = 0; round < 3; round++) {
        load(L, "local a, b = ... return a + b, 'x', nil");
        lua_pushinteger(L, 1);
        lua_pushinteger(L, 2);
        assert_int_equal(stacksplice_lua_xpcall(L, 2, LUA_MULTRET, SLOT), S_OK);
        assert_int_equal(lua_gettop(L), SLOT + 3);
        assert_int_equal(lua_tointeger(L, SLOT + 1), 3);
        assert_string_equal(lua_tostring(L, SLOT + 2), "x");
        assert_true(lua_isnil(L, SLOT + 3));
        lua_settop(L, SLOT);
        load(L, "return 1");
        assert_int_equal(stacksplice_lua_xpcall(L, 0, round, SLOT), S_OK);
        assert_int_equal(lua_gettop(L), SLOT + round);
        lua_settop(L, SLOT);
        assert_slot(L, stacksplice_lua_handler);
    }
    assert_no_error();
}

STATE_TEST(test_a_failure_has_the_stack_of_its_raise)
{
    static const lua_CFunction handlers[] = {stacksplice_lua_handler, counting};
    lua_State *L = *state;

    for (int i = 0; i < 4; i++) {
        begin(L, handlers[i % 2]);
        lua_pushliteral(L, "between");
        load(L, failing);
        lua_pushinteger(L, 1);
        assert_int_equal(stacksplice_lua_xpcall(L, 1, i < 2 ? 2 : LUA_MULTRET, SLOT),
                         E_ACCESSDENIED);
        assert_int_equal(lua_gettop(L), SLOT + 1);
        assert_slot(L, handlers[i % 2]);
        assert_int_equal(seen, i % 2);
        assert_stack(peek(), "lua:inner:2 lua:outer:5 lua:main chunk:7 ");
        assert_int_equal(nodes_of(peek()), 0);
    }
    lua_pushnil(L);
    assert_int_equal(stacksplice_lua_xpcall(L, 0, 0, SLOT), E_FAIL);
    assert_int_equal(lua_gettop(L), SLOT + 1);
    RoClearError();
}

STATE_TEST(test_another_handler_leaves_a_gap)
{
    lua_State *L = *state;

    begin(L, pass);
    load(L, failing);
    assert_int_equal(stacksplice_lua_xpcall(L, 0, 0, SLOT), E_ACCESSDENIED);
    assert_stack(peek(), "gap:" STACKSPLICE_GAP_RETURNED " ");
    assert_int_equal(lua_gettop(L), SLOT);
    lua_pushnil(L);
    lua_replace(L, SLOT);
    load(L, failing);
    assert_int_equal(stacksplice_lua_xpcall(L, 0, 0, SLOT), E_UNEXPECTED);
    assert_int_equal(lua_gettop(L), SLOT);
    RoClearError();
}

/* The call opens the state: functions that capture inside then have their names. */
STATE_TEST(test_the_first_call_in_a_state_knows_its_functions)
{
    lua_State *L = luaL_newstate();

    (void)state;
    assert_non_null(L);
    luaL_openlibs(L);
    begin(L, stacksplice_lua_handler);
    load(L, failing);
    assert_int_equal(stacksplice_lua_xpcall(L, 0, 0, SLOT), E_ACCESSDENIED);
    assert_stack(peek(), "lua:inner:2 lua:outer:5 lua:main chunk:7 ");
    RoClearError();
    lua_close(L);
}

STATE_TEST(test_counts_and_slots_beyond_the_stack)
{
    static const int wrong[][3] = {
        {1, 0, SLOT}, {-1, 0, SLOT},    {0, -2, SLOT}, {0, 0, 0},
        {0, 0, -2},   {0, 0, SLOT + 1}, {0, 0, 10000}, {0, 0, LUA_REGISTRYINDEX},
        {1000, 0, 1}};
    lua_State *L = *state;

    begin(L, stacksplice_lua_handler);
    load(L, "return 1");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const int *w = wrong[i];

        assert_int_equal(stacksplice_lua_xpcall(L, w[0], w[1], w[2]), E_INVALIDARG);
        (void)peek();
        RoClearError();
        assert_int_equal(lua_gettop(L), SLOT + 1);
    }
    assert_int_equal(stacksplice_lua_xpcall(L, 0, 0, SLOT), S_OK);
}
