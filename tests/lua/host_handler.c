/* stacksplice_lua_handler as the handler of a host's own lua_pcall, and below its own lua_resume.
 */
#include "host.h"

/* ---- What lua_pcall gives is what it gives with any handler -----------------------------------*/

static int pass(lua_State *L)
{
    lua_settop(L, 1);
    return 1;
}

/* Run SCRIPT under HANDLER, above two values that stay; the error value is left at index 3. */
static int call_with(lua_State *L, lua_CFunction handler, const char *script)
{
    int status;

    lua_settop(L, 0);
    lua_pushliteral(L, "below");
    lua_pushcfunction(L, handler);
    load(L, script);
    status = lua_pcall(L, 0, 0, 2);
    assert_int_equal(lua_gettop(L), status == LUA_OK ? 2 : 3);
    assert_string_equal(lua_tostring(L, 1), "below");
    return status;
}

static void assert_same_as_without(lua_State *L, const char *script)
{
    int plain = call_with(L, pass, script), type;

    lua_settop(L, 3); /* nil, where there is no error */
    type = lua_type(L, 3);
    lua_pushvalue(L, 3);
    lua_setglobal(L, "plain_value");
    assert_int_equal(call_with(L, stacksplice_lua_handler, script), plain);
    lua_settop(L, 3);
    assert_int_equal(lua_type(L, 3), type);
    lua_getglobal(L, "plain_value");
    if (!lua_rawequal(L, 3, 4))
        fail_msg("%s: %s is not %s", script, luaL_tolstring(L, 3, NULL),
                 luaL_tolstring(L, 4, NULL));
    lua_settop(L, 0);
    assert_no_error();
}

STATE_TEST(test_status_value_and_stack_are_those_of_lua)
{
    static const char *const scripts[] = {
        "return 1",
        "error()",
        "error('text')",
        "error(fixed)",
        "error(false)",
        "return nil + 1",
#if !SS_LUA_JIT /* which fails in another way where a stack was full before, and bounds no C stack */
        "local function f() return 1 + f() end f()",
        "local function f() return (string.gsub('x', 'x', f)) end f()",
        "local function f() coroutine.wrap(f)() end f()",
#endif
        "local t t = setmetatable({}, {__index = function(_, k) return t[k] end}) return t.x",
        "coroutine.wrap(function() error('in it') end)()",
        "string.rep('x', 1e15)",
        "table.concat({{}})",
    };
    lua_State *L = *state;

    lua_newtable(L);
    lua_setglobal(L, "fixed");
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        assert_same_as_without(L, scripts[i]);
}

/* The handler's part is protected, so all that may fail in it fails alone. */
STATE_TEST(test_a_full_stack_lets_the_value_through)
{
    lua_State *L = *state;

    for (int left = 0; left < 60; left++) {
        char script[200];

        (void)snprintf(script, sizeof script,
                       "local function f(n, ...) if n > 0 then return f(n - 1, n, ...) end\n"
                       "error(fixed, 0) end\nfixed = {}\nf(%d)",
                       left);
        assert_int_equal(call_with(L, stacksplice_lua_handler, script), LUA_ERRRUN);
        lua_getglobal(L, "fixed");
        assert_true(lua_rawequal(L, -1, -2));
        assert_int_equal(stacksplice_lua_originate(L, -1), E_FAIL);
        RoClearError();
    }
}

/* A handler of the script's that fails inside of one of ours, and the other way round. */
STATE_TEST(test_an_error_in_error_handling_stays_one)
{
    assert_same_as_without(*state,
                           "local ok, m = xpcall(error, function() error() end)\nerror(m, 0)");
    assert_same_as_without(*state,
                           "local ok, m = xpcall(error, function(m) string.rep() end, 'x')\n"
                           "error(ok, 0)");
}

/* ---- The parents of a coroutine that C resumed ------------------------------------------------*/

static text seen;

/* look(): what a raise here would remember. */
static int look(lua_State *L)
{
    lua_pushcfunction(L, stacksplice_lua_handler);
    lua_newtable(L);
    lua_call(L, 1, 1);
    assert_true(FAILED(stacksplice_lua_originate(L, -1)));
    seen = script_stack((IUnknown *)peek());
    RoClearError();
    return 0;
}

/* resume(f): a coroutine that a host made and resumes by Lua's own function. */
static int resume_by_c(lua_State *L)
{
    lua_State *co = lua_newthread(L);

    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
#if LUA_VERSION_NUM >= 504 || defined lua_resume
    {
        int results;

        assert_int_equal(lua_resume(co, L, 0, &results), LUA_OK);
    }
#else
    assert_int_equal(lua_resume(co, L, 0), LUA_OK);
#endif
    return 0;
}

/* The function that coroutine.wrap made: LuaJIT's has no native frame. */
#if SS_LUA_JIT
#define WRAP "lua:f:0 "
#else
#define WRAP ""
#endif

STATE_TEST(test_parents_are_in_the_stack_when_c_resumes)
{
    lua_State *L = *state;

    lua_register(L, "look", look);
    lua_register(L, "resume_by_c", resume_by_c);
    load(L, "resume_by_c(function()\nlocal f = coroutine.wrap(function()\n"
            "resume_by_c(function()\nlook()\nend)\nend)\nf()\nend)");
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_OK);
    assert_string_equal(seen.text, "lua:function <host.lua:3>:4 lua:function <host.lua:2>:3 " WRAP
                                   "lua:function <host.lua:1>:7 lua:main chunk:1 ");
}

/* ---- Finalizers -------------------------------------------------------------------------------*/

#if LUA_VERSION_NUM >= 504

static char warned[400];

static void warn(void *data, const char *message, int to_continue)
{
    (void)snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%s", message);
}

/* Its error is a warning to whom the host told Lua, and to nobody else. */
STATE_TEST(test_a_finalizer_that_fails_warns_the_host)
{
    lua_State *L = *state;

    warned[0] = '\0';
    lua_setwarnf(L, warn, NULL);
    assert_int_equal(call_with(L, stacksplice_lua_handler,
                               "setmetatable({}, {__gc = function() error('in it', 0) end})\n"
                               "collectgarbage()"),
                     LUA_OK);
    assert_non_null(strstr(warned, "in it"));
    assert_no_error();
}

#else

STATE_TEST(test_a_finalizer_that_fails_warns_the_host)
{
    SKIP("Lua 5.3 has no warnings");
}

#endif

/* ---- Equal texts ------------------------------------------------------------------------------*/

static int fail_with_x(lua_State *L)
{
    lua_pushliteral(L, "x");
    return lua_error(L);
}

/* The error of the "x" that a call under HANDLER (NULL: none) of FUNCTION raises. */
static IRestrictedErrorInfo *error_of_x(lua_State *L, lua_CFunction handler, lua_CFunction function)
{
    IRestrictedErrorInfo *error = NULL;

    lua_settop(L, 0);
    lua_pushcfunction(L, handler ? handler : pass);
    lua_pushcfunction(L, function);
    assert_int_equal(lua_pcall(L, 0, 0, handler ? 1 : 0), LUA_ERRRUN);
    assert_string_equal(lua_tostring(L, -1), "x");
    assert_true(FAILED(stacksplice_lua_originate(L, -1)));
    assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
    lua_settop(L, 0);
    return error;
}

static IRestrictedErrorInfo *in_flight; /* for raise_x: borrowed */

static int raise_x(lua_State *L)
{
    assert_int_equal(SetRestrictedErrorInfo(in_flight), S_OK);
    return stacksplice_lua_raise(L, E_FAIL);
}

STATE_TEST(test_an_equal_text_is_the_older_error_only_while_that_is_raised)
{
    IRestrictedErrorInfo *handled, *unseen, *next, *again;
    lua_State *L = *state;

    handled = error_of_x(L, stacksplice_lua_handler, fail_with_x);
    unseen = error_of_x(L, NULL, fail_with_x);
    assert_ptr_not_equal(unseen, handled);
    next = error_of_x(L, NULL, fail_with_x);
    assert_ptr_not_equal(next, unseen);
    in_flight = next;
    again = error_of_x(L, stacksplice_lua_handler, raise_x);
    assert_ptr_equal(again, next);
    again->lpVtbl->Release(again);
    again = error_of_x(L, NULL, raise_x); /* the call may have failed with any "x" */
    assert_ptr_not_equal(again, next);
    again->lpVtbl->Release(again);
    again = error_of_x(L, NULL, fail_with_x);
    assert_ptr_not_equal(again, next);
    again->lpVtbl->Release(again);
    next->lpVtbl->Release(next);
    unseen->lpVtbl->Release(unseen);
    handled->lpVtbl->Release(handled);
    assert_no_error();
}

/* Nobody asks for the error that the handler has seen. */
static int drop_x(lua_State *L)
{
    lua_settop(L, 0);
    lua_pushcfunction(L, stacksplice_lua_handler);
    lua_pushcfunction(L, fail_with_x);
    assert_int_equal(lua_pcall(L, 0, 0, 1), LUA_ERRRUN);
    return 0;
}

static int ask_x(lua_State *L)
{
    IRestrictedErrorInfo *error = error_of_x(L, NULL, fail_with_x);

    seen = script_stack((IUnknown *)error);
    error->lpVtbl->Release(error);
    return 0;
}

/* The calls of both functions stand at one place of the stack. */
STATE_TEST(test_an_error_that_a_function_dropped_is_not_that_of_another_function)
{
    lua_State *L = *state;

    lua_register(L, "drop_x", drop_x);
    lua_register(L, "ask_x", ask_x);
    load(
        L,
        "local function dropped()\ndrop_x()\nend\ndropped()\nlocal function asked()\nask_x()\nend\n"
        "asked()");
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_OK);
    assert_string_equal(seen.text,
                        "gap:frames here had already returned lua:asked:6 lua:main chunk:8 ");
    assert_no_error();
}

#if LUA_VERSION_NUM >= 504
/* Where the host calls, no function runs, and values of its own lie below. */
STATE_TEST(test_an_error_in_close_has_the_one_that_it_replaces_as_its_context)
{
    lua_State *L = *state;
    stacksplice_relation relation = STACKSPLICE_RELATION_NONE;
    IRestrictedErrorInfo *error, *context = NULL;

    for (int below = 0; below < 3; below++) {
        lua_settop(L, below);
        load(L, "local c <close> = setmetatable({}, {__close = function()\n"
                "error('second', 0) end})\nerror('first', 0)");
        assert_true(FAILED(stacksplice_lua_pcall(L, 0, 0)));
        error = peek();
        assert_stack(error, "lua:function <host.lua:1>:2 ");
        assert_int_equal(stacksplice_error_cause((IUnknown *)error, &context, &relation), S_OK);
        assert_int_equal(relation, STACKSPLICE_RELATION_CONTEXT);
        assert_stack(context, "lua:main chunk:3 ");
        context->lpVtbl->Release(context);
        RoClearError();
    }
    lua_settop(L, 0);
}
#endif
