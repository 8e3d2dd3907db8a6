/* The functions of lua.h as a host uses them: stack effects, identity, HRESULTs, lifetimes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

#include <stacksplice/lua.h>
#include <stacksplice/source.h>

#if LUA_VERSION_NUM >= 505
#define NEW_STATE(allocator) lua_newstate(allocator, NULL, 1)
#else
#define NEW_STATE(allocator) lua_newstate(allocator, NULL)
#endif

/* ---- Helpers ---------------------------------------------------------------------------------*/

static int open_state(void **state)
{
    lua_State *L = luaL_newstate();

    luaL_openlibs(L);
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 1);
    lua_settop(L, 0);
    RoClearError();
    *state = L;
    return 0;
}

static int close_state(void **state)
{
    RoClearError();
    if (*state)
        lua_close(*state);
    return 0;
}

static void load(lua_State *L, const char *script)
{
    if (luaL_loadbufferx(L, script, strlen(script), "@host.lua", "t") != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
}

/* The thread's error, left in the slot. */
static IRestrictedErrorInfo *peek(void)
{
    IRestrictedErrorInfo *error = NULL;

    assert_int_equal(stacksplice_peek_error(&error), S_OK);
    error->lpVtbl->Release(error);
    return error;
}

static void assert_no_error(void)
{
    IRestrictedErrorInfo *error = NULL;

    assert_int_equal(stacksplice_peek_error(&error), S_FALSE);
    assert_null(error);
}

static IUnknown *exception_of(IRestrictedErrorInfo *error)
{
    ILanguageExceptionErrorInfo2 *info = NULL;
    IUnknown *exception = NULL;

    assert_int_equal(
        error->lpVtbl->QueryInterface(error, &IID_ILanguageExceptionErrorInfo2, (void **)&info),
        S_OK);
    assert_int_equal(info->lpVtbl->GetLanguageException(info, &exception), S_OK);
    info->lpVtbl->Release(info);
    return exception;
}

static unsigned nodes_of(IRestrictedErrorInfo *error)
{
    ILanguageExceptionErrorInfo2 *info = NULL, *next = NULL;
    unsigned count = 0;

    assert_int_equal(
        error->lpVtbl->QueryInterface(error, &IID_ILanguageExceptionErrorInfo2, (void **)&info),
        S_OK);
    assert_int_equal(info->lpVtbl->GetPropagationContextHead(info, &next), S_OK);
    info->lpVtbl->Release(info);
    while (next) {
        info = next;
        next = NULL;
        count++;
        assert_int_equal(info->lpVtbl->GetPreviousLanguageExceptionErrorInfo(info, &next), S_OK);
        info->lpVtbl->Release(info);
    }
    return count;
}

/* One line for each frame: "lua:f:3", "gap:unwound"; native frames are left out. */
typedef struct text {
    char text[4000];
} text;

static int add_frame(const stacksplice_frame *frame, void *data)
{
    text *out = data;
    size_t used = strlen(out->text);

    if (frame->kind == STACKSPLICE_FRAME_SCRIPT)
        (void)snprintf(out->text + used, sizeof out->text - used, "%s:%s:%u%s ", frame->language,
                       frame->function, frame->line,
                       frame->trust == STACKSPLICE_TRUST_TRACEBACK ? "t" : "");
    else if (frame->kind == STACKSPLICE_FRAME_GAP)
        (void)snprintf(out->text + used, sizeof out->text - used, "gap:%s ", frame->reason);
    return 0;
}

static text script_stack(IUnknown *error)
{
    uintptr_t frames[512];
    uint32_t count = 0;
    text out = {""};

    assert_true(SUCCEEDED(stacksplice_error_stack(error, 512, frames, &count)));
    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], add_frame, &out);
    return out;
}

#define assert_stack(error, expected)                  \
    do {                                               \
        text got_ = script_stack((IUnknown *)(error)); \
        assert_string_equal(got_.text, expected);      \
    } while (0)

/* ---- pcall -----------------------------------------------------------------------------------*/

static void test_pcall_succeeds_like_lua_pcall(void **state)
{
    lua_State *L = *state;

    lua_pushliteral(L, "below");
    load(L, "local a, b = ... return a + b, 'x', nil");
    lua_pushinteger(L, 1);
    lua_pushinteger(L, 2);
    assert_int_equal(stacksplice_lua_pcall(L, 2, LUA_MULTRET), S_OK);
    assert_int_equal(lua_gettop(L), 4);
    assert_int_equal(lua_tointeger(L, 2), 3);
    assert_string_equal(lua_tostring(L, 3), "x");
    assert_true(lua_isnil(L, 4));
    lua_settop(L, 1);
    load(L, "return 1");
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), S_OK);
    assert_int_equal(lua_gettop(L), 1);
    assert_no_error();
}

static void test_pcall_originates_a_failure(void **state)
{
    lua_State *L = *state;
    IRestrictedErrorInfo *error;

    lua_pushliteral(L, "below");
    load(L, "local function inner()\nerror({hresult = 0x80070005})\nend\n"
            "local function outer()\ninner()\nend\nouter()");
    lua_pushinteger(L, 1);
    assert_int_equal(stacksplice_lua_pcall(L, 1, 2), E_ACCESSDENIED);
    assert_int_equal(lua_gettop(L), 1);
    error = peek();
    assert_stack(error, "lua:inner:2 lua:outer:5 lua:main chunk:7 ");
    assert_int_equal(nodes_of(error), 0);
}

static void test_pcall_of_what_cannot_be_called(void **state)
{
    lua_State *L = *state;

    lua_pushnil(L);
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
    assert_int_equal(lua_gettop(L), 0);
    (void)peek();
}

/* ---- Identity --------------------------------------------------------------------------------*/

/* Raises the thread's error, as a C function between Lua and other code does. */
static int raise_slot(lua_State *L)
{
    HRESULT hr = (HRESULT)lua_tointeger(L, lua_upvalueindex(1));

    return stacksplice_lua_raise(L, hr);
}

/* border(f): calls f under stacksplice_lua_pcall and raises what comes out. */
static int border(lua_State *L)
{
    HRESULT hr = stacksplice_lua_pcall(L, 0, 0);

    if (FAILED(hr))
        return stacksplice_lua_raise(L, hr);
    return 0;
}

static void test_values_come_back_as_themselves(void **state)
{
    lua_State *L = *state;

    lua_register(L, "border", border);
    load(
        L,
        "local values = {{}, io.stdout, print, coroutine.create(print), 'text', 'a\\0b', 42, 1.5,\n"
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

static void test_one_error_object_and_one_node_for_each_border(void **state)
{
    static const char *const values[] = {"{}", "'text'", "nil", "false", "7"};
    lua_State *L = *state;

    lua_register(L, "border", border);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char script[200];

        (void)snprintf(script, sizeof script,
                       "local v = %s local function inner() error(v, 0) end\n"
                       "border(function() border(inner) end)",
                       values[i]);
        load(L, script);
        assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
        assert_int_equal(nodes_of(peek()), 2);
        assert_stack(peek(), "lua:function <host.lua:1>:1 lua:function <host.lua:2>:2 "
                             "lua:main chunk:2 ");
        RoClearError();
    }
}

static void test_a_caught_value_raised_anew_is_another_error_unless_it_has_identity(void **state)
{
    lua_State *L = *state;

    lua_register(L, "border", border);
    load(L, "pcall(border, function() error('again', 0) end)\n"
            "error('again', 0)");
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
    assert_int_equal(nodes_of(peek()), 0);
    assert_stack(peek(), "lua:main chunk:2 ");
    load(L, "local v = {} pcall(border, function()\nerror(v, 0) end)\nerror(v, 0)");
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
    assert_int_equal(nodes_of(peek()), 1);
}

static void test_raise_of_a_native_error_gives_an_error_object(void **state)
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

static void test_a_function_that_ends_in_raise_is_in_the_node(void **state)
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

static void test_raise_with_another_hresult_raises_a_fresh_error(void **state)
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

static void test_raise_of_a_success_code_is_an_error_of_its_own(void **state)
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

static void test_originate_after_a_plain_pcall_says_what_is_gone(void **state)
{
    lua_State *L = *state;

    load(L, "error('lost', 0)");
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_ERRRUN);
    assert_int_equal(stacksplice_lua_originate(L, -1), E_FAIL);
    assert_string_equal(lua_tostring(L, -1), "lost");
    assert_int_equal(lua_gettop(L), 1);
    assert_stack(peek(), "gap:unwound ");
}

static void test_originate_after_the_handler_has_the_stack_of_the_raise(void **state)
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
        assert_stack(peek(), "lua:f:2 lua:main chunk:3 ");
    }
}

static void test_originate_status(void **state)
{
    lua_State *L = *state;

    assert_int_equal(luaL_loadstring(L, "not lua"), LUA_ERRSYNTAX);
    assert_int_equal(stacksplice_lua_originate_status(L, -1, LUA_ERRSYNTAX), (HRESULT)0x80020101);
    lua_pushliteral(L, "m");
    assert_int_equal(stacksplice_lua_originate_status(L, -1, LUA_ERRMEM), E_OUTOFMEMORY);
    lua_pushliteral(L, "e");
    assert_int_equal(stacksplice_lua_originate_status(L, -1, LUA_ERRERR), E_UNEXPECTED);
}

static void test_bad_arguments(void **state)
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
static void test_counts_and_indices_beyond_the_stack(void **state)
{
    lua_State *L = *state;
    IUnknown *out = NULL;
    int results = 7;

    lua_pushcfunction(L, stacksplice_lua_handler);
    assert_int_equal(stacksplice_lua_originate(L, 0), E_INVALIDARG);
    assert_int_equal(stacksplice_lua_originate(L, -2), E_INVALIDARG);
    assert_int_equal(stacksplice_lua_exception(L, -2, &out), E_INVALIDARG);
    assert_int_equal(stacksplice_lua_exception(L, 0, &out), E_INVALIDARG);
    assert_int_equal(stacksplice_lua_pcall(L, 1, 0), E_INVALIDARG);
    assert_int_equal(stacksplice_lua_pcall(L, -1, 0), E_INVALIDARG);
    assert_int_equal(stacksplice_lua_pcall(L, 0, -2), E_INVALIDARG);
    assert_int_equal(stacksplice_lua_pcallk(L, 1, 0, 0, NULL), E_INVALIDARG);
    assert_int_equal(stacksplice_lua_resume(lua_newthread(L), L, 1, &results), E_INVALIDARG);
    assert_int_equal(results, 7);
    assert_int_equal(lua_gettop(L), 2);
    RoClearError();
}

static void test_exception_is_a_com_object(void **state)
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
    assert_int_equal(x->lpVtbl->QueryInterface(x, &IID_INoMarshal, &none), E_NOINTERFACE);
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
    assert_string_equal(script->lpVtbl->GetTypeName(script), "string");
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

static void test_push_knows_its_own_state_only(void **state)
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

static void test_an_error_of_another_state_arrives_as_error_object(void **state)
{
    lua_State *L = *state, *other;
    void *second;

    (void)open_state(&second);
    other = second;
    load(other, "error({}, 0)");
    assert_int_equal(stacksplice_lua_pcall(other, 0, 0), E_FAIL);
    lua_pushinteger(L, E_FAIL);
    lua_pushcclosure(L, raise_slot, 1);
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_ERRRUN);
    lua_close(other);
    lua_setglobal(L, "e");
    load(L, "assert(type(e) == 'userdata' and e.language == 'lua' and e.value == nil)\n"
            "assert(e.stack[1].kind and e.type_name == 'table' and e.message:find('^table'))");
    if (lua_pcall(L, 0, 0, 0) != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
}

/* ---- Coroutines and continuations ------------------------------------------------------------*/

static void test_resume_captures_the_dead_coroutine(void **state)
{
    lua_State *L = *state, *co = lua_newthread(L);
    int results = -1;

#if LUA_VERSION_NUM < 504
    skip(); /* Lua 5.3 does not have variables that are closed */
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
    assert_stack(peek(), "lua:error:0t lua:f:5t lua:main chunk:7t gap:unwound ");
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

/* No handler saw the raise in the coroutine: only the function that raises the error in flight tells
   that an equal value is the same one. */
static void test_an_equal_value_in_another_coroutine_is_another_error(void **state)
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

static void test_resume_of_what_cannot_be_resumed_leaves_it_alone(void **state)
{
    lua_State *L = *state, *co = lua_newthread(L);
    int results = -1;

#if LUA_VERSION_NUM < 504
    skip(); /* Lua 5.3 does not have variables that are closed */
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
static void test_resume_of_the_main_thread(void **state)
{
    lua_State *L = *state;
    int results = -1;

#if LUA_VERSION_NUM < 504
    skip(); /* Lua 5.3 does not have a main thread that failed and goes on */
#endif
    load(L, "error({hresult = 0x80070057})");
    assert_int_equal(stacksplice_lua_resume(L, NULL, 0, &results), E_INVALIDARG);
    assert_int_equal(lua_gettop(L), 0);
    assert_stack(peek(), "gap:unwound ");
    load(L, "return 'again'");
    assert_int_equal(stacksplice_lua_resume(L, NULL, 0, &results), S_OK);
    assert_int_equal(results, 1);
    lua_settop(L, 0);
}

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

static void test_pcallk_with_and_without_a_yield(void **state)
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

/* ---- Lifetimes -------------------------------------------------------------------------------*/

static void test_everything_outlives_lua_close(void **state)
{
    lua_State *L = *state;
    IRestrictedErrorInfo *error = NULL;
    IScriptException *script = NULL;
    IUnknown *x;
    size_t length;

    load(L,
         "local function f() error(setmetatable({}, {__tostring = function() return 'kept' end})) "
         "end f()");
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
    assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
    x = exception_of(error);
    lua_close(L);
    *state = NULL;
    assert_int_equal(
        x->lpVtbl->QueryInterface(x, &stacksplice_IID_IScriptException, (void **)&script), S_OK);
    assert_string_equal(script->lpVtbl->GetMessage(script, &length), "kept");
    assert_stack(error, "lua:f:1 lua:main chunk:1 ");
    script->lpVtbl->Release(script);
    x->lpVtbl->Release(x);
    error->lpVtbl->Release(error);
}

static void *release(void *object)
{
    ((IUnknown *)object)->lpVtbl->Release(object);
    return NULL;
}

static void test_release_on_another_thread_frees_the_value_at_the_next_entry(void **state)
{
    lua_State *L = *state;
    IRestrictedErrorInfo *error = NULL;
    pthread_t thread;

    load(L, "weak = setmetatable({}, {__mode = 'v'}) weak[1] = {} error(weak[1])");
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
    assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
    load(L, "collectgarbage() collectgarbage() assert(weak[1])");
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_OK);
    assert_int_equal(pthread_create(&thread, NULL, release, error), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    load(L, "stacksplice.peek_error() collectgarbage() collectgarbage() assert(not weak[1])");
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_OK);
}

static void *release_many(void *data)
{
    IRestrictedErrorInfo **errors = data;

    for (int i = 0; i < 200; i++)
        errors[i]->lpVtbl->Release(errors[i]);
    return NULL;
}

static void test_releases_race_with_the_state(void **state)
{
    lua_State *L = *state;
    static IRestrictedErrorInfo *errors[200];
    pthread_t thread;

    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 200; i++) {
            load(L, i % 2 ? "error({})" : "error('text')");
            assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
            assert_int_equal(GetRestrictedErrorInfo(&errors[i]), S_OK);
        }
        assert_int_equal(pthread_create(&thread, NULL, release_many, errors), 0);
        for (int i = 0; i < 200; i++) {
            load(L, "error({})");
            assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
        }
        if (round == 19) {
            RoClearError();
            lua_close(L);
            *state = NULL;
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

static void test_the_slot_may_keep_an_error_after_its_state(void **state)
{
    for (int i = 0; i < 3; i++) {
        void *another;

        (void)open_state(&another);
        load(another, "error({})");
        assert_int_equal(stacksplice_lua_pcall(another, 0, 0), E_FAIL);
        lua_close(another);
        assert_stack(peek(), "lua:main chunk:1 ");
    }
    RoClearError();
    (void)state;
}

static void test_a_child_of_fork_goes_on(void **state)
{
    lua_State *L = *state;
    int status = -1;
    pid_t child;

    load(L, "error('before fork', 0)");
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
    child = fork();
    if (child == 0) {
        load(L, "error('in child', 0)");
        _exit(stacksplice_lua_pcall(L, 0, 0) == E_FAIL &&
                      strcmp(script_stack((IUnknown *)peek()).text, "lua:main chunk:1 ") == 0
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- Without memory --------------------------------------------------------------------------*/

static long allowed; /* allocations until the allocator fails; negative: it never does */

static void *allocate(void *data, void *block, size_t old_size, size_t new_size)
{
    (void)data;
    if (new_size == 0) {
        free(block);
        return NULL;
    }
    if (allowed >= 0 && (!block || new_size > old_size)) {
        if (allowed == 0)
            return NULL;
        allowed--;
    }
    return realloc(block, new_size);
}

static lua_State *new_failing_state(void)
{
    lua_State *L;

    allowed = -1;
    L = NEW_STATE(allocate);
    luaL_openlibs(L);
    lua_gc(L, LUA_GCSTOP, 0);
    return L;
}

static int fail_next_allocations(lua_State *L)
{
    (void)L;
    allowed = 20;
    return 0;
}

/* Fail allocation 0, 1, 2, ... until everything succeeds. */
static void test_no_function_throws_when_lua_has_no_memory(void **state)
{
    bool failed = true;

    (void)state;
    for (long i = 0; failed && i < 500; i++) {
        lua_State *L = new_failing_state();
        IUnknown *x = NULL;
        HRESULT hr;

        load(L, "local t = {} for i = 1, 3 do t[i] = {} end error(t, 0)");
        allowed = i;
        hr = stacksplice_lua_pcall(L, 0, 0);
        failed = allowed == 0;
        assert_true(hr == E_FAIL || hr == E_OUTOFMEMORY);
        assert_int_equal(lua_gettop(L), 0);
        (void)peek();
        allowed = -1;
        lua_pushliteral(L, "value");
        allowed = i;
        hr = stacksplice_lua_originate(L, -1);
        assert_true(hr == E_FAIL || hr == E_OUTOFMEMORY);
        (void)peek();
        allowed = i;
        hr = stacksplice_lua_exception(L, -1, &x);
        assert_true(hr == S_OK || hr == E_OUTOFMEMORY);
        assert_int_equal(lua_gettop(L), 1);
        if (x)
            x->lpVtbl->Release(x);
        allowed = -1;
        lua_close(L);
        RoClearError();
    }
    assert_false(failed);
}

static int open_and_fail(lua_State *L)
{
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_call(L, 0, 0);
    return 0;
}

/* What could not be completed is not left behind half made. */
static void test_everything_works_once_there_is_memory_again(void **state)
{
    bool failed = true;

    (void)state;
    for (long i = 0; failed && i < 500; i++) {
        lua_State *L = new_failing_state();

        load(L, "stacksplice.peek_error() stacksplice.pcall(error, {})");
        lua_pushcclosure(L, open_and_fail, 1);
        allowed = i;
        (void)lua_pcall(L, 0, 0, 0);
        failed = allowed == 0;
        allowed = -1;
        lua_settop(L, 0);
        luaL_requiref(L, "stacksplice", luaopen_stacksplice, 1);
        load(L, "shop = {price = function() error({}) end} package.loaded.shop = shop\n"
                "local _, value, err = stacksplice.pcall(shop.price)\n"
                "assert(rawequal(err.value, value) and err == stacksplice.error_info(value))\n"
                "assert(tostring(err):find('table: ', 1, true))\n"
                "for _, frame in ipairs(err.stack) do\n"
                "if frame.name == 'shop.price' then return end end error(err:text())");
        if (lua_pcall(L, 0, 0, 0) != LUA_OK)
            fail_msg("allocation %ld: %s", i, lua_tostring(L, -1));
        lua_close(L);
    }
    assert_false(failed);
    RoClearError();
}

static void test_raise_without_memory_raises_something(void **state)
{
    bool failed = true;

    (void)state;
    for (long i = 0; failed && i < 500; i++) {
        lua_State *L = new_failing_state();
        int status;

        RoOriginateErrorW(E_ACCESSDENIED, 0, (PCWSTR)u"no entry");
        lua_pushinteger(L, E_ACCESSDENIED);
        lua_pushcclosure(L, raise_slot, 1);
        allowed = i;
        status = lua_pcall(L, 0, 0, 0);
        failed = allowed == 0;
        allowed = -1;
        assert_true(status == LUA_ERRRUN || status == LUA_ERRMEM);
        lua_close(L);
        RoClearError();
    }
    assert_false(failed);
}

static void test_out_of_memory_has_its_hresult(void **state)
{
    lua_State *L = new_failing_state();

    (void)state;
    load(L, "fail() local t = {} for i = 1, 1000 do t[i] = {} end");
    lua_register(L, "fail", fail_next_allocations);
    lua_pushcfunction(L, stacksplice_lua_handler); /* the state's record is made beforehand */
    lua_pushnil(L);
    lua_call(L, 1, 0);
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_OUTOFMEMORY);
    allowed = -1;
    assert_int_equal(lua_gettop(L), 0);
    (void)peek();
    lua_close(L);
}

static void test_error_in_error_handling_has_its_hresult(void **state)
{
    lua_State *L = *state;

    load(L, "return select(3, stacksplice.xpcall(error, function() error() end, 'x')).hresult");
    assert_int_equal(stacksplice_lua_pcall(L, 0, 1), S_OK);
    assert_true(lua_isinteger(L, -1));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_state, close_state)
    static const struct CMUnitTest tests[] = {
        TEST(test_pcall_succeeds_like_lua_pcall),
        TEST(test_pcall_originates_a_failure),
        TEST(test_pcall_of_what_cannot_be_called),
        TEST(test_values_come_back_as_themselves),
        TEST(test_one_error_object_and_one_node_for_each_border),
        TEST(test_a_caught_value_raised_anew_is_another_error_unless_it_has_identity),
        TEST(test_raise_of_a_native_error_gives_an_error_object),
        TEST(test_a_function_that_ends_in_raise_is_in_the_node),
        TEST(test_raise_with_another_hresult_raises_a_fresh_error),
        TEST(test_raise_of_a_success_code_is_an_error_of_its_own),
        TEST(test_originate_after_a_plain_pcall_says_what_is_gone),
        TEST(test_originate_after_the_handler_has_the_stack_of_the_raise),
        TEST(test_originate_status),
        TEST(test_bad_arguments),
        TEST(test_counts_and_indices_beyond_the_stack),
        TEST(test_exception_is_a_com_object),
        TEST(test_push_knows_its_own_state_only),
        TEST(test_an_error_of_another_state_arrives_as_error_object),
        TEST(test_resume_captures_the_dead_coroutine),
        TEST(test_an_equal_value_in_another_coroutine_is_another_error),
        TEST(test_resume_of_what_cannot_be_resumed_leaves_it_alone),
        TEST(test_resume_of_the_main_thread),
        TEST(test_pcallk_with_and_without_a_yield),
        TEST(test_everything_outlives_lua_close),
        TEST(test_release_on_another_thread_frees_the_value_at_the_next_entry),
        TEST(test_releases_race_with_the_state),
        TEST(test_the_slot_may_keep_an_error_after_its_state),
        TEST(test_a_child_of_fork_goes_on),
        TEST(test_no_function_throws_when_lua_has_no_memory),
        TEST(test_everything_works_once_there_is_memory_again),
        TEST(test_raise_without_memory_raises_something),
        TEST(test_out_of_memory_has_its_hresult),
        TEST(test_error_in_error_handling_has_its_hresult),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
