/* The name of a function by the tables of package.loaded: raw access, no allocation, no raise. */
#include "frames/cache.h"

#include <stdio.h>
#include <string.h>

enum { NAME_LIMIT = 20000 /* entries that a search looks at */ };

/* Better: found first, or before the other in the alphabet, so that every run gives one name.  A
   name that is too long is none: what it would be cut to may be that of another function. */
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

/*
 * The functions that still lack a name; MASK has a bit for each address, so that others are told
 * apart at a glance.  NULL is none.  While tables are gone through nothing is allocated, for a
 * finalizer could change them: the keys found are kept, two for each function.
 */
typedef struct wanted {
    const void *const *functions;
    uint32_t count, missing;
    uint64_t mask;
    int keys; /* the index of the table of keys: the field's at 2 * i + 1, the module's behind it */
} wanted;

static uint64_t bit_of(const void *value)
{
    return UINT64_C(1) << ((uintptr_t)value >> 4) % 64;
}

/* A function is at the top, its key below; MODULE is the index of the module's, or 0.
   [-0, +0, -] */
static SS_LUA_NOINLINE void offer_function(lua_State *L, wanted *w, int module)
{
    const void *function = lua_topointer(L, -1);
    int key = lua_gettop(L) - 1;

    for (uint32_t i = 0; i < w->count; i++) {
        if (w->functions[i] != function)
            continue;
        if (lua_rawgeti(L, w->keys, (lua_Integer)i * 2 + 1) == LUA_TNIL) {
            lua_pushvalue(L, key);
            lua_rawseti(L, w->keys, (lua_Integer)i * 2 + 1);
            if (module) {
                lua_pushvalue(L, module);
                lua_rawseti(L, w->keys, (lua_Integer)i * 2 + 2);
            }
            w->missing--;
        }
        lua_pop(L, 1);
    }
}

/* The value at the top may be wanted. [-0, +0, -] */
static inline void offer_value(lua_State *L, wanted *w, int module)
{
    if ((w->mask & bit_of(lua_topointer(L, -1))) && lua_type(L, -1) == LUA_TFUNCTION &&
        lua_type(L, -2) == LUA_TSTRING)
        offer_function(L, w, module);
}

/* The table of a module is at the top, its key below. [-0, +0, -] */
static void search_loaded_module(lua_State *L, wanted *w)
{
    int module = lua_gettop(L) - 1;

    lua_pushnil(L);
    while (lua_next(L, -2)) {
        offer_value(L, w, module);
        lua_pop(L, 1);
        if (w->missing == 0) {
            lua_pop(L, 1);
            return;
        }
    }
}

static void search_loaded(lua_State *L, wanted *w)
{
    if (lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE) == LUA_TTABLE) {
        lua_pushnil(L);
        while (lua_next(L, -2)) {
            offer_value(L, w, 0);
            if (w->missing > 0 && lua_istable(L, -1) && lua_type(L, -2) == LUA_TSTRING)
                search_loaded_module(L, w);
            lua_pop(L, 1);
            if (w->missing == 0) {
                lua_pop(L, 1);
                break;
            }
        }
    }
    lua_pop(L, 1);
}

/* Push the name of function I as luaL_traceback makes it of the keys, or nil. [-0, +1, m] */
static void push_name(lua_State *L, int keys, lua_Integer i)
{
    static const char global[] = LUA_GNAME ".";
    const char *name;

    if (lua_rawgeti(L, keys, i * 2 + 2) != LUA_TNIL) {
        lua_pushliteral(L, ".");
        (void)lua_rawgeti(L, keys, i * 2 + 1);
        lua_concat(L, 3);
    } else {
        lua_pop(L, 1);
        if (lua_rawgeti(L, keys, i * 2 + 1) == LUA_TNIL)
            return;
    }
    name = lua_tostring(L, -1);
    if (strncmp(name, global, sizeof global - 1) == 0) {
        lua_pushstring(L, name + sizeof global - 1);
        lua_remove(L, -2);
    }
}

void ss_lua_push_loaded_names(lua_State *L, const void *const *functions, uint32_t count)
{
    wanted w = {.functions = functions, .count = count};

    for (uint32_t i = 0; i < count; i++)
        if (functions[i]) {
            w.mask |= bit_of(functions[i]);
            w.missing++;
        }
    lua_createtable(L, (int)count * 2, 0);
    w.keys = lua_gettop(L);
    if (w.missing == 0)
        return;
    search_loaded(L, &w);
    /* The name of one takes a place whose key has been read before. */
    for (uint32_t i = 0; i < count; i++) {
        push_name(L, w.keys, (lua_Integer)i);
        lua_rawseti(L, w.keys, (lua_Integer)i + 1);
    }
}
