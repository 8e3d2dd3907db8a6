#include "value/gather.h"

#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>

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
