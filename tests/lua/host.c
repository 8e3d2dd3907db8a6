/* The functions of lua.h as a host uses them: stack effects, identity, HRESULTs. */
#include "host.h"

#include <stacksplice/script.h>

/* ---- Protected calls -------------------------------------------------------------------------*/

enum { SLOT = 2 }; /* where the handler of stacksplice_lua_xpcall is */

static HRESULT by_pcall(lua_State *L, int nargs, int nresults)
{
    return stacksplice_lua_pcall(L, nargs, nresults);
}

static HRESULT by_xpcall(lua_State *L, int nargs, int nresults)
{
    return stacksplice_lua_xpcall(L, nargs, nresults, SLOT);
}

#if !SS_LUA_JIT /* whose scripts no deadline interrupts */
static HRESULT by_deadline(lua_State *L, int nargs, int nresults)
{
    return stacksplice_lua_pcall_within(L, nargs, nresults, 3600 * 1000, 0, "work");
}

#endif

static HRESULT (*const calls[])(lua_State *L, int nargs, int nresults) = {
    by_pcall,
    by_xpcall,
#if !SS_LUA_JIT
    by_deadline,
#endif
};

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

/* Leave "below" and HANDLER on the stack, and SCRIPT above. */
static void begin(lua_State *L, lua_CFunction handler, const char *script)
{
    lua_settop(L, 0);
    lua_pushliteral(L, "below");
    lua_pushcfunction(L, handler);
    load(L, script);
    seen = 0;
}

/* Above them are COUNT values. */
static void assert_left(lua_State *L, lua_CFunction handler, int count)
{
    assert_int_equal(lua_gettop(L), SLOT + count);
    assert_string_equal(lua_tostring(L, 1), "below");
    assert_ptr_equal(lua_tocfunction(L, SLOT), handler);
}

STATE_TEST(test_calls_succeed_like_lua_pcall)
{
    lua_State *L = *state;

    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        begin(L, stacksplice_lua_handler, "local a, b = ... return a + b, 'x', nil");
        lua_pushinteger(L, 1);
        lua_pushinteger(L, 2);
        assert_int_equal(calls[i](L, 2, LUA_MULTRET), S_OK);
        assert_left(L, stacksplice_lua_handler, 3);
        assert_int_equal(lua_tointeger(L, SLOT + 1), 3);
        assert_string_equal(lua_tostring(L, SLOT + 2), "x");
        assert_true(lua_isnil(L, SLOT + 3));
        for (int results = 0; results < 3; results++) {
            begin(L, stacksplice_lua_handler, "return 1");
            assert_int_equal(calls[i](L, 0, results), S_OK);
            assert_left(L, stacksplice_lua_handler, results);
        }
    }
    assert_no_error();
}

static const char failing[] = "local function inner()\nerror({hresult = 0x80070005})\nend\n"
                              "local function outer()\ninner()\nend\nouter()";
static const char stack_of_failing[] = RAISED "lua:inner:2 lua:outer:5 lua:main chunk:7 ";

STATE_TEST(test_a_failure_has_the_stack_of_its_raise)
{
    lua_State *L = *state;

    for (size_t i = 0; i < 2 * COUNT_OF(calls); i++) {
        lua_CFunction handler = i % 2 ? counting : stacksplice_lua_handler;

        begin(L, handler, failing);
        lua_pushinteger(L, 1);
        assert_int_equal(calls[i / 2](L, 1, i % 2 ? 2 : LUA_MULTRET), E_ACCESSDENIED);
        assert_left(L, handler, 0);
        assert_int_equal(seen, i % 2 && calls[i / 2] == by_xpcall);
        assert_stack(peek(), stack_of_failing);
        assert_int_equal(nodes_of(peek()), 0);
        lua_pushnil(L); /* which cannot be called */
        assert_int_equal(calls[i / 2](L, 0, 0), E_FAIL);
        assert_left(L, handler, 0);
        (void)peek();
    }
}

STATE_TEST(test_another_handler_in_the_slot_leaves_a_gap)
{
    lua_State *L = *state;

    begin(L, pass, failing);
    assert_int_equal(by_xpcall(L, 0, 0), E_ACCESSDENIED);
    assert_stack(peek(), "gap:" STACKSPLICE_GAP_RETURNED " ");
    assert_left(L, pass, 0);
    lua_pushnil(L);
    lua_replace(L, SLOT);
    load(L, failing);
    assert_int_equal(by_xpcall(L, 0, 0), E_UNEXPECTED);
    assert_int_equal(lua_gettop(L), SLOT);
}

/* The call opens the state: functions that capture inside then have their names. */
STATE_TEST(test_the_first_call_in_a_state_knows_its_functions)
{
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        lua_State *L = luaL_newstate();

        assert_non_null(L);
        luaL_openlibs(L);
        begin(L, stacksplice_lua_handler, failing);
        assert_int_equal(calls[i](L, 0, 0), E_ACCESSDENIED);
        assert_stack(peek(), stack_of_failing);
        RoClearError();
        lua_close(L);
    }
}

/* ---- Identity --------------------------------------------------------------------------------*/

STATE_TEST(test_values_come_back_as_themselves)
{
    lua_State *L = *state;

    lua_register(L, "border", border);
    load(L, "local values = {{}, io.stdout, print, coroutine.create(function() end), 'text', "
            "'a\\0b', 42, 1.5,\n"
            "false, true, n = 11}\n"
            "local function same(got, value) return rawequal(got, value) or\n"
            "  (_VERSION == 'Lua 5.5' and value == nil and got == '<no error object>') end\n"
            "for i = 1, 11 do\n"
            "  local ok, got = pcall(border, function() error(values[i], 0) end)\n"
            "  assert(not ok and same(got, values[i]), i)\n"
            "  ok, got = pcall(border, function() border(function() error(values[i], 0) end) end)\n"
            "  assert(not ok and same(got, values[i]), i)\n"
            "  ok, got = stacksplice.pcall(border, function() error(values[i], 0) end)\n"
            "  assert(not ok and same(got, values[i]), i)\n"
            "end");
    if (lua_pcall(L, 0, 0, 0) != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
    assert_no_error();
}

/* As border, but it raises by itself: libraries for C++ do so when no object is alive. */
static int pushing_border(lua_State *L)
{
    HRESULT hr = stacksplice_lua_pcall(L, 0, 0);

    if (SUCCEEDED(hr))
        return 0;
    assert_int_equal(stacksplice_lua_push_error(L, hr), 1);
    assert_no_error();
    return lua_error(L);
}

STATE_TEST(test_one_error_object_and_one_node_for_each_border)
{
    static const char *const values[] = {"{}", "'text'", "nil", "false", "7"};
    static const lua_CFunction borders[] = {border, pushing_border};
    lua_State *L = *state;

    for (size_t i = 0; i < 2 * sizeof values / sizeof *values; i++) {
        char script[200];

        (void)snprintf(script, sizeof script,
                       "local v = %s local function inner() error(v, 0) end\n"
                       "border(function() border(inner) end)",
                       values[i / 2]);
        lua_register(L, "border", borders[i % 2]);
        load(L, script);
        assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
        assert_int_equal(nodes_of(peek()), 2);
        assert_stack(peek(), RAISED "lua:function <host.lua:1>:1 lua:function <host.lua:2>:2 "
                                    "lua:main chunk:2 ");
        RoClearError();
    }
}

STATE_TEST(test_a_caught_value_raised_anew_is_another_error_unless_it_has_identity)
{
    lua_State *L = *state;

    lua_register(L, "border", border);
    load(L, "pcall(border, function() error('again', 0) end)\n"
            "error('again', 0)");
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
    assert_int_equal(nodes_of(peek()), 0);
    assert_stack(peek(), RAISED "lua:main chunk:2 ");
    load(L, "local v = {} pcall(border, function()\nerror(v, 0) end)\nerror(v, 0)");
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
    assert_int_equal(nodes_of(peek()), 1);
}

STATE_TEST(test_raise_of_a_native_error_gives_an_error_object)
{
    lua_State *L = *state;
    IRestrictedErrorInfo *error;

    lua_pushinteger(L, E_ACCESSDENIED);
    lua_pushcclosure(L, raise_slot, 1);
    lua_setglobal(L, "raise_slot");
    RoOriginateErrorW(E_ACCESSDENIED, 0, (PCWSTR)u"no entry");
    error = peek();
    error->lpVtbl->AddRef(error);
    load(L, "local ok, e = pcall(raise_slot)\n"
            "assert(not ok and e.message == 'no entry' and e.language == 'native')\n"
            "assert(e.hresult == 0x80070005 and e.value == nil and e.type_name == nil)\n"
            "assert(tostring(e) == 'no entry' and #e.propagation == 1)\n"
            "assert(e.propagation[1].language == 'lua')\n"
            "assert(stacksplice.peek_error() == nil)\n"
            "error(e)");
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_ACCESSDENIED);
    assert_ptr_equal(peek(), error);
    error->lpVtbl->Release(error);
}

/* Native messages are UTF-16, at most 511 units; a script gets them as UTF-8. */
STATE_TEST(test_a_native_message_of_any_length)
{
    static const int lengths[] = {0, 1, 84, 85, 86, 256, 511};
    lua_State *L = *state;
    WCHAR message[512] = {0};

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int at = 0; at < lengths[i]; at++)
            message[at] = u'\u20AC';
        RoOriginateErrorW(E_ACCESSDENIED, (UINT)lengths[i], message);
        load(L, "local length, e = ..., stacksplice.peek_error()\n"
                "assert(e.hresult == 0x80070005)\n"
                "assert(length == 0 or e.message == ('\\226\\130\\172'):rep(length), e.message)\n"
                "assert(e.type_name == nil and e.language == 'native')\n"
                "assert(e.thread_id % 1 == 0)");
        lua_pushinteger(L, lengths[i]);
        assert_int_equal(lua_pcall(L, 1, 0, 0), LUA_OK);
    }
    RoClearError();
}

STATE_TEST(test_a_function_that_ends_in_raise_is_in_the_node)
{
    lua_State *L = *state;

    lua_pushinteger(L, E_ACCESSDENIED);
    lua_pushcclosure(L, raise_slot, 1);
    lua_setglobal(L, "raise_slot");
    RoOriginateErrorW(E_ACCESSDENIED, 0, (PCWSTR)u"no entry");
    load(L, "local ok, e = pcall(function()\nraise_slot()\nend)\n"
            "local stack = e.propagation[1].stack\n"
            "assert(stack[1].kind == 'native' or stack[1].name == 'raise_slot')\n"
            "assert(stack[1].name ~= 'stacksplice_lua_raise')\n"
            "assert(stack[2].currentline == 2)");
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), S_OK);
}

STATE_TEST(test_raise_with_another_hresult_raises_a_fresh_error)
{
    lua_State *L = *state;

    lua_pushinteger(L, E_INVALIDARG);
    lua_pushcclosure(L, raise_slot, 1);
    lua_setglobal(L, "raise_slot");
    RoOriginateErrorW(E_ACCESSDENIED, 0, (PCWSTR)u"stale");
    load(L, "local ok, e = pcall(raise_slot) assert(not ok and e.hresult == 0x80070057)\n"
            "assert(not e.message:find('stale'))");
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), S_OK);
    assert_no_error();
}

STATE_TEST(test_raise_of_a_success_code_is_an_error_of_its_own)
{
    lua_State *L = *state;

    RoOriginateErrorW(E_ACCESSDENIED, 0, (PCWSTR)u"kept");
    lua_pushinteger(L, S_OK);
    lua_pushcclosure(L, raise_slot, 1);
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_ERRRUN);
    assert_non_null(strstr(lua_tostring(L, -1), "success code"));
    (void)peek();
}

/* ---- originate, exception, push --------------------------------------------------------------*/

STATE_TEST(test_originate_after_a_plain_pcall_says_what_is_gone)
{
    lua_State *L = *state;

    load(L, "error('lost', 0)");
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_ERRRUN);
    assert_int_equal(stacksplice_lua_originate(L, -1), E_FAIL);
    assert_string_equal(lua_tostring(L, -1), "lost");
    assert_int_equal(lua_gettop(L), 1);
    assert_stack(peek(), "gap:" STACKSPLICE_GAP_RETURNED " ");
}

STATE_TEST(test_originate_after_the_handler_has_the_stack_of_the_raise)
{
    static const char *const values[] = {"{}", "'text'", "nil", "io.stdout"};
    lua_State *L = *state;

    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char script[100];

        (void)snprintf(script, sizeof script, "local function f()\nerror(%s, 0) end\nf()",
                       values[i]);
        RoClearError();
        lua_settop(L, 0);
        lua_pushcfunction(L, stacksplice_lua_handler);
        load(L, script);
        assert_int_equal(lua_pcall(L, 0, 0, 1), LUA_ERRRUN);
        assert_no_error();
        assert_int_equal(stacksplice_lua_originate(L, -1), E_FAIL);
        assert_stack(peek(), RAISED "lua:f:2 lua:main chunk:3 ");
    }
}

STATE_TEST(test_originate_status)
{
    lua_State *L = *state;

    assert_int_equal(luaL_loadstring(L, "not lua"), LUA_ERRSYNTAX);
    assert_int_equal(stacksplice_lua_originate_status(L, -1, LUA_ERRSYNTAX), (HRESULT)0x80020101);
    lua_pushliteral(L, "m");
    assert_int_equal(stacksplice_lua_originate_status(L, -1, LUA_ERRMEM), E_OUTOFMEMORY);
    lua_pushliteral(L, "e");
    assert_int_equal(stacksplice_lua_originate_status(L, -1, LUA_ERRERR), E_UNEXPECTED);
}

STATE_TEST(test_bad_arguments)
{
    lua_State *L = *state;
    IUnknown *out = (IUnknown *)L;

    assert_int_equal(stacksplice_lua_originate(L, 5), E_INVALIDARG);
    assert_int_equal(lua_gettop(L), 0);
    assert_int_equal(stacksplice_lua_exception(L, 5, &out), E_INVALIDARG);
    assert_ptr_equal(out, L); /* untouched */
    lua_pushliteral(L, "x");
    assert_int_equal(stacksplice_lua_exception(L, 1, NULL), E_POINTER);
    assert_int_equal(stacksplice_lua_push(L, NULL), 0);
    assert_int_equal(stacksplice_lua_resume(lua_newthread(L), L, 0, NULL), E_POINTER);
    assert_int_equal(lua_gettop(L), 2);
}

/* Lua reads and writes below its stack when it is told of values that are not there. */
STATE_TEST(test_counts_and_indices_beyond_the_stack)
{
    lua_State *L = *state;
    IUnknown *out = NULL;
    int results = 7;

    lua_pushcfunction(L, stacksplice_lua_handler);
    assert_int_equal(stacksplice_lua_originate(L, 0), E_INVALIDARG);
    assert_int_equal(stacksplice_lua_originate(L, -2), E_INVALIDARG);
    assert_int_equal(stacksplice_lua_exception(L, -2, &out), E_INVALIDARG);
    assert_int_equal(stacksplice_lua_exception(L, 0, &out), E_INVALIDARG);
#if LUA_VERSION_NUM >= 502
    assert_int_equal(stacksplice_lua_pcallk(L, 1, 0, 0, NULL), E_INVALIDARG);
#endif
    assert_int_equal(stacksplice_lua_resume(lua_newthread(L), L, 1, &results), E_INVALIDARG);
    assert_int_equal(results, 7);
    assert_int_equal(lua_gettop(L), 2);
    RoClearError();
}

STATE_TEST(test_calls_beyond_the_stack)
{
    static const int counts[][2] = {{1, 0}, {-1, 0}, {1000, 0}, {0, -2}};
    static const int slots[] = {0, -2, SLOT + 1, 10000, LUA_REGISTRYINDEX};
    lua_State *L = *state;

    begin(L, stacksplice_lua_handler, "return 1");
    for (size_t i = 0; i < COUNT_OF(counts); i++)
        for (size_t call = 0; call < COUNT_OF(calls); call++) {
            /* One of another function would be the handler. */
            if (counts[i][0] != 1 || calls[call] == by_xpcall)
                assert_int_equal(calls[call](L, counts[i][0], counts[i][1]), E_INVALIDARG);
            assert_left(L, stacksplice_lua_handler, 1);
        }
    for (size_t i = 0; i < COUNT_OF(slots); i++) {
        assert_int_equal(stacksplice_lua_xpcall(L, 0, 0, slots[i]), E_INVALIDARG);
        assert_left(L, stacksplice_lua_handler, 1);
        (void)peek();
    }
    assert_int_equal(by_xpcall(L, 0, 0), S_OK);
    lua_settop(L, 0);
    for (size_t call = 0; call < COUNT_OF(calls); call++)
        assert_int_equal(calls[call](L, 0, 0), E_INVALIDARG);
    assert_int_equal(stacksplice_lua_pcall(L, 1, 0), E_INVALIDARG);
    assert_int_equal(lua_gettop(L), 0);
    RoClearError();
}

STATE_TEST(test_exception_is_a_com_object)
{
    lua_State *L = *state;
    IUnknown *x = NULL, *identity = NULL, *same = NULL;
    ILanguageExceptionStackBackTrace *trace = NULL;
    IScriptException *script = NULL;
    static const ULONG rooms[] = {0, 1, 8, 1000};
    UINT_PTR frames[1000];
    ULONG all = 0, count;
    size_t length;
    void *none = L;

    lua_pushlstring(L, "a\0b", 3);
    assert_int_equal(stacksplice_lua_exception(L, -1, &x), S_OK);
    assert_int_equal(x->lpVtbl->QueryInterface(x, &IID_IUnknown, (void **)&identity), S_OK);
    assert_int_equal(x->lpVtbl->QueryInterface(x, &IID_IAgileObject, (void **)&same), S_OK);
    assert_int_equal(
        x->lpVtbl->QueryInterface(x, &IID_ILanguageExceptionStackBackTrace, (void **)&trace), S_OK);
    assert_int_equal(x->lpVtbl->QueryInterface(x, &IID_IErrorInfo, &none), E_NOINTERFACE);
    assert_null(none);
    assert_int_equal(x->lpVtbl->QueryInterface(x, &IID_IUnknown, NULL), E_POINTER);
    same->lpVtbl->Release(same);
    assert_int_equal(trace->lpVtbl->QueryInterface(trace, &IID_IUnknown, (void **)&same), S_OK);
    assert_ptr_equal(same, identity);
    assert_int_equal(trace->lpVtbl->GetStackBackTrace(trace, 1000, frames, &all), S_OK);
    assert_true(all > 0);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(trace->lpVtbl->GetStackBackTrace(trace, rooms[i], frames, &count), S_OK);
        assert_int_equal(count, rooms[i] < all ? rooms[i] : all);
    }
    assert_int_equal(trace->lpVtbl->GetStackBackTrace(trace, 1, frames, NULL), E_POINTER);
    assert_int_equal(trace->lpVtbl->GetStackBackTrace(trace, 1, NULL, &count), E_POINTER);
    assert_int_equal(
        x->lpVtbl->QueryInterface(x, &stacksplice_IID_IScriptException, (void **)&script), S_OK);
    assert_string_equal(script->lpVtbl->GetLanguage(script), "lua");
    assert_string_equal(script->lpVtbl->GetTypeName(script, 0), "string");
    assert_memory_equal(script->lpVtbl->GetMessage(script, &length), "a\0b", 4);
    assert_int_equal(length, 3);
    assert_int_equal(stacksplice_lua_push(L, x), 1);
    assert_int_equal(lua_rawequal(L, -1, -2), 1);
    script->lpVtbl->Release(script);
    trace->lpVtbl->Release(trace);
    same->lpVtbl->Release(same);
    identity->lpVtbl->Release(identity);
    x->lpVtbl->Release(x);
}

STATE_TEST(test_push_knows_its_own_state_only)
{
    lua_State *L = *state, *other;
    IUnknown *x = NULL;
    void *second;

    (void)open_state(&second);
    other = second;
    lua_newtable(L);
    assert_int_equal(stacksplice_lua_exception(L, -1, &x), S_OK);
    assert_int_equal(stacksplice_lua_push(other, x), 0);
    assert_int_equal(lua_gettop(other), 0);
    assert_int_equal(stacksplice_lua_push(L, x), 1);
    assert_true(lua_rawequal(L, 1, 2));
    x->lpVtbl->Release(x);
    lua_close(other);
}

STATE_TEST(test_an_error_to_raise_later_without_an_error)
{
    lua_State *L = *state;

    assert_int_equal(stacksplice_lua_push_error(L, S_OK), 1);
    assert_int_equal(stacksplice_lua_push_error(L, E_ACCESSDENIED), 1);
    assert_int_equal(lua_gettop(L), 2);
    lua_setglobal(L, "denied");
    lua_setglobal(L, "unexpected");
    load(L, "assert(unexpected.hresult == 0x8000ffff and denied.hresult == 0x80070005)");
    if (lua_pcall(L, 0, 0, 0) != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
    assert_no_error();
}

STATE_TEST(test_an_error_of_another_state_arrives_as_error_object)
{
    lua_State *L = *state, *other;
    void *second;

    (void)open_state(&second);
    other = second;
    load(other, "error({code = 2}, 0)");
    assert_int_equal(stacksplice_lua_pcall(other, 0, 0), E_FAIL);
    lua_pushinteger(L, E_FAIL);
    lua_pushcclosure(L, raise_slot, 1);
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_ERRRUN);
    lua_close(other);
    lua_setglobal(L, "e");
    load(L, "assert(type(e) == 'userdata' and e.language == 'lua' and e.value == nil)\n"
            "assert(e.stack[1].kind and e.type_name == 'table' and e.message == '{code = 2}')");
    if (lua_pcall(L, 0, 0, 0) != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
}
