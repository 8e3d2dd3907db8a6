/* Finds Lua's functions by name. */
#include "loadable.h"

#include <lua.h>

#include "version/facts.h"

#define DEFINE(result, name, parameters) result(*name) parameters;
SS_LUA_COMMON_FUNCTIONS(DEFINE)
SS_LUA_VERSION_FUNCTIONS(DEFINE)
SS_LUA_LATER_FUNCTIONS(DEFINE)

#define ROW(result, name, parameters) {#name, (void **)(void *)&name},
static const struct row {
    const char *name;
    void **function;
} required[] = {SS_LUA_COMMON_FUNCTIONS(ROW) SS_LUA_VERSION_FUNCTIONS(ROW)},
  later[] = {SS_LUA_LATER_FUNCTIONS(ROW){NULL, NULL}};

#if SS_LUA_HAS_RESETTHREAD
static int close_by_reset(lua_State *L, lua_State *from)
{
    (void)from;
    return lua_resetthread(L);
}
#endif

const char *ss_lua_bind(void *(*find)(void *data, const char *name), void *data)
{
    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        *required[i].function = find(data, required[i].name);
        if (!*required[i].function)
            return required[i].name;
    }
    for (const struct row *each = later; each->name; each++)
        *each->function = find(data, each->name);
#if SS_LUA_HAS_RESETTHREAD
    if (!lua_closethread)
        lua_closethread = close_by_reset;
#endif
    return NULL;
}
