#include "value/safe_text.h"

#include "value/gather.h"

#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Gather ----------------------------------------------------------------------------------*/

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

/* ---- Safe text -------------------------------------------------------------------------------*/

enum { SLOTS = 4 }; /* of Lua's stack for one table */

static void put_value(lua_State *L, int index, ss_value_text *to);

static void put_number(lua_State *L, int index, ss_value_text *to)
{
    char text[32];

    if (lua_isinteger(L, index)) {
        snprintf(text, sizeof text, "%lld", (long long)lua_tointeger(L, index));
        ss_value_put(to, text);
    } else {
        ss_value_lua_float(to, (double)lua_tonumber(L, index));
    }
}

static void put_string(lua_State *L, int index, ss_value_text *to)
{
    size_t length;
    const char *text = lua_tolstring(L, index, &length);

    ss_value_quoted(to, &ss_value_of_lua, text, length, length);
}

/* Write what is in front of the value of the key at INDEX; returns it if it is a string. */
static const char *put_key(lua_State *L, int index, ss_value_text *to)
{
    size_t length = 0;
    const char *text = lua_type(L, index) == LUA_TSTRING ? lua_tolstring(L, index, &length) : NULL;

    if (text && ss_value_is_lua_name(text, length)) {
        ss_value_put(to, text);
    } else {
        ss_value_put(to, "[");
        put_value(L, index, to);
        ss_value_put(to, "]");
    }
    ss_value_put(to, " = ");
    return text;
}

/* Write the key and the value at the top; false: no more are written. */
static bool put_item(lua_State *L, ss_value_text *to, lua_Integer *in_sequence)
{
    int value = lua_gettop(L), key = value - 1;
    const char *name = NULL;

    if (!ss_value_item(to))
        return false;
    if (lua_isinteger(L, key) && lua_tointeger(L, key) == *in_sequence + 1)
        ++*in_sequence;
    else
        name = put_key(L, key, to);
    if (!name || !ss_value_secret(to, name, "\""))
        put_value(L, value, to);
    return ss_value_fits(to);
}

static void put_table(lua_State *L, int index, ss_value_text *to)
{
    int top = lua_gettop(L);
    lua_Integer in_sequence = 0;

    ss_value_begin(to, "{");
    if (lua_checkstack(L, SLOTS)) {
        lua_pushnil(L);
        while (lua_next(L, index) && put_item(L, to, &in_sequence))
            lua_pop(L, 1);
        lua_settop(L, top);
    } else {
        ss_value_leave_out(to);
    }
    ss_value_end(to, "}");
}

static void put_value(lua_State *L, int index, ss_value_text *to)
{
    switch (lua_type(L, index)) {
    case LUA_TNIL:
        ss_value_put(to, "nil");
        break;
    case LUA_TBOOLEAN:
        ss_value_put(to, lua_toboolean(L, index) ? "true" : "false");
        break;
    case LUA_TNUMBER:
        put_number(L, index, to);
        break;
    case LUA_TSTRING:
        put_string(L, index, to);
        break;
    case LUA_TTABLE:
        put_table(L, index, to);
        break;
    default:
        ss_value_put(to, "<");
        ss_value_put(to, lua_typename(L, lua_type(L, index)));
        ss_value_put(to, ">");
    }
}

void ss_lua_safe_text(lua_State *L, int index, ss_value_text *to)
{
    put_value(L, lua_absindex(L, index), to);
}
