/*
 * The scripts that make Lua call C functions in every way it can, and the C functions that look.
 * Each snippet runs protected and on its own, so that one which a version does not know costs
 * nothing but itself.
 */
#include "calibrate/sample.h"

#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

/* One thread learns at a time, so one pointer is enough for the functions Lua calls. */
static ss_lua_lesson *lesson;

/* Keeps a call from becoming the last act of a function, which would remove its frame. */
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

static int probe(lua_State *L)
{
    ss_lua_lesson_visit(lesson, L, (uintptr_t)probe, false);
    KEEP_FRAME();
    return 0;
}

/* As a metamethod that must give a number, a string or a truth value. */
static int probe_true(lua_State *L)
{
    ss_lua_lesson_visit(lesson, L, (uintptr_t)probe_true, false);
    lua_pushinteger(L, 1);
    KEEP_FRAME();
    return 1;
}

static int probe_continuation(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    ss_lua_lesson_visit(lesson, L, (uintptr_t)probe_continuation, false);
    KEEP_FRAME();
    return 0;
}

static void probe_hook(lua_State *L, lua_Debug *activation)
{
    (void)activation;
    ss_lua_lesson_visit(lesson, L, (uintptr_t)probe_hook, true);
    KEEP_FRAME();
}

static int probe_call_info(lua_State *L)
{
    ss_lua_lesson_call_info(lesson, L, lua_gettop(L));
    KEEP_FRAME();
    return 0;
}

static int probe_closure(lua_State *L)
{
    ss_lua_lesson_closure(lesson, L, probe_closure);
    KEEP_FRAME();
    return 0;
}

static int probe_saved_pc(lua_State *L)
{
    ss_lua_lesson_saved_pc(lesson, L, (int)luaL_checkinteger(L, 1));
    return 0;
}

static int probe_status(lua_State *L)
{
    ss_lua_lesson_status(lesson, L);
    return 0;
}

static int probe_proto(lua_State *L)
{
    ss_lua_lesson_proto(lesson, L);
    return 0;
}

/* ---- Calls into Lua --------------------------------------------------------------------------*/

/*
 * Each is called by ss_lua_with_junk and hands its arguments, which are on Lua's stack already, to
 * one API function: so that L is in no register that outlives a call unless Lua put it there.
 */
static int call_plainly(lua_State *L)
{
    lua_call(L, 0, 0);
    KEEP_FRAME();
    return 0;
}

/* Calls its argument so that it may yield; afterwards the continuation looks. */
static int call_yieldable(lua_State *L)
{
    lua_callk(L, 0, 0, 0, probe_continuation);
    KEEP_FRAME();
    return 0;
}

static int pcall_yieldable(lua_State *L)
{
    int status = lua_pcallk(L, 0, 0, 0, 0, probe_continuation);

    KEEP_FRAME();
    return status == LUA_OK ? 0 : lua_error(L);
}

static int pcall_plainly(lua_State *L)
{
    (void)lua_pcall(L, 0, 0, 0);
    KEEP_FRAME();
    return 0;
}

static int fail_with_value(lua_State *L)
{
    lua_error(L);
    KEEP_FRAME();
    return 0;
}

static int get_plainly(lua_State *L)
{
    lua_gettable(L, 1);
    KEEP_FRAME();
    return 0;
}

static int set_plainly(lua_State *L)
{
    lua_settable(L, 1);
    KEEP_FRAME();
    return 0;
}

static int add_plainly(lua_State *L)
{
    lua_arith(L, LUA_OPADD);
    KEEP_FRAME();
    return 0;
}

static int compare_plainly(lua_State *L)
{
    (void)lua_compare(L, 1, 2, LUA_OPLT);
    KEEP_FRAME();
    return 0;
}

static int concat_plainly(lua_State *L)
{
    lua_concat(L, 2);
    KEEP_FRAME();
    return 0;
}

static int collect_plainly(lua_State *L)
{
    lua_gc(L, LUA_GCCOLLECT, 0);
    KEEP_FRAME();
    return 0;
}

static int resume_plainly(lua_State *thread)
{
    int results = 0;

    (void)lua_resume(thread, NULL, 0, &results);
    KEEP_FRAME();
    return 0;
}

static int yield_with_continuation(lua_State *L)
{
    lua_yieldk(L, 0, 0, probe_continuation);
    KEEP_FRAME();
    return 0;
}

/* What was left on the stack by calls before is no value of Lua's. */
__attribute__((noinline)) static void scribble(void)
{
    volatile uintptr_t below[512];

    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        below[i] = 0x5353;
}

static int run_with_junk(lua_CFunction body, lua_State *L)
{
    int results;

    scribble();
    results = ss_lua_with_junk(body, L);
    KEEP_FRAME();
    return results;
}

/* What the scripts call: the body is the upvalue. */
static int run_body(lua_State *L)
{
    const lua_CFunction *body = (const lua_CFunction *)lua_touserdata(L, lua_upvalueindex(1));

    return run_with_junk(*body, L);
}

static int resume_new_thread(lua_State *L)
{
    lua_State *thread = lua_newthread(L);

    lua_pushvalue(L, 1);
    lua_xmove(L, thread, 1);
    return run_with_junk(resume_plainly, thread);
}

static int set_hook(lua_State *L)
{
    int count = (int)luaL_checkinteger(L, 1);

    lua_sethook(L, probe_hook, LUA_MASKCOUNT | LUA_MASKLINE | LUA_MASKCALL | LUA_MASKRET, count);
    return 0;
}

static int clear_hook(lua_State *L)
{
    lua_sethook(L, NULL, 0, 0);
    return 0;
}

static const luaL_Reg probes[] = {
    {"C", probe},           {"T", probe_true},        {"resume", resume_new_thread},
    {"hook", set_hook},     {"unhook", clear_hook},   {"info", probe_call_info},
    {"pc", probe_saved_pc}, {"status", probe_status}, {"proto", probe_proto},
    {NULL, NULL},
};

static const luaL_Reg bodies[] = {
    {"call", call_plainly},
    {"callk", call_yieldable},
    {"pcall_c", pcall_plainly},
    {"pcallk", pcall_yieldable},
    {"fail", fail_with_value},
    {"get", get_plainly},
    {"set", set_plainly},
    {"add", add_plainly},
    {"compare", compare_plainly},
    {"concat", concat_plainly},
    {"collect", collect_plainly},
    {"yieldk", yield_with_continuation},
    {NULL, NULL},
};

static const char *const snippets[] = {
    /* plain, tail and iterator calls; several, with values around them */
    "C() local a, b, c = C(), 1, C() C(a, b, c)",
    "local function f() return C() end f() f(1) local function g(...) return C(...) end g(1, 2)",
    "local n = 0 for _ in function() n = n + 1 C() if n < 3 then return n end end do end",
    "for _ in C do end for _ in C, 1, 2 do end",
    "local function deep(n) if n == 0 then return C() end deep(n - 1) C() end deep(9)",
    "local t = setmetatable({}, {__call = C}) t() t(1) return t()",
    "local t = setmetatable({}, {__call = function() C() end}) t() return t()",
    /* metamethods, as Lua functions */
    "local function f() C() return 1 end local function s() C() return 'x' end\n"
    "local function b() C() return true end\n"
    "local m = {__index = f, __newindex = f, __eq = b, __lt = b, __le = b, __concat = s,\n"
    "  __add = f, __sub = f, __mul = f, __div = f, __mod = f, __pow = f, __idiv = f, __band = f,\n"
    "  __bor = f, __bxor = f, __shl = f, __shr = f, __unm = f, __bnot = f, __len = f,\n"
    "  __tostring = s, __close = f}\n"
    "local t, u = setmetatable({}, m), setmetatable({}, m) local x\n"
    "x = t.a t.b = 1 x = t[1] t[2] = 1 x = t[x] x = t == u x = t ~= u x = t < u x = t <= u\n"
    "x = t > 1 x = t < 1 x = t <= 1 x = t >= 2.5 x = t .. 'a' x = 'a' .. t x = t .. 'a' .. 'b'\n"
    "x = t + 1 x = 1 + t x = t - u x = t * 2 x = t / 2 x = t % 2 x = t ^ 2 x = t // 2 x = t & 1\n"
    "x = t | 1 x = t ~ 1 x = t << 1 x = t >> 1 x = 1 << t x = -t x = ~t x = #t x = tostring(t)\n"
    "x = t:method() do local c <close> = t end",
    /* the same as C functions */
    "local m = {__index = T, __newindex = T, __eq = T, __lt = T, __le = T, __concat = T,\n"
    "  __add = T, __sub = T, __mul = T, __div = T, __mod = T, __pow = T, __idiv = T, __band = T,\n"
    "  __bor = T, __bxor = T, __shl = T, __shr = T, __unm = T, __bnot = T, __len = T,\n"
    "  __close = T}\n"
    "local t, u = setmetatable({}, m), setmetatable({}, m) local x\n"
    "x = t.a t.b = 1 x = t[1] t[2] = 1 x = t[x] x = t == u x = t ~= u x = t < u x = t <= u\n"
    "x = t > 1 x = t < 1 x = t <= 1 x = t >= 2.5 x = t .. 'a' x = 'a' .. t x = t .. 'a' .. 'b'\n"
    "x = t + 1 x = 1 + t x = t - u x = t * 2 x = t / 2 x = t % 2 x = t ^ 2 x = t // 2 x = t & 1\n"
    "x = t | 1 x = t ~ 1 x = t << 1 x = t >> 1 x = 1 << t x = -t x = ~t x = #t\n"
    "do local c <close> = t end",
    "local t = setmetatable({}, {__close = C}) pcall(function() local c <close> = t error(1) end)",
    "local t = setmetatable({}, {__close = function() C() end})\n"
    "pcall(function() local c <close> = t error(1) end)\n"
    "local co = coroutine.create(function() local c <close> = t coroutine.yield() end)\n"
    "coroutine.resume(co) coroutine.close(co)",
    /* protected calls and message handlers */
    "pcall(C) pcall(function() C() end) xpcall(C, C) xpcall(function() C() end, C)",
    "local function h() C() end\n"
    "xpcall(error, C) xpcall(error, h) xpcall(fail, C, 1) xpcall(fail, h, 1)\n"
    "xpcall(function() local q = nil + 1 end, C) xpcall(function() local q = nil + 1 end, h)\n"
    "xpcall(function() local q; q = q.x end, C) xpcall(function() local q; q.x = 1 end, h)\n"
    "xpcall(function() local q; q() end, C) xpcall(function() local q; return q() end, h)\n"
    "xpcall(function() return {} .. '' end, C) xpcall(function() return {} < 1 end, C)\n"
    "xpcall(function() return {} < {} end, C) xpcall(function() return #nil end, C)\n"
    "xpcall(function() return -{} end, C) xpcall(function() return 1 & 1.5 end, C)\n"
    "xpcall(function() return 1 // 0 end, C) xpcall(function() return 1 % 0 end, C)\n"
    "xpcall(function() for i = 'x', 2 do end end, C) xpcall(function() for i = 1, 2, 0 do end end, "
    "C)\n"
    "xpcall(function() for _ in 1 do end end, C) xpcall(function() string.rep() end, C)\n"
    "xpcall(function() local c <close> = 1 end, C) xpcall(function() local t = {} t[nil] = 1 end, "
    "C)\n"
    "xpcall(function() assert(false) end, C) xpcall(function() assert(nil, 'x') end, h)\n"
    "xpcall(function() setmetatable(1, 2) end, C) xpcall(function() return ('x'):nope() end, C)",
    /* coroutines */
    "local co = coroutine.wrap(function() C() coroutine.yield() C() end) co() co()",
    "local co = coroutine.create(C) coroutine.resume(co)",
    "local co = coroutine.create(function() C() coroutine.yield(1) return C() end)\n"
    "coroutine.resume(co) coroutine.resume(co)",
    "resume(C) resume(function() C() resume(C) C() end)",
    "local co = coroutine.wrap(function() callk(function() C() coroutine.yield() C() end) C() "
    "end)\n"
    "co() co()",
    "local co = coroutine.wrap(function() pcallk(function() C() coroutine.yield() C() end) C() "
    "end)\n"
    "co() co()",
    "local co = coroutine.wrap(function() pcallk(function() coroutine.yield() error(1) end) end)\n"
    "co() co()",
    "local co = coroutine.wrap(function() pcall(function() C() coroutine.yield() C() end) C() "
    "end)\n"
    "co() co()",
    "local co = coroutine.wrap(function() xpcall(function() coroutine.yield() error(1) end, C) "
    "end)\n"
    "co() co()",
    "local co = coroutine.wrap(function() yieldk() C() end) co() co()",
    "local co = coroutine.wrap(yieldk) co() co()",
    "local t = setmetatable({}, {__index = function() C() coroutine.yield() C() end})\n"
    "local co = coroutine.wrap(function() local x = t.x C() end) co() co()",
    /* each way into Lua from C */
    "for _, f in ipairs {C, function() C() return 1 end, function() return C() end} do\n"
    "  call(f) callk(f) pcall_c(f) pcallk(f) resume(f)\n"
    "  local m = {__index = f, __newindex = f, __add = f, __lt = f, __concat = f, __gc = f}\n"
    "  local t, u = setmetatable({}, m), setmetatable({}, m)\n"
    "  get(t, 1) set(t, 1, 2) pcall(add, t, u) compare(t, u) pcall(concat, t, u)\n"
    "  t, u = nil, nil collect() collect()\n"
    "  xpcall(fail, f, 'x') xpcall(function() fail('x') end, f)\n"
    "end",
    "for _, f in ipairs {callk, pcallk, pcall, function(g) g() C() end} do\n"
    "  local co = coroutine.create(function() f(function() C() coroutine.yield() C() end) C() "
    "end)\n"
    "  coroutine.resume(co) coroutine.resume(co)\n"
    "  resume(function() f(function() yieldk() end) C() end)\n"
    "end",
    /* collections */
    "for i = 1, 3 do setmetatable({}, {__gc = function() C() end}) end\n"
    "collectgarbage() collectgarbage() collectgarbage('step')",
    "for i = 1, 3 do setmetatable({}, {__gc = C}) end collectgarbage() collectgarbage()",
    "pcall(collectgarbage, 'setpause', 100) pcall(collectgarbage, 'param', 'pause', 100)\n"
    "local n = 0 local function f() n = n + 1 C() end\n"
    "collectgarbage() for i = 1, 6 do setmetatable({}, {__gc = f}) end\n"
    "for i = 1, 1500 do local x = {} if n == 6 then break end end\n"
    "n = 0 collectgarbage() for i = 1, 6 do setmetatable({}, {__gc = f}) end\n"
    "for i = 1, 300 do local x = ('x'):rep(i) .. i if n == 6 then break end end\n"
    "n = 0 collectgarbage() setmetatable({}, {__gc = f})\n"
    "for i = 1, 6 do setmetatable({}, {__gc = C}) end\n"
    "for i = 1, 1500 do local g = function() return i end if n == 1 then break end end\n"
    "pcall(collectgarbage, 'setpause', 200) pcall(collectgarbage, 'param', 'pause', 200)",
    /* libraries that call back */
    "table.sort({3, 1, 2}, function(a, b) C() return a < b end)",
    "string.gsub('abc', '.', function() C() end) string.gsub('abc', '.', C)",
    "local n load(function() C() if n then return nil end n = 1 return 'return 1' end)",
    "call(C) call(function() C() call(C) return C() end)",
    "load('C() return C()')() load('local function f() C() end f()')()",
    /* hooks: count, line, call and return events, in a coroutine too */
    "hook(1) for i = 1, 3 do local x = i end unhook()",
    "hook(3)\nlocal function f()\nreturn 1\nend\nf()\nf()\nlocal t = #'x'\nunhook()",
    "local co = coroutine.create(function() hook(1) local x = 1 x = x + 1 unhook() end)\n"
    "coroutine.resume(co)",
    "hook(1) string.rep('x', 2) local function f() return string.len('x') end f() unhook()",
    /* the CallInfo, below a few Lua and C activations */
    "local function f() info() C() end local function g() f() C() end pcall(g)",
    "local function f(...) info(1, ...) C() end local function g() f(1, 2) C() end pcall(g)",
    "local function f(...) local a, b = 1, 2 info(...) C(a, b) end\n"
    "local function g() pcall(f, 1, 2, 3) C() end call(g)",
    "local co = coroutine.wrap(function() local function f() info() C() end\n"
    "local function g() f() C() end pcall(g) C() end) co()",
    "closure() local x = closure(1, 2)",
    "pc(1) pc(2) pc(3) pc(4) pc(5) local function f() pc(1) pc(2) pc(3) pc(4) end f() call(f)",
    "local function f() status() return 1 end local function g() return f() end\n"
    "local function h() local x = g() return g() end f() g() h() call(f) call(g) call(h)\n"
    "local function v(...) local a, b = status(...) return f(...) end v() v(1, 2, 3)\n"
    "pcall(f) pcall(g) pcall(status) xpcall(error, function() return g() end)\n"
    "local t = setmetatable({}, {__index = g, __call = h}) local x = t.x t() return t()",
    "coroutine.wrap(function() status() coroutine.yield() return pcall(status) end)()",
    "local function one(i) return function() return i end end\n"
    "local function two(i) return function() return i + 1 end end\n"
    "proto(one(1), one(2), two(1), two(2)) proto(two(3), two(4), one(3), one(4))",
};

static void open_libraries(lua_State *L)
{
    static const luaL_Reg libraries[] = {
        {LUA_GNAME, luaopen_base},
        {LUA_COLIBNAME, luaopen_coroutine},
        {LUA_TABLIBNAME, luaopen_table},
        {LUA_STRLIBNAME, luaopen_string},
        {NULL, NULL},
    };

    for (const luaL_Reg *library = libraries; library->name; library++) {
        luaL_requiref(L, library->name, library->func, 1);
        lua_pop(L, 1);
    }
}

static void open_bodies(lua_State *L)
{
    for (const luaL_Reg *each = bodies; each->name; each++) {
        lua_pushlightuserdata(L, (void *)(uintptr_t)&each->func);
        lua_pushcclosure(L, run_body, 1);
        lua_setglobal(L, each->name);
    }
}

/* The function at 1, with the probes as light functions (UPVALUES 0) or as closures, which some
   builds call elsewhere. */
static void run_snippet(lua_State *L, int upvalues)
{
    lua_pushglobaltable(L);
    if (upvalues)
        lua_pushboolean(L, 1);
    luaL_setfuncs(L, probes, upvalues);
    lua_settop(L, 1);
    lua_pushvalue(L, 1);
    (void)lua_pcall(L, 0, 0, 0);
    lua_settop(L, 1);
    KEEP_FRAME();
}

/* As light functions last: the tag that is remembered is that of one. */
static void run_snippets(lua_State *L)
{
    for (size_t i = 0; i < sizeof snippets / sizeof *snippets; i++) {
        if (luaL_loadbufferx(L, snippets[i], strlen(snippets[i]), "=calibration", "t") == LUA_OK) {
            run_snippet(L, 1);
            run_snippet(L, 0);
        }
        lua_settop(L, 0);
    }
    KEEP_FRAME();
}

static int teach(lua_State *L)
{
    open_libraries(L);
    open_bodies(L);
    lua_pushinteger(L, 1);
    lua_pushcclosure(L, probe_closure, 1);
    lua_setglobal(L, "closure");
    run_snippets(L);
    KEEP_FRAME();
    return 0;
}

/*
 * In front of every block of the private state, so that it is known how much of an object can be
 * looked at.
 */
typedef struct block_head {
    size_t size;
    uintptr_t mark; /* tells a block from an address inside of one */
} block_head;

static uintptr_t mark_of(const block_head *head)
{
    return (uintptr_t)head ^ (uintptr_t)UINT64_C(0x5353b10c0b5e1ec7);
}

uint32_t ss_lua_lesson_object_words(uintptr_t object)
{
    const block_head *head = (const block_head *)object - 1;

    return head->mark == mark_of(head) ? (uint32_t)(head->size / sizeof(uintptr_t)) : 0;
}

/* Where the interpreter calls an allocator. */
static void learn_callback(ss_lua_layout *layout, uintptr_t ip)
{
    for (uint32_t i = 0; i < layout->callback_count; i++)
        if (layout->callbacks[i] == ip)
            return;
    if (layout->callback_count < SS_LUA_CALLBACKS)
        layout->callbacks[layout->callback_count++] = ip;
}

/* New memory is zeroed, so that a word which Lua never wrote is the same at every visit. */
static void *allocate(void *data, void *block, size_t old_size, size_t new_size)
{
    ss_lua_lesson *now = data;
    block_head *head = block ? (block_head *)block - 1 : NULL, *grown;

    learn_callback(now->layout, (uintptr_t)__builtin_return_address(0));
    if (new_size == 0) {
        free(head);
        return NULL;
    }
    old_size = head ? head->size : 0; /* without a block it is the kind of object that Lua wants */
    grown = realloc(head, sizeof *head + new_size);
    if (!grown) {
        /* Lua relies on it that a block can always be made smaller. */
        if (new_size <= old_size)
            return block;
        now->starved = true;
        return NULL;
    }
    grown->size = new_size;
    grown->mark = mark_of(grown);
    if (new_size > old_size)
        memset((char *)(grown + 1) + old_size, 0, new_size - old_size);
    return grown + 1;
}

static lua_State *new_state(ss_lua_lesson *now)
{
#if LUA_VERSION_NUM >= 505
    return lua_newstate(allocate, now, 1);
#else
    return lua_newstate(allocate, now);
#endif
}

/* Every function of ours that can be the first frame outside of an API function. */
static const uintptr_t *own_functions(uint32_t *count)
{
    static uintptr_t own[40];
    uint32_t n = 0;

    for (const luaL_Reg *each = probes; each->name; each++)
        own[n++] = (uintptr_t)each->func;
    for (const luaL_Reg *each = bodies; each->name; each++)
        own[n++] = (uintptr_t)each->func;
    own[n++] = (uintptr_t)resume_plainly;
    own[n++] = (uintptr_t)probe_continuation;
    own[n++] = (uintptr_t)probe_hook;
    own[n++] = (uintptr_t)probe_closure;
    own[n++] = (uintptr_t)run_snippet;
    own[n++] = (uintptr_t)run_snippets;
    own[n++] = (uintptr_t)teach;
    own[n++] = (uintptr_t)ss_lua_lesson_run;
    *count = n;
    return own;
}

bool ss_lua_lesson_run(ss_lua_lesson *now)
{
    lua_State *L = new_state(now);

    if (!L)
        return false;
    lesson = now;
    now->stack_end = (uintptr_t)__builtin_frame_address(0);
    now->own = own_functions(&now->own_count);
    lua_pushcfunction(L, teach);
    (void)lua_pcall(L, 0, 0, 0);
    lua_close(L);
    lesson = NULL;
    return !now->starved;
}
