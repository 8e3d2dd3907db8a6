/* Lines in the form of luaL_traceback, for stacks with other languages' frames. */
#include "traceback/text.h"

#include <stdio.h>
#include <string.h>

/* Since Lua 5.5 the name from the calling code comes before that of package.loaded. */
#define CODE_NAMES_FIRST (LUA_VERSION_NUM >= 505)

void ss_lua_text_add(ss_lua_gathered *text, const char *more)
{
    (void)ss_lua_gather(more, strlen(more), text);
}

void ss_lua_text_number(ss_lua_gathered *text, int number)
{
    char digits[16];

    (void)snprintf(digits, sizeof digits, "%d", number);
    ss_lua_text_add(text, digits);
}

void ss_lua_text_begin(ss_lua_gathered *text, const char *message)
{
    if (message) {
        ss_lua_text_add(text, message);
        ss_lua_text_add(text, "\n");
    }
    ss_lua_text_add(text, "stack traceback:");
}

void ss_lua_text_skipped(ss_lua_gathered *text, int count)
{
    ss_lua_text_add(text, "\n\t...");
#if LUA_VERSION_NUM >= 504
    ss_lua_text_add(text, "\t(skipping ");
    ss_lua_text_number(text, count);
    ss_lua_text_add(text, " levels)");
#else
    (void)count;
#endif
}

static void add_quoted(ss_lua_gathered *text, const char *what, const char *name)
{
    ss_lua_text_add(text, what);
    ss_lua_text_add(text, " '");
    ss_lua_text_add(text, name ? name : "(null)"); /* like lua_pushfstring */
    ss_lua_text_add(text, "'");
}

/* The name that package.loaded has, if there is one. */
static bool add_loaded(lua_State *L, ss_lua_gathered *text, lua_Debug *activation)
{
    char name[SS_LUA_NAME_SIZE];
    bool has;

    lua_getinfo(L, "f", activation);
    has = ss_lua_global_name(L, lua_topointer(L, -1), name);
    lua_pop(L, 1);
    if (has)
        add_quoted(text, "function", name);
    return has;
}

static void add_name(lua_State *L, ss_lua_gathered *text, lua_Debug *activation)
{
    if (CODE_NAMES_FIRST && *activation->namewhat) {
        add_quoted(text, activation->namewhat, activation->name);
    } else if (add_loaded(L, text, activation)) {
        return;
    } else if (*activation->namewhat) {
        add_quoted(text, activation->namewhat, activation->name);
    } else if (*activation->what == 'm') {
        ss_lua_text_add(text, "main chunk");
    } else if (*activation->what == 'C') {
        ss_lua_text_add(text, "?");
    } else {
        ss_lua_text_add(text, "function <");
        ss_lua_text_add(text, activation->short_src);
        ss_lua_text_add(text, ":");
        ss_lua_text_number(text, activation->linedefined);
        ss_lua_text_add(text, ">");
    }
}

void ss_lua_text_activation(lua_State *L, ss_lua_gathered *text, const ss_lua_seen *seen)
{
    lua_Debug activation = {.i_ci = seen->ci};

    lua_getinfo(seen->L, "Slnt", &activation);
    ss_lua_text_add(text, "\n\t");
    ss_lua_text_add(text, activation.short_src);
    ss_lua_text_add(text, ":");
    if (activation.currentline > 0) {
        ss_lua_text_number(text, activation.currentline);
        ss_lua_text_add(text, ":");
    }
    ss_lua_text_add(text, " in ");
    add_name(L, text, &activation);
    if (activation.istailcall)
        ss_lua_text_add(text, "\n\t(...tail calls...)");
}
