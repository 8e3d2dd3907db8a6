/*
 * Learns the layout of LuaJIT.  All of its interpreter is one function, which keeps the lua_State at one
 * place of its frame; so one visit shows everything.  We compare what jit.h knows with what Lua says of
 * its activations before anything reads by it.
 */
#include "calibrate/calibrate.h"
#include "life/life.h"

#include <string.h>

#include <lualib.h>

bool ss_lua_narrow;

/* Where the interpreter's frame has the lua_State, above its sp. */
enum { WIDE_STATE = 16, NARROW_STATE = 24 };

/* What is being learnt; one thread does at a time. */
static struct {
    ss_lua_layout *layout;
    pthread_t thread;   /* that learns */
    lua_State *visited; /* NULL: none */
    bool compared, contradicted, starved;
} sample;

/* Whether the words of a lua_State are where they should be; the least that may be read of one are
   those of the narrow form. */
static bool has_words(lua_State *L)
{
    uintptr_t state = (uintptr_t)L, size = (uintptr_t)lua_gettop(L) * SS_LUA_SLOT_SIZE;
    uintptr_t base = ss_lua_base_of(state), top = ss_lua_top_of(state);
    uintptr_t stack = ss_lua_stack_of(state), end = ss_lua_stack_end_of(state);

    return top == base + size && stack < base && top < end && end - stack < (uintptr_t)1 << 20;
}

/* All visits agree on the place, or there is none.  No compiled code runs here. */
static void learn_current(uintptr_t L)
{
    enum { END = 1024 };
    uint32_t size = ss_lua_narrow ? 4 : 8,
             at = sample.layout->current ? sample.layout->current : size;

    while (at < END && (ss_lua_shared_of(L, at) != L || ss_lua_shared_of(L, at + size)))
        at += size;
    sample.layout->current = at;
    if (at == END)
        sample.layout->current = 0;
}

static void compare(lua_State *L)
{
    uintptr_t ci = ss_lua_innermost(L);
    lua_Debug at;

    for (int level = 0; lua_getstack(L, level, &at); level++, ci = ss_lua_outer(ci)) {
        if (!ci || ss_lua_ci_of(L, ci) != at.i_ci || ss_lua_ci_address(L, at.i_ci) != ci) {
            sample.contradicted = true;
            return;
        }
        lua_getinfo(L, "Sf", &at);
        sample.contradicted |= ss_lua_function_of(ci) != (uintptr_t)lua_topointer(L, -1) ||
                               ss_lua_is_in_lua(ci) != (*at.what != 'C');
        lua_pop(L, 1);
    }
    sample.contradicted |= ci != 0;
    learn_current((uintptr_t)L);
    sample.compared = true;
}

/* Learn from the frame that called the probe. */
static void learn_site(const stacksplice_native_frame *caller)
{
    uintptr_t state = (uintptr_t)sample.visited;
    ss_lua_site site = {.ip = caller->function, .state = {SS_LUA_SLOT, WIDE_STATE}};

    ss_lua_narrow = ss_lua_word(caller->sp + WIDE_STATE) != state;
    if (ss_lua_narrow)
        site.state = (ss_lua_place){SS_LUA_HALF, NARROW_STATE};
    sample.contradicted |=
        (ss_lua_narrow && ss_lua_half(caller->sp + NARROW_STATE) != state) ||
        (sample.layout->site_count && sample.layout->sites[0].ip != caller->function);
    sample.layout->sites[0] = site;
    sample.layout->site_count = 1;
}

static bool look(stacksplice_walk *walk)
{
    if (!sample.visited || !pthread_equal(sample.thread, pthread_self()))
        return false;
    stacksplice_walk_refuse(walk);
    (void)stacksplice_walk_splice(walk, 0, walk->frame_count);
    if (walk->frame_count)
        learn_site(&walk->frames[0]);
    else
        sample.contradicted = true;
    return true;
}

static __attribute__((noinline)) int visit(lua_State *L)
{
    uint32_t captured;

    sample.visited = L;
    if (FAILED(stacksplice_capture_above(SS_LUA_HERE(), 0, NULL, &captured, NULL)))
        sample.starved = true;
    sample.visited = NULL;
    if (!sample.contradicted && sample.layout->site_count && has_words(L))
        compare(L);
    else
        sample.contradicted = true;
    return 0;
}

static const char script[] =
    "local function deep(n, ...) if n == 0 then C(...) return 1 end local x = deep(n - 1, n, ...)\n"
    "return x end\n"
    "C() deep(3) pcall(deep, 2, 5) pcall(C) local t = setmetatable({}, {__index = function(_, k)\n"
    "C(k) return deep(1) end, __add = function(a, b) C(a, b) return 1 end}) local x = t.a + (t + "
    "1)\n"
    "table.sort({3, 1, 2}, function(a, b) deep(1, a, b) return a < b end)\n"
    "for k in function(_, k) C(k) if not k then return 1 end end do x = k end\n"
    "local co = coroutine.wrap(function(...) C(...) deep(2) coroutine.yield() pcall(deep, 1) C() "
    "end)\n"
    "co(1, 2) co() xpcall(function() error('x') end, function() C() deep(1) end)\n"
    "string.gsub('ab', '.', function(c) deep(1, c) end)\n";

static int run(lua_State *L)
{
    lua_pushcfunction(L, luaopen_base);
    lua_call(L, 0, 0);
    lua_pushcfunction(L, luaopen_table);
    lua_call(L, 0, 0);
    lua_pushcfunction(L, luaopen_string);
    lua_call(L, 0, 0);
    lua_pushcfunction(L, visit);
    lua_setglobal(L, "C");
    if (luaL_loadbufferx(L, script, sizeof script - 1, "=calibration", "t") != LUA_OK)
        return lua_error(L);
    lua_call(L, 0, 0);
    return 0;
}

/* The machine code of LuaJIT's interpreter is the first of its own, that of its libraries the last. */
static void note_range(ss_lua_layout *layout)
{
    uintptr_t last = (uintptr_t)luaopen_table, string = (uintptr_t)luaopen_string;

    layout->internals[0] = layout->sites[0].ip;
    layout->internals[1] = last > string ? last : string;
    layout->internal_count = 2;
}

bool ss_lua_sample(ss_lua_layout *layout)
{
    lua_State *L = luaL_newstate();
    bool ran;

    if (!L)
        return false;
    memset(&sample, 0, sizeof sample);
    sample.layout = layout;
    sample.thread = pthread_self();
    atomic_store(&ss_lua_the_shared->look, look);
    lua_pushcfunction(L, run);
    ran = lua_pcall(L, 0, 0, 0) == LUA_OK;
    lua_close(L);
    atomic_store(&ss_lua_the_shared->look, NULL);
    if (sample.starved || (!ran && !sample.contradicted))
        return false;
    if (sample.contradicted || !sample.compared)
        layout->failure = "this build of LuaJIT keeps its calls in another way than is known";
    note_range(layout);
    return true;
}
