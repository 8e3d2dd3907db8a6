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

/* ---- Known name ------------------------------------------------------------------------------*/

/* The pointer that lua_topointer gives for the function of an activation, or NULL. */
static const void *function_of(const ss_lua_layout *layout, uintptr_t ci)
{
    if (layout->function == SS_LUA_UNKNOWN)
        return NULL;
    return (const void *)ss_lua_word(ss_lua_word(ci + layout->function));
}

uintptr_t ss_lua_c_function_of(const ss_lua_layout *layout, uintptr_t ci)
{
    uintptr_t value, slot;
    uint8_t tag;

    if (layout->function == SS_LUA_UNKNOWN)
        return 0;
    slot = ss_lua_word(ci + layout->function);
    value = ss_lua_word(slot);
    tag = *(const uint8_t *)(slot + sizeof(uintptr_t));
    if (tag == layout->light_tag)
        return value;
    if (tag == layout->closure_tag && layout->closure_function != SS_LUA_UNKNOWN)
        return ss_lua_word(value + layout->closure_function);
    return 0;
}

/*
 * Whether a known name is still right: while the same sentinel or its witness lives.  Without them,
 * another function may have the address at the next capture, though not in this one.  If no
 * sentinel can be used, because calibration missed something, the function's definition must match
 * instead.
 */
static bool is_right(const ss_lua_layout *layout, const ss_lua_interpreter *interpreter,
                     ss_lua_known_name *known)
{
    ss_lua_cache *cache = interpreter->cache;

    if (interpreter->keyed && known->epoch == cache->epoch)
        return true;
    if (known->witnessed && interpreter->rest &&
        ss_lua_witnesses_live(interpreter->rest, SS_LUA_NAME_WITNESS + (int)(known - cache->names),
                              1)) {
        if (interpreter->keyed)
            known->epoch = cache->epoch;
        return true;
    }
    return !interpreter->keyed && known->epoch == 0 &&
           (known->capture == cache->captures || !ss_lua_has_keys(layout));
}

/*
 * Whether the entry KNOWN applies to FUNCTION (NULL: to all of that definition).  "No name" may be
 * used for a later function at the address too: the rest of a token is true of every function that
 * was defined there.
 */
static bool is_known(const ss_lua_layout *layout, const ss_lua_interpreter *interpreter,
                     ss_lua_known_name *known, const void *function, const lua_Debug *activation)
{
    return known->function == function && known->source == activation->source &&
           known->line_defined == activation->linedefined && known->uses_left > 0 &&
           (!known->name[0] || is_right(layout, interpreter, known));
}

/* The entry for the functions of one definition, where there are many: a callback is a new one each
   time. */
static ss_lua_known_name *place_of_definition(const ss_lua_interpreter *interpreter,
                                              const lua_Debug *activation)
{
    uintptr_t place = ((uintptr_t)activation->source >> 4) + (uintptr_t)activation->linedefined;

    return &interpreter->cache->names[place % SS_LUA_KNOWN_NAMES];
}

static const char *search_name(const ss_lua_layout *layout, ss_lua_interpreter *interpreter,
                               lua_State *L, const void *function, const lua_Debug *activation)
{
    ss_lua_cache *cache = interpreter->cache;
    ss_lua_known_name *known, found = {.function = function,
                                       .source = activation->source,
                                       .line_defined = activation->linedefined,
                                       .epoch = interpreter->keyed ? cache->epoch : 0,
                                       .capture = cache->captures,
                                       .uses_left = SS_LUA_NAME_USES};

    known = &cache->names[((uintptr_t)function >> 4) % SS_LUA_KNOWN_NAMES];
    if (ss_lua_global_name(interpreter->rest, function, found.name)) {
        found.witnessed = ss_lua_put_witness(layout, L, (uintptr_t)activation->i_ci,
                                             SS_LUA_NAME_WITNESS + (int)(known - cache->names));
    } else if (*activation->what != 'C') {
        found.function = NULL;
        known = place_of_definition(interpreter, activation);
    }
    *known = found;
    return known->name[0] ? known->name : NULL;
}

const char *ss_lua_loaded_name(const ss_lua_layout *layout, ss_lua_interpreter *interpreter,
                               lua_State *L, const lua_Debug *activation)
{
    const void *function = function_of(layout, (uintptr_t)activation->i_ci);
    ss_lua_known_name *known, *nameless;

    if (!function || !interpreter->record)
        return NULL;
    known = &interpreter->cache->names[((uintptr_t)function >> 4) % SS_LUA_KNOWN_NAMES];
    nameless = place_of_definition(interpreter, activation);
    if (!is_known(layout, interpreter, known, function, activation)) {
        if (!is_known(layout, interpreter, nameless, NULL, activation))
            return interpreter->rest ? search_name(layout, interpreter, L, function, activation)
                                     : NULL;
        known = nameless;
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

const char *ss_lua_c_function_name(const ss_lua_layout *layout, ss_lua_interpreter *interpreter,
                                   lua_State *L, uintptr_t ci)
{
    lua_Debug activation = {.i_ci = (struct CallInfo *)ci};
    const char *name;

    lua_getinfo(L, "Sn", &activation);
    name = ss_lua_loaded_name(layout, interpreter, L, &activation);
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
