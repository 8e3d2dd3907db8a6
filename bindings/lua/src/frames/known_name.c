/* Names of functions that package.loaded has, and those that C functions have. */
#include "frames/activation.h"
#include "frames/cache.h"
#include "frames/collection.h"

#include <stdio.h>
#include <string.h>

/* ---- Loaded name -----------------------------------------------------------------------------*/

/* Finds the name of a function in the tables of package.loaded: raw access, no allocation, no
   raise. */

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

/* ---- Known name ------------------------------------------------------------------------------*/

const char *ss_lua_loaded_name(ss_lua_interpreter *interpreter, const lua_Debug *activation)
{
    const void *function = (const void *)ss_lua_function_of((uintptr_t)activation->i_ci);
    ss_lua_cache *cache = interpreter->cache;
    ss_lua_known_name *known;

    if (!interpreter->record || !interpreter->rest)
        return NULL;
    known = &cache->names[((uintptr_t)function >> 4) % SS_LUA_KNOWN_NAMES];
    if (!interpreter->cached || known->function != function || known->epoch != cache->epoch ||
        !known->uses_left) {
        *known = (ss_lua_known_name){.function = function,
                                     .epoch = interpreter->cached ? cache->epoch : 0,
                                     .uses_left = SS_LUA_NAME_USES};
        (void)ss_lua_global_name(interpreter->rest, function, known->name);
    }
    known->uses_left--;
    return known->name[0] ? known->name : NULL;
}

/* The name of a local variable or an iterator says nothing about the function elsewhere. */
static bool is_lasting(const char *namewhat)
{
    return strcmp(namewhat, "global") == 0 || strcmp(namewhat, "method") == 0 ||
           strcmp(namewhat, "field") == 0;
}

const char *ss_lua_c_function_name(ss_lua_interpreter *interpreter, lua_State *L, uintptr_t ci)
{
    lua_Debug activation = {.i_ci = (struct CallInfo *)ci};
    const char *name;

    lua_getinfo(L, "Sn", &activation);
    name = ss_lua_loaded_name(interpreter, &activation);
    return name || !is_lasting(activation.namewhat) ? name : ss_lua_called_name(&activation);
}

/* ---- Marks -----------------------------------------------------------------------------------*/

/* The kinds of frames for the interpreter, as the core keeps them. */

/* The core was asked to classify again: captures that begin now find the marks of the layout. */
static atomic_bool reclassified;

uint8_t ss_lua_classify(uintptr_t ip, uintptr_t function, void *data)
{
    const ss_lua_layout *layout = ss_lua_layout_peek();
    const ss_lua_site *site;

    (void)data;
    if (!layout || layout->failure)
        return 0;
    site = ss_lua_site_find(layout, ip);
    if (site)
        return (uint8_t)(site - layout->sites + 1);
    if (ss_lua_is_api(layout, function))
        return SS_LUA_MARK_API;
    if (ss_lua_is_internal(layout, function))
        return SS_LUA_MARK_INTERNAL;
    return ss_lua_is_near(layout, function) ? SS_LUA_MARK_NEAR : 0;
}

/*
 * The frames of this walk are marked if it began after reclassification.  The first capture of a
 * thread that finds the flag set may have begun earlier; the next one did not.
 */
bool ss_lua_has_marks(void)
{
    static _Thread_local bool seen_before;
    bool before = seen_before;

    if (before)
        return true;
    if (!atomic_load(&reclassified)) {
        stacksplice_reclassify();
        atomic_store(&reclassified, true);
    }
    seen_before = true;
    return false;
}
