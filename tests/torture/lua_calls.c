/* Calls of Lua functions of every kind, in two states of each thread. */
#include "torture.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stacksplice/lua.h>
#include <string.h>

/*
 * The lines of the frames below are counted here.  In Lua 5.4.4 a concatenation whose method moved
 * the stack leaves its top in the freed one, where the collector must not find it: it stands still
 * until the next call has set the top right.
 */
static const char script[] =
    "local object = setmetatable({}, {\n"
    "__index = function() return (down()) end,\n"
    "__add = function() return (down()) end,\n"
    "__concat = function() down() collectgarbage('stop') end,\n"
    "__call = function() return (down()) end,\n"
    "})\n"
    "function plain() return (down()) end\n"
    "function index() return (object.x) end\n"
    "function add() return (object + 1) end\n"
    "function concat() local x = object .. '' collectgarbage('restart') end\n"
    "function call() return (object()) end\n"
    "local function inner() return (down()) end\n"
    "function protected() return (pcall(inner)) end\n"
    "function handled() return (xpcall(inner, print)) end\n"
    "function wrapped() return (coroutine.wrap(inner)()) end\n"
    "function resumed() return (coroutine.resume(coroutine.create(inner))) end\n"
    "function sorted() return (table.sort({2, 1}, function(a, b) down() return a < b end)) end\n"
    "function replaced() return (string.gsub('x', 'x', inner)) end\n"
    "function tail() return inner() end\n"
    "function nested() return (coroutine.wrap(function() return (wrapped()) end)()) end\n"
    "function overflow() return (overflow()) end\n"
    "function too_deep() return (string.gsub('x', 'x', too_deep)) end\n";

/* In place of a line: Lua keeps nothing of the call there but that it was a tail call. */
#define TAIL_CALL UINT32_MAX

/* Outermost first. */
static const struct {
    const char *name;
    uint32_t lines[4];
} functions[] = {
    {"plain", {7}},
    {"index", {8, 2}},
    {"add", {9, 3}},
    {"concat", {10, 4}},
    {"call", {11, 5}},
    {"protected", {13, 12}},
    {"handled", {14, 12}},
    {"wrapped", {15, 12}},
    {"resumed", {16, 12}},
    {"sorted", {17, 17}},
    {"replaced", {18, 12}},
    {"tail", {TAIL_CALL, 12}},
    {"nested", {20, 20, 15, 12}},
};
enum { OVERFLOW_LINE = 21, TOO_DEEP_LINE = 22 };

static unsigned state_index(const worker *w, lua_State *L)
{
    const lua_State *main_thread;

    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    main_thread = lua_tothread(L, -1);
    lua_pop(L, 1);
    return main_thread == w->own[1];
}

static NODE int down(lua_State *L)
{
    worker *w = self;
    unsigned which = state_index(w, L);
    lua_State *before = w->active[which];

    journal_c(w, (uintptr_t)down, __builtin_frame_address(0));
    w->active[which] = L;
    path_step(w);
    AFTER();
    w->active[which] = before;
    w->depth--;
    return 0;
}

static lua_State *new_state(void)
{
    lua_State *L = luaL_newstate();

    if (!L)
        stop("no Lua state");
    luaL_openlibs(L);
    lua_register(L, "down", down);
    if (luaL_loadbufferx(L, script, sizeof script - 1, "=torture", "t") != LUA_OK ||
        lua_pcall(L, 0, 0, 0) != LUA_OK)
        stop("%s", lua_tostring(L, -1));
    return L;
}

void lua_begin(worker *w)
{
    for (int i = 0; i < 2; i++)
        w->own[i] = w->active[i] = new_state();
}

void lua_end(worker *w)
{
    lua_close(w->own[0]);
    lua_close(w->own[1]);
}

static NODE void call_lua(worker *w, lua_State *L, unsigned function, unsigned way)
{
    unsigned depth = w->depth;

    journal_c(w, (uintptr_t)call_lua, __builtin_frame_address(0));
    for (int i = 0; i < 4 && functions[function].lines[i]; i++)
        if (functions[function].lines[i] == TAIL_CALL)
            journal_tail_call(w);
        else
            journal_script(w, "lua", functions[function].lines[i]);
    lua_getglobal(L, functions[function].name);
    if (way == 0)
        lua_call(L, 0, 0);
    else if (way == 1 ? lua_pcall(L, 0, 0, 0) != LUA_OK : stacksplice_lua_pcall(L, 0, 0) < 0)
        stop("Lua's %s failed: %s", functions[function].name, lua_tostring(L, -1));
    AFTER();
    w->depth = depth;
}

void lua_step(worker *w)
{
    lua_State *L = w->active[draw(w, 2)];

    if (!lua_checkstack(L, 2 * LUA_MINSTACK))
        stop("no room on Lua's stack");
    call_lua(w, L, draw(w, sizeof functions / sizeof *functions), draw(w, 3));
    AFTER();
}

void lua_overflow(worker *w)
{
    lua_State *L = w->own[0];
    bool c_stack = draw(w, 2);

    w->depth = w->base = 0;
    lua_getglobal(L, c_stack ? "too_deep" : "overflow");
    if (stacksplice_lua_pcall(L, 0, 0) >= 0)
        stop("Lua's stack did not overflow");
    journal_check_error(w, "lua", c_stack ? TOO_DEEP_LINE : OVERFLOW_LINE, true);
}
