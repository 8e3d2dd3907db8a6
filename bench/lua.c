/*
 * What an error and a stack cost in Lua, and what a border costs that no error crosses.
 *
 *   bench-lua SCRIPT [--quick] [--rows=TEXT]   the rows of the script and the borders
 *   bench-lua --require MODULE                 nanoseconds of require, in a new state
 *   bench-lua --first METHOD                   nanoseconds of the first capture with Lua on the
 *                                              stack; ours learns Lua's call sites
 *   bench-lua --first-error HANDLER            nanoseconds of the first error and its text
 */
#include "bench.h"
#include "peers.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stacksplice/lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(2);
}

/* ---- Methods written in Lua -------------------------------------------------------------------*/

typedef struct lua_method {
    lua_State *L;
    int function; /* reference in the registry */
} lua_method;

static void run_lua(void *data)
{
    const lua_method *m = data;

    lua_rawgeti(m->L, LUA_REGISTRYINDEX, m->function);
    if (lua_pcall(m->L, 0, 0, 0) != LUA_OK)
        give_up(lua_tostring(m->L, -1));
}

/* row(name, frames, {name, function, name, function, ...}) */
static int row(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    unsigned frames = (unsigned)luaL_checkinteger(L, 2);
    bench_method methods[16] = {{.name = NULL}};
    lua_method functions[16];
    size_t count = 0;

    for (; lua_rawgeti(L, 3, (lua_Integer)(2 * count + 1)) == LUA_TSTRING && count < 16; count++) {
        methods[count] =
            (bench_method){.name = lua_tostring(L, -1), .run = run_lua, .data = &functions[count]};
        lua_rawgeti(L, 3, (lua_Integer)(2 * count + 2));
        functions[count] = (lua_method){L, luaL_ref(L, LUA_REGISTRYINDEX)};
        lua_pop(L, 1);
    }
    bench_row(name, methods, count, frames);
    return 0;
}

/* ---- Borders ----------------------------------------------------------------------------------*/

typedef struct border {
    lua_State *L;
    int function, handler; /* stack indices; HANDLER is that of stacksplice */
} border;

static void call_bare(void *data)
{
    const border *b = data;

    lua_pushvalue(b->L, b->function);
    if (lua_pcall(b->L, 0, 0, 0) != LUA_OK)
        give_up("a bare call failed");
}

static int traceback(lua_State *L)
{
    luaL_traceback(L, L, lua_tostring(L, 1), 1);
    return 1;
}

/* As hosts do who want a traceback: the handler goes below the function. */
static void call_with_handler(void *data)
{
    const border *b = data;
    int base = lua_gettop(b->L) + 1;

    lua_pushcfunction(b->L, traceback);
    lua_pushvalue(b->L, b->function);
    if (lua_pcall(b->L, 0, 0, base) != LUA_OK)
        give_up("a call with a handler failed");
    lua_remove(b->L, base);
}

static void call_stacksplice(void *data)
{
    const border *b = data;

    lua_pushvalue(b->L, b->function);
    if (stacksplice_lua_pcall(b->L, 0, 0) < 0)
        give_up("a call with stacksplice failed");
}

static void call_with_slot(void *data)
{
    const border *b = data;

    lua_pushvalue(b->L, b->function);
    if (stacksplice_lua_xpcall(b->L, 0, 0, b->handler) < 0)
        give_up("a call with stacksplice's handler in a slot failed");
}

static void border_row(lua_State *L, const char *name, const char *chunk)
{
    border b = {.L = L};
    bench_method methods[] = {
        {.name = "bare", .run = call_bare, .data = &b},
        {.name = "a traceback handler", .run = call_with_handler, .data = &b},
        {.name = "stacksplice", .run = call_stacksplice, .data = &b},
        {.name = "stacksplice, handler in a slot", .run = call_with_slot, .data = &b}};

    lua_pushcfunction(L, stacksplice_lua_handler);
    b.handler = lua_gettop(L);
    if (luaL_loadstring(L, chunk) != LUA_OK)
        give_up(lua_tostring(L, -1));
    b.function = lua_gettop(L);
    bench_row(name, methods, sizeof methods / sizeof *methods, 0);
    lua_pop(L, 2);
}

/* ---- The first capture ------------------------------------------------------------------------*/

static int capture(lua_State *L)
{
    const bench_method *method = lua_touserdata(L, lua_upvalueindex(1));
    uint64_t begin = bench_now();

    method->run(method->data);
    lua_pushinteger(L, (lua_Integer)(bench_now() - begin));
    return 1;
}

static int first(lua_State *L, const char *name)
{
    static bench_method methods[16];
    bench_method *method = methods, *end = methods + peers_fill(methods);

    while (method < end && strcmp(method->name, name))
        method++;
    if (method == end || method->unavailable)
        give_up(method == end ? "no such method" : method->unavailable);
    lua_pushlightuserdata(L, method);
    lua_pushcclosure(L, capture, 1);
    lua_setglobal(L, "capture");
    if (luaL_dostring(L, "local ns = capture(); return ns"))
        give_up(lua_tostring(L, -1));
    printf("%lld\n", (long long)lua_tointeger(L, -1));
    return 0;
}

static const char first_error[] =
    "local function at_depth(n) if n > 1 then local r = at_depth(n - 1) return r end\n"
    "    error('no such order') end\n"
    "local library, name = (...):match('(%w+)%.(%w+)')\n"
    "local handler = require(library)[name]\n"
    "return function()\n"
    "    local _, err = xpcall(at_depth, handler, 5)\n"
    "    assert(tostring(err):find('at_depth', 1, true), err)\n"
    "end";

static int fail(lua_State *L, const char *handler)
{
    if (luaL_loadstring(L, first_error) != LUA_OK)
        give_up(lua_tostring(L, -1));
    lua_pushstring(L, handler);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK)
        give_up(lua_tostring(L, -1));
    bench_once_begin();
    if (lua_pcall(L, 0, 0, 0) != LUA_OK)
        give_up(lua_tostring(L, -1));
    bench_once_end();
    return 0;
}

/* The module as scripts load it: not the copy that is linked into this program. */
static int require(lua_State *L, const char *module)
{
    uint64_t begin = bench_now();

    lua_getglobal(L, "require");
    lua_pushstring(L, module);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK)
        give_up(lua_tostring(L, -1));
    printf("%llu\n", (unsigned long long)(bench_now() - begin));
    return 0;
}

int main(int argc, char **argv)
{
    lua_State *L = luaL_newstate();

    if (!L)
        return 2;
    bench_options(&argc, argv);
    luaL_openlibs(L);
    if (argc == 3 && !strcmp(argv[1], "--require"))
        return require(L, argv[2]);
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 1);
    lua_pop(L, 1);
    if (argc == 3 && !strcmp(argv[1], "--first"))
        return first(L, argv[2]);
    if (argc == 3 && !strcmp(argv[1], "--first-error"))
        return fail(L, argv[2]);
    if (argc != 2)
        return 2;
    lua_register(L, "row", row);
    if (luaL_dofile(L, argv[1]))
        give_up(lua_tostring(L, -1));
    border_row(L, "border, no error, lua_pcall of an empty function", "");
    border_row(L, "border, no error, lua_pcall of a small loop",
               "local sum = 0; for i = 1, 100 do sum = sum + i end; return sum");
    lua_close(L);
    return 0;
}
