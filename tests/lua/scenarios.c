/*
 * Every way in which C code can run inside Lua, against an oracle: the activations that Lua itself
 * reports (lua_getstack, lua_getinfo, luaL_traceback) at the same moment, coroutine by coroutine.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include <stacksplice/lua.h>

enum { MAX_FRAMES = 512, MAX_CHAIN = 16 };

/* The running coroutines, outermost first, as the scripts' resume keeps them. */
static lua_State *chain[MAX_CHAIN];
static int chain_length;
static int probes; /* how often an oracle ran */
static int failures;
static const char *scenario;

typedef struct seen_frame {
    stacksplice_frame_kind kind;
    bool lua;
    char function[128], file[512], interpreter[32], reason[64];
    uint32_t line;
} seen_frame;

static void copy(char *to, size_t size, const char *from)
{
    (void)snprintf(to, size, "%s", from ? from : "");
}

static int read_frame(const stacksplice_frame *frame, void *data)
{
    seen_frame *out = data;

    out->kind = frame->kind;
    out->lua = strcmp(frame->language, "lua") == 0;
    out->line = frame->line;
    copy(out->function, sizeof out->function, frame->function);
    copy(out->file, sizeof out->file, frame->file);
    copy(out->interpreter, sizeof out->interpreter, frame->interpreter);
    copy(out->reason, sizeof out->reason, frame->reason);
    return 1;
}

static void complain(const char *what, const char *want, const char *got)
{
    failures++;
    print_error("%s: %s: expected \"%s\", got \"%s\"\n", scenario, what, want, got);
}

/* The function's name as the standard traceback has it where lua_getinfo has none. */
static void name_by_traceback(lua_State *L, lua_State *of, int level, char *name, size_t size)
{
    const char *text, *in, *end;

    luaL_traceback(L, of, NULL, level);
    text = lua_tostring(L, -1);
    in = strstr(text, ": in ");
    copy(name, size, in ? in + 5 : "?");
    end = strchr(name, '\n');
    if (end)
        name[end - name] = '\0';
    if (strncmp(name, "function '", 10) == 0) {
        memmove(name, name + 10, strlen(name + 10) + 1);
        name[strcspn(name, "'")] = '\0';
    }
    lua_pop(L, 1);
}

/* Position in the captured stack while the oracle is compared with it. */
typedef struct reader {
    const uintptr_t *frames;
    uint32_t count, at;
    const char *interpreter; /* only frames of this state */
    uint32_t native_frames;  /* since the last Lua frame */
    uint32_t c_activations;  /* likewise */
    seen_frame now;
} reader;

/* The next Lua frame of the state; native frames and those of others are passed. */
static bool next_lua(reader *r)
{
    for (; r->at < r->count; r->at++) {
        memset(&r->now, 0, sizeof r->now);
        (void)stacksplice_resolve(r->frames[r->at], read_frame, &r->now);
        if (r->now.kind == STACKSPLICE_FRAME_GAP)
            complain("gap", "none", r->now.reason);
        if (r->now.kind == STACKSPLICE_FRAME_SCRIPT && r->now.lua &&
            strcmp(r->now.interpreter, r->interpreter) == 0)
            return true;
        r->native_frames++;
    }
    return false;
}

static void compare_activation(lua_State *L, reader *r, lua_State *of, int level, lua_Debug *ar)
{
    char name[128], want[700], got[700];

    if (*ar->namewhat && ar->name)
        copy(name, sizeof name, ar->name);
    else
        name_by_traceback(L, of, level, name, sizeof name);
    (void)snprintf(want, sizeof want, "%s:%d %s",
                   *ar->source == '@' ? ar->source + 1 : ar->short_src, ar->currentline, name);
    (void)snprintf(got, sizeof got, "%s:%u %s", r->now.file, r->now.line, r->now.function);
    if (strcmp(want, got) != 0)
        complain("frame", want, got);
    r->at++;
    r->native_frames = r->c_activations = 0;
}

/* The activations of one coroutine from LEVEL outward. */
static void compare_chain(lua_State *L, reader *r, lua_State *of, int level)
{
    lua_Debug ar;

    for (; lua_getstack(of, level, &ar); level++) {
        bool more;

        lua_getinfo(of, "Sln", &ar);
        more = next_lua(r);
        if (*ar.what == 'C') {
            if (more && strcmp(r->now.file, "[C]") == 0)
                r->at++;
            else if (++r->c_activations > r->native_frames)
                complain("C activation", "a native frame or a label", "neither");
            continue;
        }
        if (!more) {
            complain("frame", ar.short_src, "end of the stack");
            return;
        }
        compare_activation(L, r, of, level, &ar);
    }
}

static void compare(lua_State *L, int level, const char *interpreter)
{
    uintptr_t frames[MAX_FRAMES];
    reader r = {.frames = frames, .interpreter = interpreter};
    int at = chain_length;

    probes++;
    if (FAILED(stacksplice_capture(0, MAX_FRAMES, frames, &r.count, NULL))) {
        complain("capture", "success", "failure");
        return;
    }
    luaL_checkstack(L, 10, "oracle");
    compare_chain(L, &r, L, level);
    while (at > 0 && chain[at - 1] != L)
        at--;
    for (at--; at > 0; at--)
        compare_chain(L, &r, chain[at - 1], 0);
    if (next_lua(&r))
        complain("frame", "end of the stack", r.now.function);
}

/* ---- What the scripts call -------------------------------------------------------------------*/

#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

static int probe(lua_State *L)
{
    compare(L, 1, "");
    KEEP_FRAME();
    return 0;
}

static int probe_true(lua_State *L)
{
    compare(L, 1, "");
    lua_pushboolean(L, 1);
    KEEP_FRAME();
    return 1;
}

static int probe_sibling(lua_State *L)
{
    return probe(L);
}

static void probe_hook(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    compare(L, 0, "");
    KEEP_FRAME();
}

/* A hook whose last act is a call: its own frame is gone when the function runs. */
static void calling_hook(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    lua_sethook(L, NULL, 0, 0);
    lua_getglobal(L, "hooked");
    lua_call(L, 0, 0);
}

static int set_hook(lua_State *L)
{
    lua_sethook(L, lua_toboolean(L, 1) ? calling_hook : probe_hook, LUA_MASKCOUNT, 1);
    return 0;
}

static int clear_hook(lua_State *L)
{
    lua_sethook(L, NULL, 0, 0);
    return 0;
}

static int call(lua_State *L)
{
    lua_call(L, lua_gettop(L) - 1, 0);
    KEEP_FRAME();
    return 0;
}

static int after(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    compare(L, 1, "");
    KEEP_FRAME();
    return 0;
}

static int callk(lua_State *L)
{
    lua_callk(L, 0, 0, 0, after);
    return after(L, LUA_OK, 0);
}

static int pcallk(lua_State *L)
{
    int status = lua_pcallk(L, 0, 0, 0, 0, after);

    return status == LUA_OK ? after(L, LUA_OK, 0) : lua_error(L);
}

static int throw_error(lua_State *L)
{
    return luaL_error(L, "by luaL_error");
}

/* resume(co, ...): coroutine.resume that keeps the chain. */
static int resume(lua_State *L)
{
    lua_State *co = lua_tothread(L, 1);
    int results, status;

    chain[chain_length++] = co;
    lua_xmove(L, co, lua_gettop(L) - 1);
    status = lua_resume(co, L, lua_gettop(co) - (lua_status(co) == LUA_OK ? 1 : 0), &results);
    chain_length--;
    if (status != LUA_OK && status != LUA_YIELD) {
        lua_xmove(co, L, 1);
        return lua_error(L);
    }
    lua_pop(co, results);
    return 0;
}

static const luaL_Reg helpers[] = {
    {"probe", probe},
    {"probe_true", probe_true},
    {"probe_sibling", probe_sibling},
    {"hook", set_hook},
    {"unhook", clear_hook},
    {"call", call},
    {"callk", callk},
    {"pcallk", pcallk},
    {"throw", throw_error},
    {"resume", resume},
    {NULL, NULL},
};

/* ---- Scenarios -------------------------------------------------------------------------------*/

static const struct {
    const char *name;
    int probes; /* how often the oracle must have run, at least */
    const char *script;
} scenarios[] = {
    {"plain", 1,
     "local function f() probe() return 1 end\nlocal function g() f() return 1 end\ng()"},
    {"nested C calls", 1, "call(function() call(function() call(probe) end) end)"},
    {"C function by sibling call", 2, "probe_sibling() local function f() probe_sibling() end f()"},
    {"Lua tail calls", 2,
     "local function f() return probe() end\nlocal function g() return f() end\nlocal x = g()\n"
     "local function h() probe() return 1 end local function i() return h() end i()"},
    {"__index as Lua function", 1,
     "local t = setmetatable({}, {__index = function(t, k) probe() return 1 end})\nlocal x = t.a"},
    {"__index as C function", 2,
     "local t = setmetatable({}, {__index = probe, __newindex = probe})\nlocal x = t.a\nt.b = 1"},
    {"__add as Lua function", 1,
     "local t = setmetatable({}, {__add = function() probe() return 1 end})\nlocal x = t + 1"},
    {"__add as C function", 3,
     "local t = setmetatable({}, {__add = probe, __concat = probe, __lt = probe})\n"
     "local x = t + 1\nx = t .. 'a'\nx = t < t"},
    {"__close", 2,
     "do local a <close> = setmetatable({}, {__close = probe}) end\n"
     "pcall(function() local a <close> = setmetatable({}, {__close = function() probe() end})\n"
     "error(1) end)"},
    {"pcall and xpcall", 3,
     "pcall(probe)\nxpcall(function() probe() end, print)\n"
     "pcall(function() xpcall(function() probe() end, print) end)"},
    {"handler at error", 2,
     "local function f() error('x') end\nxpcall(f, probe)\nxpcall(f, function() probe() end)"},
    {"handler at a runtime error", 4,
     "xpcall(function() local q\nlocal z = q.x end, probe)\nxpcall(function() return 1 + nil end, "
     "probe)\n"
     "xpcall(function() return {} < {} end, function() probe() end)\n"
     "xpcall(function() local u\nu() end, probe)"},
    {"handler at luaL_error", 2,
     "xpcall(function() throw() end, probe)\nxpcall(throw, function() probe() end)"},
    {"__gc", 2,
     "setmetatable({}, {__gc = function() probe() end})\ncollectgarbage()\n"
     "setmetatable({}, {__gc = probe})\ncollectgarbage()"},
    {"__gc while Lua allocates", 1,
     "local n = 0 local t = {__gc = function() if n < 5 then n = n + 1 probe() end end}\n"
     "for i = 1, 50 do setmetatable({}, t) end\nfor i = 1, 20000 do local x = {} end"},
    {"table.sort", 2, "table.sort({3, 1, 2}, function(a, b) probe() return a < b end)"},
    {"coroutine", 1, "local co = coroutine.create(function() probe() end)\nresume(co)"},
    {"coroutine resumed from elsewhere", 2,
     "local co = coroutine.create(function() probe() coroutine.yield() probe() end)\n"
     "local function first() resume(co) return 1 end\nfirst()\n"
     "local function second() local function deeper() resume(co) return 1 end deeper() return 1 "
     "end\n"
     "second()"},
    {"nested coroutines", 2,
     "local function inner() probe() coroutine.yield() probe() end\n"
     "local co2 = coroutine.create(inner)\n"
     "local co = coroutine.create(function() resume(co2) resume(co2) end)\nresume(co)"},
    {"continuation after a yield", 2,
     "local co = coroutine.create(function() callk(function() coroutine.yield() end) return 1 "
     "end)\n"
     "resume(co) resume(co)\n"
     "co = coroutine.create(function() pcallk(function() coroutine.yield() end) return 1 end)\n"
     "resume(co) resume(co)"},
    {"activations that survive a yield", 4,
     "local function f() coroutine.yield() probe() probe() return 1 end\n"
     "local co = coroutine.create(function() callk(function() pcall(f) return 1 end) return 1 "
     "end)\n"
     "resume(co) resume(co)\n"
     "co = coroutine.create(function() pcallk(function() callk(f) return 1 end) return 1 end)\n"
     "resume(co) resume(co)"},
    {"hook", 2, "hook()\nlocal x = 1\nx = x + 1\nunhook()"},
    {"hook that ends in a call", 1,
     "function hooked() probe() return 1 end\nlocal function f() hook(true)\nlocal x = 1\nend f()"},
    {"hook in a coroutine", 1,
     "resume(coroutine.create(function() hook()\nlocal x = 1\nunhook() end))"},
    {"load reader", 1,
     "local n\nload(function() probe() if n then return nil end n = 1 return 'return 1' end)"},
    {"gsub callback", 2,
     "string.gsub('a', 'a', function() probe() end)\nstring.gsub('a', 'a', probe)"},
    {"iterator", 2, "for _ in function() probe() end do end\nfor _ in probe do end"},
    {"global function called from C", 1,
     "function global_one() probe() return 1 end\npcall(global_one)"},
    {"function of a loaded module", 1,
     "package.loaded.shop = {price = function() probe() return 1 "
     "end}\npcall(package.loaded.shop.price)"},
    {"chunk with a name", 2,
     "local chunk = load('probe() return 1', '=chunk') chunk() pcall(chunk)"},
    {"tostring", 1, "tostring(setmetatable({}, {__tostring = function() probe() return 'x' end}))"},
    {"require", 1, "package.preload.thing = function() probe() return 1 end\nrequire 'thing'"},
    {"two hundred levels", 1,
     "local function deep(n) if n == 0 then probe() else deep(n - 1) end return 1 end\ndeep(200)"},
    {"thirty levels through C", 1,
     "local function deep(n) if n == 0 then probe() else call(deep, n - 1) end return 1 "
     "end\ndeep(30)"},
};

/* The helpers are light functions, or closures with UPVALUES: Lua calls the two differently. */
static lua_State *new_state_with(int upvalues)
{
    lua_State *L = luaL_newstate();

    assert_non_null(L);
    luaL_openlibs(L);
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 0);
    lua_pushglobaltable(L);
    if (upvalues)
        lua_pushboolean(L, 1);
    luaL_setfuncs(L, helpers, upvalues);
    lua_settop(L, 0);
    return L;
}

static lua_State *new_state(void)
{
    return new_state_with(0);
}

static void run_script(lua_State *L, const char *script)
{
    chain[0] = L;
    chain_length = 1;
    if (luaL_loadbufferx(L, script, strlen(script), "@scenario.lua", "t") != LUA_OK ||
        lua_pcall(L, 0, 0, 0) != LUA_OK) {
        complain("script", "success", lua_tostring(L, -1));
        lua_pop(L, 1);
    }
}

static void test_scenarios_equal_what_lua_reports(void **state)
{
    (void)state;
    failures = 0;
    for (size_t i = 0; i < 2 * (sizeof scenarios / sizeof *scenarios); i++) {
        lua_State *L = new_state_with(i % 2);

        scenario = scenarios[i / 2].name;
        probes = 0;
        run_script(L, scenarios[i / 2].script);
        if (probes < scenarios[i / 2].probes)
            complain("oracle", "more runs", "fewer");
        lua_close(L);
    }
    assert_int_equal(failures, 0);
}

/* ---- Two states ------------------------------------------------------------------------------*/

static lua_State *other; /* the second state */

/* In state A: run a script in state B; in B: go back into A. */
static int into_other(lua_State *L)
{
    lua_State *to = (lua_State *)lua_touserdata(L, lua_upvalueindex(1));

    lua_getglobal(to, "entered");
    if (lua_pcall(to, 0, 0, 0) != LUA_OK) {
        complain("other state", "success", lua_tostring(to, -1));
        lua_pop(to, 1);
    }
    KEEP_FRAME();
    return 0;
}

/* The chain of each state by its own name, whatever lies between. */
static int probe_both(lua_State *L)
{
    lua_State *home = chain[0];
    bool at_home =
        L == home || lua_topointer(L, LUA_REGISTRYINDEX) == lua_topointer(home, LUA_REGISTRYINDEX);

    chain_length = 0;
    compare(home, at_home ? 1 : 0, "");
    compare(other, at_home ? 0 : 1, "state 2");
    chain_length = 1;
    KEEP_FRAME();
    return 0;
}

static void add_function(lua_State *L, const char *name, lua_CFunction function, lua_State *to)
{
    lua_pushlightuserdata(L, to);
    lua_pushcclosure(L, function, 1);
    lua_setglobal(L, name);
}

static void test_states_interleave(void **state)
{
    lua_State *L = new_state();

    (void)state;
    scenario = "two states, A to B to A";
    failures = probes = 0;
    other = new_state();
    add_function(L, "into_other", into_other, other);
    add_function(other, "into_other", into_other, L);
    lua_register(L, "probe_both", probe_both);
    lua_register(other, "probe_both", probe_both);
    assert_int_equal(
        luaL_dostring(other, "function entered() probe_both() into_other() return 1 end"), LUA_OK);
    run_script(L, "function entered() probe_both() return 1 end\n"
                  "local function f() into_other() return 1 end\nf()");
    assert_int_equal(probes, 4);
    assert_int_equal(failures, 0);
    lua_close(other);
    lua_close(L);
}

/* ---- Bounds ----------------------------------------------------------------------------------*/

static uint32_t gaps, lua_frames;

static int count_frame(const stacksplice_frame *frame, void *data)
{
    (void)data;
    if (strcmp(frame->language, "lua") == 0)
        *(frame->kind == STACKSPLICE_FRAME_GAP ? &gaps : &lua_frames) += 1;
    if (frame->kind == STACKSPLICE_FRAME_GAP && strcmp(frame->language, "lua") == 0)
        assert_string_equal(frame->reason, "99778 Lua levels left out");
    return 0;
}

static int count_deep(lua_State *L)
{
    uintptr_t frames[MAX_FRAMES];
    uint32_t count = 0;

    (void)L;
    assert_int_equal(stacksplice_capture(0, MAX_FRAMES, frames, &count, NULL), S_OK);
    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], count_frame, NULL);
    return 0;
}

static void test_a_deep_stack_is_cut_in_the_middle_with_the_count(void **state)
{
    lua_State *L = new_state();

    (void)state;
    gaps = lua_frames = 0;
    lua_register(L, "count", count_deep);
    assert_int_equal(luaL_dostring(L, "local function deep(n) if n == 0 then count() else\n"
                                      "deep(n - 1) end return 1 end deep(100000)"),
                     LUA_OK);
    assert_int_equal(gaps, 1);
    assert_int_equal(lua_frames, 160 + 64);
    lua_close(L);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scenarios_equal_what_lua_reports),
        cmocka_unit_test(test_states_interleave),
        cmocka_unit_test(test_a_deep_stack_is_cut_in_the_middle_with_the_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
