/*
 * One copy of Lua with the binding for it: part of the program, and of each plug-in.  ENTRY is the
 * name of its function, CHUNK that of its script.
 */

#include <lauxlib.h>
#include <lualib.h>

#include <stacksplice/lua.h>

#include "copies.h"
#include "frames.h"

__attribute__((visibility("default"))) void ENTRY(copies *all);

static int noted; /* the activations of this copy's state that are among the lines already */

static int depth_of(lua_State *L)
{
    lua_Debug activation;
    int depth = 0;

    while (lua_getstack(L, depth, &activation))
        depth++;
    return depth;
}

/* Write down what was called since this copy was last left, and go on to the next copy. */
static int hop(lua_State *L)
{
    copies *all = (copies *)lua_touserdata(L, lua_upvalueindex(1));
    int before = noted, lines = all->line_count, depth = depth_of(L);
    lua_Debug activation;

    for (int level = depth - before - 1; level >= 0 && lua_getstack(L, level, &activation);
         level--) {
        lua_getinfo(L, "Sln", &activation);
        if (*activation.what != 'C')
            (void)snprintf(all->lines[all->line_count++], sizeof *all->lines, "%s:%d",
                           activation.short_src, activation.currentline);
    }
    noted = depth;
    if (all->order[all->at])
        all->order[all->at++](all);
    else
        all->check(all);
    noted = before;
    all->line_count = lines;
    AFTER();
    return 0;
}

static const char script[] = "local function inner()\n"
                             "  hop()\n"
                             "  return 1\n"
                             "end\n"
                             "function enter()\n"
                             "  pcall(inner)\n"
                             "  local co = coroutine.wrap(function() return 1 end)\n"
                             "  co()\n"
                             "end\n";

void ENTRY(copies *all)
{
    static lua_State *L;

    if (!L) {
        L = luaL_newstate();
        luaL_openlibs(L);
        lua_pushlightuserdata(L, all);
        lua_pushcclosure(L, hop, 1);
        lua_setglobal(L, "hop");
        if (luaL_loadbuffer(L, script, sizeof script - 1, "@" CHUNK) != LUA_OK)
            return;
        lua_call(L, 0, 0);
    }
    lua_getglobal(L, "enter");
    if (lua_pcall(L, 0, 0, 0) != LUA_OK)
        (void)fprintf(stderr, CHUNK ": %s\n", lua_tostring(L, -1));
}
