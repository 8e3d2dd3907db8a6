/* Finds the name of a function in the tables of package.loaded: raw access, no allocation, no
   raise. */
#include "frames/cache.h"

#include <stdio.h>
#include <string.h>

enum { NAME_LIMIT = 20000 /* entries that a search looks at */ };

/* Keep the better name: the one found first, or before the other in the alphabet, so that every run
   gives the same one.  A name that is too long is rejected: cut, it could be that of another
   function. */
static void offer_name(char name[SS_LUA_NAME_SIZE], const char *module, const char *field,
                       bool *found)
{
    bool dotted = module && strcmp(module, LUA_GNAME) != 0;
    char offered[SS_LUA_NAME_SIZE];
    int length =
        snprintf(offered, sizeof offered, "%s%s%s", dotted ? module : "", dotted ? "." : "", field);

    if (length < 0 || (size_t)length >= sizeof offered || (*found && strcmp(offered, name) >= 0))
        return;
    memcpy(name, offered, (size_t)length + 1);
    *found = true;
}

/* A loaded module's table is at the top, its name below.  [-0, +0, -] */
static void search_module(lua_State *L, const void *value, char *name, bool *found, int *budget)
{
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        bool match = lua_type(L, -2) == LUA_TSTRING && lua_topointer(L, -1) == value;

        if (match)
            offer_name(name, lua_tostring(L, -4), lua_tostring(L, -2), found);
        lua_pop(L, 1);
        if (--*budget <= 0) {
            lua_pop(L, 1);
            return;
        }
    }
}

bool ss_lua_global_name(lua_State *L, const void *value, char name[SS_LUA_NAME_SIZE])
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
                offer_name(name, NULL, lua_tostring(L, -2), &found);
            else if (lua_istable(L, -1))
                search_module(L, value, name, &found, &budget);
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

/* Whether the table at the top has VALUE under FIELD; pops the table. [-1, +0, m] */
static bool has_field(lua_State *L, const void *value, const char *field)
{
    bool has;

    lua_pushstring(L, field);
    lua_rawget(L, -2);
    has = lua_topointer(L, -1) == value;
    lua_pop(L, 2);
    return has;
}

bool ss_lua_has_global_name(lua_State *L, const void *value, const char *name)
{
    const char *dot = strrchr(name, '.');

    ss_lua_push_loaded(L);
    if (!lua_istable(L, -1)) {
        lua_pop(L, 1);
        return false;
    }
    if (dot)
        lua_pushlstring(L, name, (size_t)(dot - name));
    else
        lua_pushliteral(L, LUA_GNAME);
    lua_rawget(L, -2);
    lua_remove(L, -2);
    if (lua_istable(L, -1))
        return has_field(L, value, dot ? dot + 1 : name);
    lua_pop(L, 1);
    return false;
}
