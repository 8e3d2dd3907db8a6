/* The name of a function by the tables of package.loaded: raw access, no allocation, no raise. */
#include "binding.h"

#include <stdio.h>
#include <string.h>

enum { NAME_LIMIT = 20000 /* entries that a search looks at */ };

/* Better: found first, or before the other in the alphabet, so that every run gives one name. */
static void offer_name(char *name, size_t capacity, const char *module, const char *field,
                       bool *found)
{
    char offered[128];

    if (module && strcmp(module, LUA_GNAME) != 0)
        (void)snprintf(offered, sizeof offered, "%s.%s", module, field);
    else
        (void)snprintf(offered, sizeof offered, "%s", field);
    if (!*found || strcmp(offered, name) < 0)
        (void)snprintf(name, capacity, "%s", offered);
    *found = true;
}

/* A loaded module's table is at the top, its name below.  [-0, +0, -] */
static void search_module(lua_State *L, const void *value, char *name, size_t capacity, bool *found,
                          int *budget)
{
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        bool match = lua_type(L, -2) == LUA_TSTRING && lua_topointer(L, -1) == value;

        if (match)
            offer_name(name, capacity, lua_tostring(L, -4), lua_tostring(L, -2), found);
        lua_pop(L, 1);
        if (--*budget <= 0) {
            lua_pop(L, 1);
            return;
        }
    }
}

bool ss_lua_global_name(lua_State *L, const void *value, char *name, size_t capacity)
{
    bool found = false;
    int budget = NAME_LIMIT;

    ss_lua_push_loaded(L);
    if (!lua_istable(L, -1)) {
        lua_pop(L, 1);
        return false;
    }
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        if (lua_type(L, -2) == LUA_TSTRING) {
            if (lua_topointer(L, -1) == value)
                offer_name(name, capacity, NULL, lua_tostring(L, -2), &found);
            else if (lua_istable(L, -1))
                search_module(L, value, name, capacity, &found, &budget);
        }
        lua_pop(L, 1);
        if (--budget <= 0) {
            lua_pop(L, 1);
            break;
        }
    }
    lua_pop(L, 1);
    return found;
}
