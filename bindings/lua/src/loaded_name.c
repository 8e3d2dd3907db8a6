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

/* The table at the top has VALUE under FIELD; the table goes. [-1, +0, m] */
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

/* ---- Many at once ----------------------------------------------------------------------------*/

/* The functions that still lack a name; MASK has a bit for each address, so that others are told
   apart at a glance. */
typedef struct wanted {
    const void *const *functions;
    uint32_t count, missing;
    uint64_t mask;
} wanted;

static uint64_t bit_of(const void *value)
{
    return UINT64_C(1) << ((uintptr_t)value >> 4) % 64;
}

/* The value at the top is MODULE.FIELD, or FIELD without a module; NAMES is the index of the table
   that takes the names. [-0, +0, m] */
static void offer_value(lua_State *L, wanted *w, int names, const char *module, const char *field)
{
    const void *value = lua_topointer(L, -1);

    if (!value || !(w->mask & bit_of(value)))
        return;
    for (uint32_t i = 0; i < w->count; i++) {
        if (w->functions[i] != value)
            continue;
        if (lua_rawgeti(L, names, (lua_Integer)i + 1) == LUA_TNIL) {
            if (module && strcmp(module, LUA_GNAME) != 0)
                lua_pushfstring(L, "%s.%s", module, field);
            else
                lua_pushstring(L, field);
            lua_rawseti(L, names, (lua_Integer)i + 1);
            w->missing--;
        }
        lua_pop(L, 1);
    }
}

/* The table of a module is at the top. [-0, +0, m] */
static void offer_module(lua_State *L, wanted *w, int names, const char *module)
{
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        if (lua_type(L, -2) == LUA_TSTRING)
            offer_value(L, w, names, module, lua_tostring(L, -2));
        lua_pop(L, 1);
        if (w->missing == 0) {
            lua_pop(L, 1);
            return;
        }
    }
}

void ss_lua_push_loaded_names(lua_State *L, const void *const *functions, uint32_t count)
{
    wanted w = {.functions = functions, .count = count, .missing = count};
    int names;

    for (uint32_t i = 0; i < count; i++)
        w.mask |= bit_of(functions[i]);
    lua_createtable(L, (int)count, 0);
    names = lua_gettop(L);
    if (lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE) == LUA_TTABLE) {
        lua_pushnil(L);
        while (lua_next(L, -2)) {
            if (lua_type(L, -2) == LUA_TSTRING && w.missing > 0) {
                offer_value(L, &w, names, NULL, lua_tostring(L, -2));
                if (lua_istable(L, -1))
                    offer_module(L, &w, names, lua_tostring(L, -2));
            }
            lua_pop(L, 1);
        }
    }
    lua_pop(L, 1);
}
