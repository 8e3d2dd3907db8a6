/*
 * The text that luaL_traceback makes, byte for byte, in less time: that function searches all of
 * package.loaded for each function it names, this one searches once for all of them.
 */
#include "traceback/text.h"

#include <string.h>

/* Since Lua 5.5 the name that the calling code uses goes before that of package.loaded. */
#define CODE_NAMES_FIRST (LUA_VERSION_NUM >= 505)

void ss_lua_text_begin(lua_State *L, luaL_Buffer *text, const char *message)
{
    luaL_buffinit(L, text);
    if (message) {
        luaL_addstring(text, message);
        luaL_addchar(text, '\n');
    }
    luaL_addstring(text, "stack traceback:");
}

void ss_lua_text_skipped(luaL_Buffer *text, int count)
{
    luaL_addstring(text, "\n\t...");
#if LUA_VERSION_NUM >= 504
    luaL_addstring(text, "\t(skipping ");
    ss_lua_text_number(text, count);
    luaL_addstring(text, " levels)");
#else
    (void)count;
#endif
}

void ss_lua_text_number(luaL_Buffer *text, int number)
{
    char digits[16], *end = digits + sizeof digits, *at = end;
    unsigned rest = number < 0 ? 0u - (unsigned)number : (unsigned)number;

    do
        *--at = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (number < 0)
        *--at = '-';
    luaL_addlstring(text, at, (size_t)(end - at));
}

/* ---- Lines -----------------------------------------------------------------------------------*/

const void *ss_lua_text_nameless(lua_State *L, lua_State *thread, lua_Debug *activation)
{
    const void *function;

#if CODE_NAMES_FIRST
    lua_getinfo(thread, "Sn", activation);
    if (*activation->namewhat || *activation->what == 'm')
        return NULL;
#else
    (void)thread;
#endif
    lua_getinfo(L, "f", activation);
    function = lua_topointer(L, -1);
    lua_pop(L, 1);
    return function;
}

static void add_quoted(luaL_Buffer *text, const char *what, const char *name)
{
    luaL_addstring(text, what);
    luaL_addlstring(text, " '", 2);
    luaL_addstring(text, name ? name : "(null)"); /* as lua_pushfstring has it */
    luaL_addchar(text, '\'');
}

static void add_unnamed(luaL_Buffer *text, const lua_Debug *activation)
{
    if (*activation->what == 'm') {
        luaL_addstring(text, "main chunk");
    } else if (*activation->what != 'C') {
        luaL_addstring(text, "function <");
        luaL_addstring(text, activation->short_src);
        luaL_addchar(text, ':');
        ss_lua_text_number(text, activation->linedefined);
        luaL_addchar(text, '>');
    } else {
        luaL_addchar(text, '?');
    }
}

/* The name is copied from the stack, where a buffer wants nothing but its own. */
static bool add_loaded_name(luaL_Buffer *text, int names, uint32_t number)
{
    lua_State *L = text->L;
    char name[LUAL_BUFFERSIZE < 512 ? LUAL_BUFFERSIZE : 512];
    size_t length;
    bool has = lua_rawgeti(L, names, (lua_Integer)number + 1) == LUA_TSTRING, fits;

    length = has ? strlen(lua_tostring(L, -1)) : 0; /* up to a NUL */
    fits = has && length < sizeof name;
    if (fits)
        memcpy(name, lua_tostring(L, -1), length + 1);
    if (has && !fits) {
        lua_pushfstring(L, "function '%s'", lua_tostring(L, -1));
        lua_remove(L, -2);
        luaL_addvalue(text);
        return true;
    }
    lua_pop(L, 1);
    if (has)
        add_quoted(text, "function", name);
    return has;
}

void ss_lua_text_activation(luaL_Buffer *text, lua_State *thread, lua_Debug *activation, int names,
                            uint32_t number)
{
    lua_getinfo(thread, "Slnt", activation);
    luaL_addlstring(text, "\n\t", 2);
    luaL_addstring(text, activation->short_src);
    luaL_addchar(text, ':');
    if (activation->currentline > 0) {
        ss_lua_text_number(text, activation->currentline);
        luaL_addchar(text, ':');
    }
    luaL_addlstring(text, " in ", 4);
    if (CODE_NAMES_FIRST && *activation->namewhat)
        add_quoted(text, activation->namewhat, activation->name);
    else if (!add_loaded_name(text, names, number)) {
        if (*activation->namewhat)
            add_quoted(text, activation->namewhat, activation->name);
        else
            add_unnamed(text, activation);
    }
    if (activation->istailcall)
        luaL_addstring(text, "\n\t(...tail calls...)");
}

/* ---- The levels of one coroutine -------------------------------------------------------------*/

/* The levels that are shown, as luaL_traceback chooses them. */
typedef struct shown_levels {
    uint32_t count, first_outer; /* the latter: the first after those that are left out */
    int left_out;
    int levels[SS_LUA_SHOWN_INNER + SS_LUA_SHOWN_OUTER + 1];
    const void *functions[SS_LUA_SHOWN_INNER + SS_LUA_SHOWN_OUTER + 1];
} shown_levels;

static int count_levels(lua_State *L)
{
    lua_Debug activation;
    int low = 0, high = 1;

    while (lua_getstack(L, high, &activation)) {
        low = high;
        high *= 2;
    }
    while (low < high) {
        int middle = (low + high) / 2;

        if (lua_getstack(L, middle, &activation))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* THREAD's levels from LEVEL on; each function is pushed on L for a moment. [-0, +0, -], 1 slot */
static void find_levels(lua_State *L, lua_State *thread, int level, shown_levels *shown)
{
    int end = count_levels(thread);
    lua_Debug activation;

    *shown = (shown_levels){.first_outer = UINT32_MAX};
    if (level < 0)
        return; /* no level at all, as Lua has it */
    if (end - level > SS_LUA_SHOWN_INNER + SS_LUA_SHOWN_OUTER + 1) {
        shown->first_outer = SS_LUA_SHOWN_INNER;
        shown->left_out = end - level - SS_LUA_SHOWN_INNER - SS_LUA_SHOWN_OUTER;
    }
    for (; level < end; level++) {
        uint32_t i = shown->count;

        if (i == shown->first_outer)
            level += shown->left_out;
        if (!lua_getstack(thread, level, &activation))
            return;
        shown->levels[i] = level;
        shown->functions[i] = ss_lua_text_nameless(L, thread, &activation);
        shown->count++;
    }
}

/*
 * A coroutine that does not run can change meanwhile, in a finalizer, so that its activations are
 * looked up again where they are read.
 */
void ss_lua_push_text(lua_State *L, lua_State *thread, const char *message, int level)
{
    shown_levels shown;
    lua_Debug activation;
    luaL_Buffer text;
    int names;

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    find_levels(L, thread, level, &shown);
    ss_lua_push_loaded_names(L, shown.functions, shown.count);
    names = lua_gettop(L);
    ss_lua_text_begin(L, &text, message);
    for (uint32_t i = 0; i < shown.count; i++) {
        if (i == shown.first_outer)
            ss_lua_text_skipped(&text, shown.left_out - 1); /* so luaL_traceback counts them */
        if (!lua_getstack(thread, shown.levels[i], &activation))
            break;
        ss_lua_text_activation(&text, thread, &activation, names, i);
    }
    luaL_pushresult(&text);
}
