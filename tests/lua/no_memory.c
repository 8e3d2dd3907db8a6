/*
 * Each function of the module and of lua.h, with memory that runs out at its first request, at its
 * second, and so on: once, or from there on.  Requests are those of Lua, of the core and of the
 * binding.  What comes out is right or says that there was no memory, and nothing is left behind.
 * Linked with --wrap for malloc and the like, which is how the binding gets what is its own.
 */
#include "host.h"

#include <stdlib.h>

/* ---- Memory ----------------------------------------------------------------------------------*/

static long left = -1; /* requests until one fails; negative: none does */
static bool for_good;  /* those that follow fail, too */
static bool failed;
static long live; /* blocks of the core and of the binding */

/* Visible: a linker that wraps believes that libraries refer to them, too. */
#define WRAPPER __attribute__((visibility("default")))
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);
WRAPPER void *__wrap_malloc(size_t size);
WRAPPER void *__wrap_calloc(size_t count, size_t size);
WRAPPER void *__wrap_realloc(void *block, size_t size);
WRAPPER char *__wrap_strdup(const char *string);
WRAPPER void __wrap_free(void *block);

/* Whether this request is one that fails. */
static bool fails(void)
{
    if (left < 0)
        return false;
    if (left > 0) {
        left--;
        return false;
    }
    failed = true;
    if (!for_good)
        left = -1;
    return true;
}

static void *count(void *block)
{
    live += block != NULL;
    return block;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : count(__real_malloc(size));
}

void *__wrap_calloc(size_t number, size_t size)
{
    return fails() ? NULL : count(__real_calloc(number, size));
}

void *__wrap_realloc(void *block, size_t size)
{
    if (fails())
        return NULL;
    return block ? __real_realloc(block, size) : count(__real_malloc(size));
}

char *__wrap_strdup(const char *string)
{
    char *copy = __wrap_malloc(strlen(string) + 1);

    return copy ? strcpy(copy, string) : NULL;
}

void __wrap_free(void *block)
{
    live -= block != NULL;
    __real_free(block);
}

static void *core_alloc(size_t size, void *data)
{
    return __wrap_malloc(size);
}

static void *core_realloc(void *block, size_t size, void *data)
{
    return __wrap_realloc(block, size);
}

static void core_free(void *block, void *data)
{
    __wrap_free(block);
}

static void *lua_allocate(void *data, void *block, size_t old_size, size_t new_size)
{
    if (new_size == 0) {
        __real_free(block);
        return NULL;
    }
    if ((!block || new_size > old_size) && fails())
        return NULL;
    return __real_realloc(block, new_size);
}

/* ---- The functions of lua.h ------------------------------------------------------------------*/

static const char *wrong; /* what a C function saw; it must not leave by itself */

static void expect_hresult(HRESULT hr, HRESULT right, const char *what)
{
    if (hr != right && hr != E_OUTOFMEMORY)
        wrong = what;
}

static int call_slot(lua_State *L)
{
    HRESULT hr;

    lua_pushcfunction(L, stacksplice_lua_handler);
    lua_insert(L, 1);
    hr = stacksplice_lua_xpcall(L, 0, 0, 1);
    expect_hresult(hr, E_FAIL, "xpcall");
    if (lua_gettop(L) != 1)
        wrong = "what xpcall leaves";
    RoClearError();
    return 0;
}

static int call_within(lua_State *L)
{
    HRESULT hr = stacksplice_lua_pcall_within(L, 0, 0, 3600 * 1000, 0, "work");

    expect_hresult(hr, E_FAIL, "pcall_within");
    if (lua_gettop(L) != 0)
        wrong = "what pcall_within leaves";
    RoClearError();
    return 0;
}

static int call_k(lua_State *L);

static int after_k(lua_State *L, int status, lua_KContext context)
{
    if (status != LUA_YIELD)
        expect_hresult((HRESULT)status, E_FAIL, "pcallk");
    return 0 * lua_gettop(L);
}

static int call_k(lua_State *L)
{
    HRESULT hr = stacksplice_lua_pcallk(L, 0, 0, 0, after_k);

    if (FAILED(hr))
        expect_hresult(hr, E_FAIL, "pcallk");
    RoClearError();
    return 0;
}

static int call_resume(lua_State *L)
{
    lua_State *co = lua_newthread(L);
    int results = 0;

    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    expect_hresult(stacksplice_lua_resume(co, L, 0, &results), E_FAIL, "resume");
    RoClearError();
    return 0;
}

static int call_originate(lua_State *L)
{
    expect_hresult(stacksplice_lua_originate(L, 1), E_FAIL, "originate");
    expect_hresult(stacksplice_lua_originate_status(L, 1, LUA_ERRRUN), E_FAIL, "originate_status");
    RoClearError();
    return 0;
}

static int call_exception(lua_State *L)
{
    IUnknown *exception = NULL;
    HRESULT hr = stacksplice_lua_exception(L, 1, &exception);

    expect_hresult(hr, S_OK, "exception");
    if (lua_gettop(L) != 1)
        wrong = "exception: the stack";
    if (hr == S_OK && (!stacksplice_lua_push(L, exception) || !lua_rawequal(L, 1, -1)))
        wrong = "push";
    if (exception)
        exception->lpVtbl->Release(exception);
    return 0;
}

static int call_raise(lua_State *L)
{
    RoOriginateErrorW(E_ACCESSDENIED, 0, (PCWSTR)u"no entry");
    return stacksplice_lua_raise(L, E_ACCESSDENIED);
}

static const luaL_Reg functions[] = {
    {"border", border},
    {"call_slot", call_slot},
    {"call_within", call_within},
    {"call_k", call_k},
    {"call_resume", call_resume},
    {"call_originate", call_originate},
    {"call_exception", call_exception},
    {"call_raise", call_raise},
    {"call_handler", stacksplice_lua_handler},
    {NULL, NULL},
};

/* ---- The scripts -----------------------------------------------------------------------------*/

/* Made with memory.  Every value is in ALIVE as long as somebody holds it. */
static const char prelude[] =
    "alive = setmetatable({}, {__mode = 'k'})\n"
    "values = {} for i = 1, 8 do values[i] = {} alive[values[i]] = true end\n"
    "function new() return table.remove(values) end\n"
    "function fail(v) local w = v error(w, 0) end\n"
    "function starved(v) if type(v) == 'userdata' then return v.hresult == 0x8007000E end\n"
    "  return type(v) == 'string' and (v:find('not enough memory', 1, true) or\n"
    "  v:find('error in error handling', 1, true)) end\n"
    "fields = {'cause', 'errno', 'errors', 'fingerprint', 'hresult', 'language', 'message',\n"
    "  'notes', 'propagation', 'relation', 'stack', 'thread_id', 'type_name', 'type_names',\n"
    "  'value'}\n"
    "function read(err, v)\n"
    "  if not err then return end\n"
    "  for i = 1, #fields do local _ = err[fields[i]] end\n"
    "  assert(#err.stack > 0, 'a stack without a word')\n"
    "  local frames = err.stack\n"
    "  for i = 1, #frames do local f = frames[i]\n"
    "    assert(f.kind ~= 'script' or f.name and f.source, 'a frame without its texts')\n"
    "    assert(f.kind ~= 'gap' or f.reason, 'a gap without its reason') end\n"
    "  if rawequal(err.value, v) and type(v) == 'table' then\n"
    "    local text = v.cause and '^{cause = .*}$' or '^%(error object is a table value%)$'\n"
    "    assert(err.message:find(text), 'another message')\n"
    "    assert(err.type_name == 'table' and err.type_names[1] == 'table', 'another type')\n"
    "  end\n"
    "end\n"
    "function check(v, got, err) assert(rawequal(v, got) or starved(got), got) read(err, v) end\n";

static const char *const scripts[] = {
    "local v = new() local ok, got, err = stacksplice.pcall(fail, v) check(v, got, err)",
    "local v = new() local ok, got, err = stacksplice.xpcall(fail, function(v) return v end, v)\n"
    "check(v, got, err)",
    "local v = new() local ok, got = xpcall(fail, stacksplice.handler, v)\n"
    "check(v, got, stacksplice.error_info(got))",
    "local v = new() local ok, text = xpcall(fail, stacksplice.report, v)\n"
    "assert(rawequal(v, text) or starved(text) or text:find('a table value', 1, true), text)",
    "local v = new() v.code = 'two' v.cause = new()\n"
    "local ok, text = xpcall(fail, stacksplice.report, v)\n"
    "assert(rawequal(v, text) or starved(text) or text:find('two', 1, true), text)",
    "local v = new() v.cause = new() v.cause.cause = 'why'\n"
    "local ok, got, err = stacksplice.pcall(fail, v) check(v, got, err)\n"
    "if err and err.cause and rawequal(v, got) then read(err.cause, v.cause) local why = "
    "err.cause.cause\n"
    "  assert(rawequal(err.cause.value, v.cause) and (not why or why.value == 'why'), 'another "
    "cause') end",
    "local v, w = new(), new() local ok, got = pcall(stacksplice.error, v, w)\n"
    "check(v, got, stacksplice.error_info(got))",
    "stacksplice.pcall(stacksplice.error, 'effect', new()) collectgarbage()\n"
    "local err = stacksplice.error_info('effect') if err then read(err) read(err.cause) end",
    "local err = select(3, stacksplice.pcall(fail, new()))\n"
    "if err then local _ = err:text() _ = err:text(true) _ = err:json() _ = tostring(err) .. err\n"
    "  assert(err == err and err:isinstance('table') and not err:isinstance('x')) end",
    "local err = select(3, stacksplice.pcall(fail, new()))\n"
    "if err then assert(#err:add_note('a note').notes == 1 and err.notes[1] == 'a note') end",
    "local text = ('x'):rep(1000) local _, got, err = stacksplice.pcall(error, text)\n"
    "assert(starved(got) or got == text and (not err or err.message == text))",
    "local frames = stacksplice.capture()\n"
    "local ok, text = pcall(function() return frames[1] end) assert(ok or starved(text), text)\n"
    "assert(#frames > 0 and rawlen(frames) == #frames and frames[#frames].kind)\n"
    "frames = stacksplice.capture(1, 3)",
    "local function deep(n) if n > 0 then return deep(n - 1) end return stacksplice.traceback('m') "
    "end\n"
    "assert(deep(30):find('stack traceback'))",
    "local v = new() local err = stacksplice.originate(v) read(err, v) stacksplice.take_error()",
    "stacksplice.originate(new()) local err = stacksplice.propagate() "
    "read(stacksplice.peek_error())\n"
    "stacksplice.take_error()",
    "local v = new() pcall(error, stacksplice.propagate(v)) read(stacksplice.error_info(v), v)",
    "local v = new() local co = coroutine.create(fail)\n"
    "local ok, got = stacksplice.resume(co, v) check(v, got, stacksplice.error_info(got))",
    "local v = new() local ok, got = pcall(stacksplice.wrap(fail), v)\n"
    "check(v, got, stacksplice.error_info(got))",
    "local v = new() local ok, got, err = stacksplice.pcall(stacksplice.deadline, 60, fail, v)\n"
    "check(v, got, err)",
    "local v = new() local ok, got = pcall(stacksplice.deadline, {seconds = 60}, fail, v) check(v, "
    "got)",
    "stacksplice.install()()",
    "local uninstall = stacksplice.install{pcall = true}\n"
    "local function again(text) local ok, e = pcall(fail, text) if not ok then error(e, 0) end "
    "end\n"
    "local ok, got, err = stacksplice.pcall(again, 'a text') uninstall()\n"
    "assert(got == 'a text' or starved(got), got) read(err)",
    "local uninstall = stacksplice.install{pcall = true}\n"
    "local function again(v) local ok, e = pcall(fail, v) if not ok then error(e, 0) end end\n"
    "local v = new() local ok, got, err = stacksplice.pcall(again, v) uninstall() check(v, got, "
    "err)",
    "local uninstall = stacksplice.install{pcall = true}\n"
    "local function again() local ok, e = xpcall(fail, debug.traceback, 'a text')\n"
    "  if not ok then error(e, 0) end end\n"
    "local ok, got, err = stacksplice.pcall(again) uninstall()\n"
    "assert(starved(got) or got:find('^a text'), got) read(err)",
    "local uninstall = stacksplice.install{pcall = true}\n"
    "local function inner() local _, e = coroutine.resume(coroutine.create(fail), 'a text')\n"
    "  error(e, 0) end\n"
    "local function again() local ok, e = pcall(inner) if not ok then error(e, 0) end end\n"
    "local ok, got, err = stacksplice.pcall(again) uninstall()\n"
    "assert(got == 'a text' or starved(got), got) read(err)",
    "local uninstall = stacksplice.install{pcall = true}\n"
    "local function new_one() local ok, e = pcall(fail, 'a text')\n"
    "  if not ok then error('new: ' .. tostring(e), 0) end end\n"
    "local ok, got, err = stacksplice.pcall(new_one) uninstall()\n"
    "assert(starved(got) or got:find('^new: '), got) read(err)\n"
    "if err and err.cause then read(err.cause)\n"
    "  assert(err.cause.message == 'a text' or starved(err.cause.message), err.cause.message) end",
    "assert(type(require('stacksplice.host').doctor()) == 'boolean')",
    "stacksplice.set_max_frames(stacksplice.set_max_frames(20))",
    "require('stacksplice.host').redaction {names = {'pin'}, emails = true}\n"
    "require('stacksplice.host').redaction {hook = function(text) return text .. '!' end}\n"
    "local text = stacksplice.traceback('password=x') assert(starved(text) or "
    "text:find('redacted'))\n"
    "text = stacksplice.redact('token=x') assert(starved(text) or text:find('redacted'))\n"
    "require('stacksplice.host').redaction {}",
    "local v = new() local ok, got = pcall(border, function() fail(v) end) check(v, got)",
    "local v = new() call_slot(function() fail(v) end)",
    "local v = new() call_within(function() fail(v) end)",
    "local v = new() call_k(function() fail(v) end)",
    "local v = new() coroutine.wrap(function() call_k(function() coroutine.yield() fail(v) end)\n"
    "end)()",
    "local v = new() call_resume(function() fail(v) end)",
    "call_originate(new())",
    "call_exception(new())",
    "local ok, got = pcall(call_raise)\n"
    "assert(starved(got) or got.hresult == 0x80070005 or got.hresult == 0x8007000E, got)\n"
    "if not starved(got) then read(got) end",
    "local v = new() local ok, got = xpcall(fail, call_handler, v) check(v, got)",
};

/* Every function of the module is in one of the scripts. */
STATE_TEST(test_no_function_is_forgotten)
{
    lua_State *L = *state;

    lua_getglobal(L, "stacksplice");
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        char call[64];
        bool found = !lua_isfunction(L, -1);

        (void)snprintf(call, sizeof call, "stacksplice.%s", lua_tostring(L, -2));
        for (size_t i = 0; !found && i < sizeof scripts / sizeof *scripts; i++)
            found = strstr(scripts[i], call) != NULL;
        if (!found)
            fail_msg("no script calls %s", call);
    }
}

/* ---- Running them ----------------------------------------------------------------------------*/

static void run_prelude(lua_State *L)
{
    load(L, prelude);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
}

static void open_starving(lua_State *L)
{
    fill_state(L);
    lua_pushglobaltable(L);
    luaL_setfuncs(L, functions, 0);
    lua_settop(L, 0);
    run_prelude(L);
}

/* Nobody holds an error value any more. */
static void expect_no_values(lua_State *L, size_t script, long n)
{
    RoClearError();
    load(L, "values = nil stacksplice.take_error() stacksplice.pcall(error, 'the last one')\n"
            "for i = 1, 6 do stacksplice.take_error() collectgarbage() end\n"
            "assert(next(alive) == nil, 'a value is held')");
    if (lua_pcall(L, 0, 0, 0) != LUA_OK)
        fail_msg("script %zu, request %ld: %s", script, n, lua_tostring(L, -1));
}

static void run_starving(size_t script, long n)
{
    lua_State *L = NEW_STATE(lua_allocate, NULL);
    const char *message;
    int status;

    open_starving(L);
    load(L, scripts[script]);
    wrong = NULL;
    failed = false;
    left = n;
    status = lua_pcall(L, 0, 0, 0);
    left = -1;
    message = status == LUA_OK ? "" : lua_tostring(L, -1);
    if (status != LUA_OK && (!failed || !message || !strstr(message, "not enough memory")))
        fail_msg("script %zu, request %ld: %s", script, n, message ? message : "no text");
    if (wrong)
        fail_msg("script %zu, request %ld: %s", script, n, wrong);
    lua_settop(L, 0);
    expect_no_values(L, script, n);
    lua_close(L);
    RoClearError();
}

/* With each request of a script failing; SETTLED: nothing more may be kept than before. */
static void run_script(size_t script, bool settled)
{
    failed = true;
    for (long n = 0; failed; n++) {
        long before = live;

        run_starving(script, n);
        if (settled && live != before)
            fail_msg("script %zu, request %ld: %ld blocks are left", script, n, live - before);
    }
}

/* The first time fills what is kept for the process; the second leaves nothing more. */
static void run_all(bool good)
{
    for_good = good;
    for (size_t script = 0; script < sizeof scripts / sizeof *scripts; script++)
        for (int time = 0; time < 2; time++)
            run_script(script, time > 0);
}

TEST(test_one_request_fails)
{
    run_all(false);
}

TEST(test_all_requests_fail_from_one_on)
{
    run_all(true);
}

/* ---- Captures --------------------------------------------------------------------------------*/

enum { DEPTH = 100, MOST = 2048 };

static int is_of_script(const stacksplice_frame *frame, void *data)
{
    unsigned *counts = data;

    counts[0] += frame->kind == STACKSPLICE_FRAME_SCRIPT && frame->line == 1;
    counts[1] += frame->kind == STACKSPLICE_FRAME_GAP;
    return 0;
}

/* Calls the function at index 2 with one less; at 0 captures as in a signal handler, where the
   allocator may have been interrupted. */
static int descend(lua_State *L)
{
    static uintptr_t frames[MOST];
    uint32_t count = 0;
    unsigned counts[2] = {0, 0};
    lua_Integer n = lua_tointeger(L, 1);
    HRESULT hr;

    if (n > 0) {
        lua_settop(L, 2);
        lua_pushvalue(L, 2);
        lua_pushinteger(L, n - 1);
        lua_call(L, 1, 1);
        return 1;
    }
    left = 0;
    for_good = true;
    hr = stacksplice_capture(0, MOST, frames, &count, NULL);
    left = -1;
    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], is_of_script, counts);
    assert_int_equal(hr, S_OK);
    assert_int_equal(counts[1], 0);
    lua_pushinteger(L, counts[0]);
    return 1;
}

STATE_TEST(test_a_capture_asks_no_allocator_at_any_depth)
{
    lua_State *L = *state;

    lua_register(L, "descend", descend);
    assert_int_equal(
        luaL_dostring(L, "local function f(n) return (descend(n, f)) end return f(0) and f(100)"),
        LUA_OK);
    assert_int_equal(lua_tointeger(L, -1), DEPTH + 2); /* and the chunk */
}

int main(void)
{
    static const stacksplice_allocator allocator = {sizeof allocator, core_alloc, core_realloc,
                                                    core_free, NULL};

    if (FAILED(stacksplice_set_allocator(&allocator)))
        return 1;
    return run_all_tests();
}
