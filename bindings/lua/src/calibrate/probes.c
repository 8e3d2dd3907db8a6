/* Runs the snippets in a private state.  Its C functions examine their callers when Lua calls
   them. */
#include "calibrate/sample.h"

#include <string.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

/* One thread learns at a time, so one pointer is enough for the functions Lua calls. */
static ss_lua_sample *sample;

/* Prevents a tail call, which would remove the caller's frame. */
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

/* What the functions of entry.c call, those that Lua called with L. */
#define CALLED __attribute__((used, visibility("hidden")))
CALLED int ss_lua_probe_called(lua_State *L, const ss_lua_entry *entry);
CALLED int ss_lua_probe_true_called(lua_State *L, const ss_lua_entry *entry);
CALLED int ss_lua_probe_continuation_called(lua_State *L, const ss_lua_entry *entry);
CALLED void ss_lua_probe_hook_called(lua_State *L, const ss_lua_entry *entry);

int ss_lua_probe_called(lua_State *L, const ss_lua_entry *entry)
{
    ss_lua_sample_visit(sample, L, entry, false);
    return 0;
}

/* For metamethods that must return a number, a string or a boolean. */
int ss_lua_probe_true_called(lua_State *L, const ss_lua_entry *entry)
{
    ss_lua_sample_visit(sample, L, entry, false);
    lua_pushinteger(L, 1);
    return 1;
}

int ss_lua_probe_continuation_called(lua_State *L, const ss_lua_entry *entry)
{
    ss_lua_sample_visit(sample, L, entry, false);
    return 0;
}

void ss_lua_probe_hook_called(lua_State *L, const ss_lua_entry *entry)
{
    ss_lua_sample_hooks(sample, L, false);
    ss_lua_sample_visit(sample, L, entry, true);
}

static int probe_call_info(lua_State *L)
{
    ss_lua_sample_call_info(sample, L);
    return 0;
}

static int probe_pc(lua_State *L)
{
    ss_lua_sample_pc(sample, L, (int)luaL_checkinteger(L, 1));
    return 0;
}

static int probe_handler(lua_State *L)
{
    ss_lua_sample_handler(sample, L, (int)lua_tointeger(L, 1));
    return 0;
}

/* The handler stands above the arguments. */
static int call_handled(lua_State *L)
{
    int handler = lua_gettop(L) + 1;

    lua_pushcfunction(L, probe_handler);
    lua_pushcfunction(L, probe_handler);
    lua_pushinteger(L, handler);
    (void)lua_pcall(L, 1, 0, handler);
    lua_pushcfunction(L, probe_handler);
    (void)lua_pcall(L, 0, 0, 0);
    return 0;
}

static int probe_hooks(lua_State *L)
{
    ss_lua_sample_hooks(sample, L, true);
    return 0;
}

/* ---- Calls into Lua --------------------------------------------------------------------------*/

/*
 * ss_lua_with_filler calls each of these.  Each passes its arguments, already on Lua's stack, to
 * one API function, so that only Lua puts L in a register that outlives a call.  Those with a
 * continuation may yield; the continuation examines its caller too.
 */
#define BODIES(X)                                              \
    X(call, lua_call(L, 0, 0))                                 \
    X(callk, lua_callk(L, 0, 0, 0, ss_lua_probe_continuation)) \
    X(pcall_c, (void)lua_pcall(L, 0, 0, 0))                    \
    X(fail, lua_error(L))                                      \
    X(get, lua_gettable(L, 1))                                 \
    X(set, lua_settable(L, 1))                                 \
    X(add, lua_arith(L, LUA_OPADD))                            \
    X(compare, (void)lua_compare(L, 1, 2, LUA_OPLT))           \
    X(concat, lua_concat(L, 2))                                \
    X(collect, lua_gc(L, LUA_GCCOLLECT, 0))                    \
    X(yieldk, lua_yieldk(L, 0, 0, ss_lua_probe_continuation))

#define BODY(name, call)                 \
    static int body_##name(lua_State *L) \
    {                                    \
        call;                            \
        KEEP_FRAME();                    \
        return 0;                        \
    }
BODIES(BODY)

static int pcall_yieldable(lua_State *L)
{
    int status = lua_pcallk(L, 0, 0, 0, 0, ss_lua_probe_continuation);

    KEEP_FRAME();
    return status == LUA_OK ? 0 : lua_error(L);
}

static int resume_plainly(lua_State *thread)
{
    int results = 0;

    (void)lua_resume(thread, NULL, 0, &results);
    KEEP_FRAME();
    return 0;
}

/* Overwrite what earlier calls left on the stack: it is no value of Lua's. */
__attribute__((noinline)) static void scribble(void)
{
    uintptr_t below[512];

    memset(below, 0x53, sizeof below);
    __asm__ volatile("" : : "r"(below) : "memory");
}

static int run_with_filler(lua_CFunction body, lua_State *L)
{
    int results;

    scribble();
    results = ss_lua_with_filler(body, L);
    KEEP_FRAME();
    return results;
}

/* What the scripts call: the body is the upvalue. */
static int run_body(lua_State *L)
{
    const lua_CFunction *body = (const lua_CFunction *)lua_touserdata(L, lua_upvalueindex(1));

    return run_with_filler(*body, L);
}

static int resume_new_thread(lua_State *L)
{
    lua_State *thread = lua_newthread(L);

    lua_pushvalue(L, 1);
    lua_xmove(L, thread, 1);
    return run_with_filler(resume_plainly, thread);
}

static int set_hook(lua_State *L)
{
    int count = (int)luaL_checkinteger(L, 1);

    lua_sethook(L, ss_lua_probe_hook, LUA_MASKCOUNT | LUA_MASKLINE | LUA_MASKCALL | LUA_MASKRET,
                count);
    return 0;
}

static int clear_hook(lua_State *L)
{
    lua_sethook(L, NULL, 0, 0);
    return 0;
}

static const luaL_Reg probes[] = {
    {"C", ss_lua_probe}, {"T", ss_lua_probe_true},  {"resume", resume_new_thread},
    {"hook", set_hook},  {"unhook", clear_hook},    {"info", probe_call_info},
    {"pc", probe_pc},    {"handled", call_handled}, {"open", probe_hooks},
    {NULL, NULL},
};

#define ROW(name, call) {#name, body_##name},
static const luaL_Reg bodies[] = {BODIES(ROW){"pcallk", pcall_yieldable}, {NULL, NULL}};

static void open_libraries(lua_State *L)
{
    /* Not static: the addresses may be found at run time. */
    const luaL_Reg libraries[] = {
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

/* The probes are light functions, or closures, which some builds call from other instructions. */
static int open_state(lua_State *L)
{
    int upvalues = lua_toboolean(L, 1);

    open_libraries(L);
    open_bodies(L);
    lua_pushglobaltable(L);
    if (upvalues)
        lua_pushboolean(L, 1);
    luaL_setfuncs(L, probes, upvalues);
    return 0;
}

/* Run the function at INDEX, the top. */
static void run_snippet(lua_State *L, int index)
{
    lua_pushvalue(L, index);
    (void)lua_pcall(L, 0, 0, 0);
    lua_settop(L, index);
    KEEP_FRAME();
}

static bool load_text(lua_State *L, const char *text)
{
    return luaL_loadbufferx(L, text, strlen(text), "=calibration", "t") == LUA_OK;
}

/* Argument: the text of a snippet.  Result: its code, which loads faster. */
static int run_text(lua_State *L)
{
    if (!load_text(L, (const char *)lua_touserdata(L, 1)))
        return 0;
    run_snippet(L, 2);
    (void)lua_getglobal(L, LUA_STRLIBNAME);
    (void)lua_getfield(L, -1, "dump");
    lua_pushvalue(L, 2);
    lua_call(L, 1, 1);
    return 1;
}

/* Arguments: the text of a snippet; the state in which run_text was called, if it has a result. */
static int run_code(lua_State *L)
{
    const char *text = (const char *)lua_touserdata(L, 1), *code;
    lua_State *from = (lua_State *)lua_touserdata(L, 2);
    size_t length = 0;

    code = from ? lua_tolstring(from, -1, &length) : NULL;
    lua_settop(L, 0);
    if (code ? luaL_loadbufferx(L, code, length, "=calibration", "b") == LUA_OK
             : load_text(L, text))
        run_snippet(L, 1);
    return 0;
}

static void run_snippets(lua_State *closures, lua_State *light)
{
    for (const char *const *each = ss_lua_snippets; *each; each++) {
        bool has_code;

        sample->state_bit = 1;
        lua_pushcfunction(closures, run_text);
        lua_pushlightuserdata(closures, (void *)(uintptr_t)*each);
        has_code = lua_pcall(closures, 1, 1, 0) == LUA_OK && lua_isstring(closures, -1);
        sample->state_bit = 2;
        lua_pushcfunction(light, run_code);
        lua_pushlightuserdata(light, (void *)(uintptr_t)*each);
        lua_pushlightuserdata(light, has_code ? closures : NULL);
        (void)lua_pcall(light, 2, 0, 0);
        lua_settop(closures, 0);
        lua_settop(light, 0);
    }
}

/* NULL when memory ran out. */
static lua_State *new_state(ss_lua_sample *now, bool upvalues)
{
#if LUA_VERSION_NUM >= 505
    lua_State *L = lua_newstate(ss_lua_sample_allocate, now, 1);
#else
    lua_State *L = lua_newstate(ss_lua_sample_allocate, now);
#endif

    if (!L)
        return NULL;
    lua_pushcfunction(L, open_state);
    lua_pushboolean(L, upvalues);
    (void)lua_pcall(L, 1, 0, 0);
    lua_settop(L, 0);
    return L;
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
    own[n++] = (uintptr_t)ss_lua_probe_continuation;
    own[n++] = (uintptr_t)ss_lua_probe_hook;
    own[n++] = (uintptr_t)run_snippet;
    own[n++] = (uintptr_t)run_text;
    own[n++] = (uintptr_t)run_code;
    own[n++] = (uintptr_t)ss_lua_sample_run;
    *count = n;
    return own;
}

bool ss_lua_sample_run(ss_lua_sample *now)
{
    lua_State *closures = new_state(now, true), *light = NULL;

    sample = now;
    now->process = getpid();
    now->stack_end = (uintptr_t)__builtin_frame_address(0);
    now->own = own_functions(&now->own_count);
    if (closures)
        light = new_state(now, false);
    if (light) {
        run_snippets(closures, light);
        lua_close(light);
    }
    if (closures)
        lua_close(closures);
    sample = NULL;
    return light && !now->starved;
}
