#include "value/value.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *ss_lua_gather_room(ss_lua_gathered *out, size_t length)
{
    if (!out->text || length > out->capacity - out->length) {
        size_t capacity = (out->capacity + length) * 2 + 1024;
        char *grown = realloc(out->text, capacity);

        if (!grown) {
            out->failed = true;
            return NULL;
        }
        out->text = grown;
        out->capacity = capacity;
    }
    return out->text + out->length;
}

int ss_lua_gather(const char *text, size_t length, void *data)
{
    ss_lua_gathered *out = data;
    char *room = out->failed ? NULL : ss_lua_gather_room(out, length);

    if (!room)
        return 1;
    memcpy(room, text, length);
    out->length += length;
    return 0;
}

void ss_lua_gathered_free(ss_lua_gathered *out)
{
    free(out->text);
    out->text = NULL;
}

static int push_string(lua_State *L)
{
    const ss_lua_gathered *out = lua_touserdata(L, 1);

    lua_pushlstring(L, out->text ? out->text : "", out->length);
    return 1;
}

void ss_lua_push_gathered(lua_State *L, ss_lua_gathered *out)
{
    int status = LUA_OK;

    if (!out->failed) {
        lua_pushcfunction(L, push_string);
        lua_pushlightuserdata(L, out);
        status = lua_pcall(L, 1, 1, 0);
    }
    free(out->text);
    if (out->failed)
        luaL_error(L, "not enough memory");
    if (status != LUA_OK)
        lua_error(L);
}

/* ---- Redaction --------------------------------------------------------------------------------*/

/* In the registry, which scripts cannot reach. */
#define HOOK_KEY "stacksplice.redact_hook"

static const char *const kinds[] = {"message", "source", "path", "local"};

/* The thread of Lua that makes a report, or NULL: the core may call the hook of its scripts. */
static _Thread_local lua_State *reporting;
static _Thread_local bool is_in_hook; /* what the hook reports itself has no hook */

void ss_lua_set_redact_hook(lua_State *L)
{
    lua_pushliteral(L, HOOK_KEY);
    lua_insert(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
}

typedef struct hooked {
    const char *text;
    size_t length;
    const char *kind;
    ss_lua_gathered made;
} hooked;

/* [-1, +0, e] */
static int call_protected(lua_State *L)
{
    hooked *h = lua_touserdata(L, 1);
    const char *made;
    size_t length;

    lua_pushliteral(L, HOOK_KEY);
    if (lua_rawget(L, LUA_REGISTRYINDEX) != LUA_TFUNCTION)
        return luaL_error(L, "the hook is another state's");
    lua_pushlstring(L, h->text, h->length);
    lua_pushstring(L, h->kind);
    lua_call(L, 2, 1);
    if (lua_type(L, -1) != LUA_TSTRING)
        return luaL_error(L, "the hook returned no string");
    made = lua_tolstring(L, -1, &length);
    (void)ss_lua_gather(made, length, &h->made);
    return 0;
}

int ss_lua_redact_hook(const char *text, size_t length, stacksplice_text_kind kind,
                       stacksplice_write_callback write, void *write_data, void *data)
{
    hooked h = {.text = text, .length = length, .kind = kinds[kind - 1]};
    lua_State *L = reporting;
    int failed;

    (void)data;
    if (!L || is_in_hook || !lua_checkstack(L, LUA_MINSTACK))
        return 1;
    is_in_hook = true;
    lua_pushcfunction(L, call_protected);
    lua_pushlightuserdata(L, &h);
    failed = lua_pcall(L, 1, 0, 0) != LUA_OK;
    if (failed)
        lua_pop(L, 1);
    is_in_hook = false;
    failed =
        failed || h.made.failed || (h.made.length && write(h.made.text, h.made.length, write_data));
    ss_lua_gathered_free(&h.made);
    return failed;
}

void ss_lua_redact_top(lua_State *L)
{
    ss_lua_gathered out = {0};
    lua_State *before = reporting;
    size_t length;
    const char *text = lua_tolstring(L, -1, &length);

    reporting = L;
    if (stacksplice_redact(text, length, STACKSPLICE_TEXT_MESSAGE, ss_lua_gather, &out) != S_OK)
        out.failed = true;
    reporting = before;
    if (!out.failed && out.length == length && (!length || !memcmp(out.text, text, length))) {
        ss_lua_gathered_free(&out);
        return;
    }
    ss_lua_push_gathered(L, &out);
    lua_replace(L, -2);
}

/* ---- Reports ----------------------------------------------------------------------------------*/

/* Reports as Lua strings. */

/* In the registry, which scripts cannot reach: one answer for all copies of the binding. */
#define SOURCE_LINES_KEY "stacksplice.source_lines"

void stacksplice_lua_allow_source_lines(lua_State *L, int allow)
{
    luaL_checkstack(L, 2, "stacksplice");
    lua_pushliteral(L, SOURCE_LINES_KEY);
    lua_pushboolean(L, allow);
    lua_rawset(L, LUA_REGISTRYINDEX);
}

/* [-0, +0, m] */
static bool may_read_source_lines(lua_State *L)
{
    bool may;

    lua_pushliteral(L, SOURCE_LINES_KEY);
    lua_rawget(L, LUA_REGISTRYINDEX);
    may = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return may;
}

void ss_lua_push_report(lua_State *L, IUnknown *error, stacksplice_format_kind kind,
                        bool all_frames, bool shorten)
{
    stacksplice_format_options options = {
        .size = sizeof options, .all_frames = all_frames, .shorten = shorten};
    ss_lua_gathered out = {0};
    lua_State *before = reporting;

    options.without_source = !may_read_source_lines(L);
    reporting = L;
    if (stacksplice_format(error, kind, &options, ss_lua_gather, &out) != S_OK)
        out.failed = true;
    reporting = before;
    ss_lua_push_gathered(L, &out);
}
