/* stacksplice_lua_resume and stacksplice_lua_pcallk: coroutines that fail, calls that yield. */
#include "host.h"

/* ---- Coroutines and continuations ------------------------------------------------------------*/

STATE_TEST(test_resume_captures_the_dead_coroutine)
{
    lua_State *L = *state, *co = lua_newthread(L);
    int results = -1;

#if LUA_VERSION_NUM < 504
    SKIP("Lua 5.3 does not have variables that are closed");
#endif
    load(co, "local function f()\ncoroutine.yield(1, 2)\nlocal c <close> = setmetatable({},\n"
             "{__close = function() closed = true error('in close') end})\n"
             "error({hresult = 0x80070057})\nend\nlocal x = f()");
    assert_int_equal(stacksplice_lua_resume(co, L, 0, &results), S_FALSE);
    assert_int_equal(results, 2);
    lua_pop(co, 2);
    assert_int_equal(stacksplice_lua_resume(co, L, 0, &results), E_INVALIDARG);
    assert_int_equal(results, 0);
    assert_int_equal(lua_gettop(co), 0);
    assert_int_equal(lua_gettop(L), 1);
    assert_stack(peek(), "lua:error:0t lua:f:5t lua:main chunk:7t gap:" STACKSPLICE_GAP_ENDED " ");
    lua_getglobal(L, "closed");
    assert_true(lua_toboolean(L, -1));
    lua_pop(L, 1);
    load(co, "return 'again'");
    assert_int_equal(stacksplice_lua_resume(co, NULL, 0, &results), S_OK);
    assert_int_equal(results, 1);
    lua_settop(co, 0);
    load(co, "error('without from', 0)");
    assert_int_equal(stacksplice_lua_resume(co, NULL, 0, &results), E_FAIL);
}

/* No handler saw the raise in the coroutine: only the function that raises the error in flight
   tells that an equal value is the same one. */
STATE_TEST(test_an_equal_value_in_another_coroutine_is_another_error)
{
    lua_State *L = *state, *co;
    IRestrictedErrorInfo *former, *now = NULL;
    int results;

    for (int i = 0; i < 2; i++) {
        former = now;
        co = lua_newthread(L);
        load(co, "error('equal', 0)");
        assert_int_equal(stacksplice_lua_resume(co, L, 0, &results), E_FAIL);
        now = peek();
        assert_ptr_not_equal(former, now);
        now->lpVtbl->AddRef(now);
        assert_int_equal(stacksplice_propagate(E_FAIL, NULL), S_OK);
        assert_int_equal(nodes_of(now), 1);
        if (former)
            former->lpVtbl->Release(former);
    }
    co = lua_newthread(L);
    lua_pushinteger(co, E_FAIL);
    lua_pushcclosure(co, raise_slot, 1);
    assert_int_equal(stacksplice_lua_resume(co, L, 0, &results), E_FAIL);
    assert_ptr_equal(peek(), now);
    assert_int_equal(nodes_of(now), 2);
    now->lpVtbl->Release(now);
}

/* self(): resumes the coroutine that runs it; of(co): one that may be in no state for it. */
static int resume_self(lua_State *L)
{
    int results = -1;

    lua_pushliteral(L, "argument");
    assert_int_equal(stacksplice_lua_resume(L, L, 1, &results), E_FAIL);
    assert_int_equal(results, 0);
    assert_int_equal(lua_gettop(L), 0);
    assert_int_equal(stacksplice_lua_resume(L, NULL, 0, &results), E_FAIL);
    assert_int_equal(lua_gettop(L), 0);
    return 0;
}

static int resume_other(lua_State *L)
{
    int results = -1;

    assert_int_equal(stacksplice_lua_resume(lua_tothread(L, 1), L, 0, &results), E_FAIL);
    assert_int_equal(results, 0);
    assert_int_equal(lua_gettop(L), 1);
    return 0;
}

STATE_TEST(test_resume_of_what_cannot_be_resumed_leaves_it_alone)
{
    lua_State *L = *state, *co = lua_newthread(L);
    int results = -1;

#if LUA_VERSION_NUM < 504
    SKIP("Lua 5.3 does not have variables that are closed");
#endif
    lua_register(L, "self", resume_self);
    lua_register(L, "of", resume_other);
    load(co, "local co = coroutine.running()\n"
             "local c <close> = setmetatable({}, {__close = function() closed = true end})\n"
             "self() of(co) coroutine.wrap(function() of(co) end)()\n"
             "assert(not closed)\nreturn 'end'");
    assert_int_equal(stacksplice_lua_resume(co, L, 0, &results), S_OK);
    assert_int_equal(results, 1);
    assert_string_equal(lua_tostring(co, -1), "end");
    lua_pop(co, 1);
    assert_int_equal(stacksplice_lua_resume(co, L, 0, &results), E_FAIL);
    assert_stack(peek(), "");
}

/* Some hosts run their scripts by a lua_resume of the main thread. */
STATE_TEST(test_resume_of_the_main_thread)
{
    lua_State *L = *state;
    int results = -1;

#if LUA_VERSION_NUM < 504
    SKIP("Lua 5.3 does not have a main thread that failed and goes on");
#endif
    load(L, "error({hresult = 0x80070057})");
    assert_int_equal(stacksplice_lua_resume(L, NULL, 0, &results), E_INVALIDARG);
    assert_int_equal(lua_gettop(L), 0);
    assert_stack(peek(), "gap:" STACKSPLICE_GAP_RETURNED " ");
    load(L, "return 'again'");
    assert_int_equal(stacksplice_lua_resume(L, NULL, 0, &results), S_OK);
    assert_int_equal(results, 1);
    lua_settop(L, 0);
}

#if LUA_VERSION_NUM >= 502 /* before it nothing yields across a call from C */
static int k_status;

static int after_call(lua_State *L, int status, lua_KContext context)
{
    k_status = status;
    lua_pushinteger(L, (lua_Integer)context);
    return lua_gettop(L);
}

static int call_with_continuation(lua_State *L)
{
    return after_call(L, stacksplice_lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 7, after_call),
                      7);
}

STATE_TEST(test_pcallk_with_and_without_a_yield)
{
    lua_State *L = *state;

    lua_register(L, "callk", call_with_continuation);
    load(L, "local function same(want, ...) assert(table.concat({...}, ' ') == want,\n"
            "  table.concat({...}, ' ')) end\n"
            "same('below 1 2 7', callk('below', function(...) return ... end, 1, 2))\n"
            "same('below 7', callk('below', error, 'x'))\n"
            "local co = coroutine.wrap(function()\n"
            "  return callk('below', function(a) return a, coroutine.yield(a) end, 1) end)\n"
            "assert(co() == 1) same('below 1 2 7', co(2))");
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_OK);
    assert_int_equal(k_status, LUA_YIELD);
    RoClearError();
    load(L,
         "local co = coroutine.wrap(function()\n"
         "return callk('below', function() coroutine.yield() error({hresult = 0x80070005}) end)\n"
         "end) co() co()");
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_OK);
    assert_int_equal(k_status, E_ACCESSDENIED);
    /* callk itself is still an activation, but its native frame ended with the yield. */
    assert_stack(peek(), "lua:function <host.lua:2>:2 lua:callk:0 lua:function <host.lua:1>:2 "
                         "lua:main chunk:3 ");
}
#endif
