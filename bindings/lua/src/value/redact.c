#include "value/redact.h"

#include <stdbool.h>
#include <string.h>

#include <lauxlib.h>

#include "value/gather.h"

/* In the registry, which scripts cannot reach. */
#define HOOK_KEY "stacksplice.redact_hook"

static const char *const kinds[] = {"message", "source", "path", "local"};

static _Thread_local lua_State *reporting; /* the thread of Lua that makes a report; or NULL */
static _Thread_local bool is_in_hook;      /* what the hook reports itself has no hook */

lua_State *ss_lua_reporting_begin(lua_State *L)
{
    lua_State *before = reporting;

    reporting = L;
    return before;
}

void ss_lua_reporting_end(lua_State *before)
{
    reporting = before;
}

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
    lua_State *before;
    size_t length;
    const char *text = lua_tolstring(L, -1, &length);

    before = ss_lua_reporting_begin(L);
    if (stacksplice_redact(text, length, STACKSPLICE_TEXT_MESSAGE, ss_lua_gather, &out) != S_OK)
        out.failed = true;
    ss_lua_reporting_end(before);
    if (!out.failed && out.length == length && (!length || !memcmp(out.text, text, length))) {
        ss_lua_gathered_free(&out);
        return;
    }
    ss_lua_push_gathered(L, &out);
    lua_replace(L, -2);
}
