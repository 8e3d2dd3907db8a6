/* The least that a module of Lua can be: what loading alone costs. */
#include <lua.h>

__attribute__((visibility("default"))) int luaopen_bench_empty(lua_State *L);

int luaopen_bench_empty(lua_State *L)
{
    lua_createtable(L, 0, 0);
    return 1;
}
