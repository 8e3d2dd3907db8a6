#include "value/safe_text.h"

#include "value/gather.h"

#include <stacksplice/redact.h>
#include <ctype.h>
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

enum {
    SLOTS = 4,           /* of Lua's stack for one table */
    CLOSING = 8,         /* bytes to leave for what closes a table */
    SEARCHED = 16 * 1024 /* bytes of a long string that are searched for secrets */
};

static void put_bytes(ss_lua_gathered *to, const char *bytes, size_t length)
{
    (void)ss_lua_gather(bytes, length, to);
}

static void put(ss_lua_gathered *to, const char *text)
{
    put_bytes(to, text, strlen(text));
}

/* Floats have 14 digits, and at least one of them behind a point or in an exponent. */
static void put_number(lua_State *L, int index, ss_lua_gathered *to)
{
    char text[64];

    if (lua_isinteger(L, index)) {
        snprintf(text, sizeof text, "%lld", (long long)lua_tointeger(L, index));
    } else {
        snprintf(text, sizeof text, "%.14g", (double)lua_tonumber(L, index));
        if (!text[strspn(text, "-0123456789")])
            memcpy(text + strlen(text), ".0", 3);
    }
    put(to, text);
}

/* ---- Strings ----------------------------------------------------------------------------------*/

static void put_byte(ss_lua_gathered *to, unsigned char byte)
{
    char text[8];

    if (byte == '"' || byte == '\\')
        snprintf(text, sizeof text, "\\%c", byte);
    else if (byte == '\n')
        snprintf(text, sizeof text, "\\n");
    else if (byte < 32 || byte == 127)
        snprintf(text, sizeof text, "\\%03u", byte);
    else
        snprintf(text, sizeof text, "%c", byte);
    put(to, text);
}

static void put_quoted(ss_lua_gathered *to, const char *text, size_t length)
{
    put(to, "\"");
    for (size_t i = 0; i < length; i++)
        put_byte(to, (unsigned char)text[i]);
    put(to, "\"");
}

/* How much of TEXT is shown, without a part of a character. */
static size_t shown_length(const char *text, size_t length)
{
    if (length <= SS_LUA_LOCAL_BYTES)
        return length;
    length = SS_LUA_LOCAL_BYTES;
    while (length && ((unsigned char)text[length] & 0xC0) == 0x80)
        length--;
    return length;
}

/* Of a string that is cut, no other secret could be found in the report. */
static void put_beginning(ss_lua_gathered *to, const char *text, size_t length)
{
    ss_lua_gathered clean = {0};

    (void)stacksplice_redact_by_rules(text, length < SEARCHED ? length : SEARCHED,
                                      STACKSPLICE_TEXT_LOCAL, ss_lua_gather, &clean);
    to->failed |= clean.failed;
    put_quoted(to, clean.text ? clean.text : "",
               clean.text ? shown_length(clean.text, clean.length) : 0);
    put(to, "...");
    ss_lua_gathered_free(&clean);
}

static void put_string(lua_State *L, int index, ss_lua_gathered *to)
{
    size_t length;
    const char *text = lua_tolstring(L, index, &length);

    if (length > SS_LUA_LOCAL_BYTES)
        put_beginning(to, text, length);
    else
        put_quoted(to, text, length);
}

/* ---- Tables -----------------------------------------------------------------------------------*/

/* A table while its items are written. */
typedef struct items {
    ss_lua_gathered *to;
    int depth;   /* of the items */
    size_t most; /* bytes in TO before the end of the last item */
    lua_Integer count, in_sequence;
} items;

static void put_value(lua_State *L, int index, ss_lua_gathered *to, int depth, size_t most);

static bool is_name(const char *text, size_t length)
{
    if (!length || isdigit((unsigned char)*text))
        return false;
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] >= 0x80 || (!isalnum((unsigned char)text[i]) && text[i] != '_'))
            return false;
    }
    return true;
}

/* Write the key below the top, unless it is the next of a sequence; returns what its name says of
   the value, if that is a secret. */
static const char *put_key(lua_State *L, items *of)
{
    int key = lua_gettop(L) - 1;
    size_t length;
    const char *text;

    if (lua_isinteger(L, key) && lua_tointeger(L, key) == of->in_sequence + 1) {
        of->in_sequence++;
        return NULL;
    }
    text = lua_type(L, key) == LUA_TSTRING ? lua_tolstring(L, key, &length) : NULL;
    if (text && is_name(text, length)) {
        put(of->to, text);
    } else {
        put(of->to, "[");
        put_value(L, key, of->to, of->depth, of->most);
        put(of->to, "]");
    }
    put(of->to, " = ");
    return text ? stacksplice_redact_name(text) : NULL;
}

/* Write the key and the value at the top; false: the item does not fit and is left out, whole. */
static bool put_item(lua_State *L, items *of)
{
    size_t before = of->to->length;
    const char *secret;

    if (of->count)
        put(of->to, ", ");
    if (of->count < SS_LUA_LOCAL_ITEMS) {
        secret = put_key(L, of);
        if (secret) {
            put(of->to, "\"[redacted: ");
            put(of->to, secret);
            put(of->to, "]\"");
        } else {
            put_value(L, lua_gettop(L), of->to, of->depth, of->most);
        }
        of->count++;
        if (of->to->length <= of->most)
            return true;
        of->to->length = before;
        put(of->to, of->count > 1 ? ", " : "");
    }
    put(of->to, "...");
    return false;
}

static void put_table(lua_State *L, int index, ss_lua_gathered *to, int depth, size_t most)
{
    items of = {.to = to, .depth = depth + 1, .most = most - CLOSING};
    int top = lua_gettop(L);

    put(to, "{");
    if (lua_checkstack(L, SLOTS)) {
        lua_pushnil(L);
        while (lua_next(L, index)) {
            if (depth == SS_LUA_LOCAL_DEPTH) {
                put(to, "...");
                break;
            }
            if (!put_item(L, &of))
                break;
            lua_pop(L, 1);
        }
        lua_settop(L, top);
    } else {
        put(to, "...");
    }
    put(to, "}");
}

/* ---- Values -----------------------------------------------------------------------------------*/

static void put_value(lua_State *L, int index, ss_lua_gathered *to, int depth, size_t most)
{
    switch (lua_type(L, index)) {
    case LUA_TNIL:
        put(to, "nil");
        break;
    case LUA_TBOOLEAN:
        put(to, lua_toboolean(L, index) ? "true" : "false");
        break;
    case LUA_TNUMBER:
        put_number(L, index, to);
        break;
    case LUA_TSTRING:
        put_string(L, index, to);
        break;
    case LUA_TTABLE:
        put_table(L, index, to, depth, most);
        break;
    default:
        put(to, "<");
        put(to, lua_typename(L, lua_type(L, index)));
        put(to, ">");
    }
}

void ss_lua_safe_text(lua_State *L, int index, ss_lua_gathered *to)
{
    put_value(L, lua_absindex(L, index), to, 0, to->length + SS_LUA_LOCAL_TABLE);
}
