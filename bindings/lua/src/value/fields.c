/*
 * The fields of a table that was raised, as the message of its error:
 *     {code = 2, text = "no price"}
 *
 * Everything is read raw and written into C memory: nothing here runs code of the script, raises or
 * allocates in Lua.
 */
#include "value/fields.h"

#include "value/gather.h"

#include <lauxlib.h>

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FIELDS = 24, MOST_BYTES = 160 };

/* The fields that have a name, each written as one text that ends with NUL. */
typedef struct named {
    ss_lua_gathered texts;
    size_t starts[MOST_FIELDS];
    int count;
    bool more;
} named;

static void add(ss_lua_gathered *out, const char *text)
{
    (void)ss_lua_gather(text, strlen(text), out);
}

/* A text as Lua source has it, on one line; cut at the start of a character of UTF-8. */
static void add_quoted(ss_lua_gathered *out, const char *text, size_t length)
{
    size_t shown = length < MOST_BYTES ? length : MOST_BYTES;
    char escape[8];

    while (shown < length && shown > 0 && ((unsigned char)text[shown] & 0xC0) == 0x80)
        shown--;
    add(out, "\"");
    for (size_t i = 0; i < shown; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c == '\n')
            add(out, "\\n");
        else if (c < ' ' || c == 127) {
            (void)snprintf(escape, sizeof escape, "\\%03u", (unsigned)c);
            add(out, escape);
        } else {
            if (c == '"' || c == '\\')
                add(out, "\\");
            (void)ss_lua_gather(text + i, 1, out);
        }
    }
    add(out, shown < length ? "...\"" : "\"");
}

/* The value at INDEX; a table, a function and the like by their type alone: an address would be
   another one in each run. */
static void add_value(lua_State *L, int index, ss_lua_gathered *out)
{
    char number[48];
    const char *text;
    size_t length;

    switch (lua_type(L, index)) {
    case LUA_TSTRING:
        text = lua_tolstring(L, index, &length);
        add_quoted(out, text, length);
        return;
    case LUA_TNUMBER:
        if (lua_isinteger(L, index))
            (void)snprintf(number, sizeof number, "%lld", (long long)lua_tointeger(L, index));
        else
            (void)snprintf(number, sizeof number, "%.14g", (double)lua_tonumber(L, index));
        add(out, number);
        return;
    case LUA_TBOOLEAN:
        add(out, lua_toboolean(L, index) ? "true" : "false");
        return;
    case LUA_TTABLE:
        add(out, "{...}");
        return;
    default:
        add(out, luaL_typename(L, index));
    }
}

static bool is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_')
            return false;
    return length > 0 && length <= MOST_BYTES && !isdigit((unsigned char)text[0]);
}

static void add_key(lua_State *L, int index, ss_lua_gathered *out)
{
    size_t length;
    const char *text = lua_type(L, index) == LUA_TSTRING ? lua_tolstring(L, index, &length) : NULL;

    if (text && is_name(text, length)) {
        add(out, text);
        return;
    }
    add(out, "[");
    add_value(L, index, out);
    add(out, "]");
}

/* The values 1, 2, 3, ... up to the first nil.  Returns how many were seen. [-0, +0, -], 1 slot */
static lua_Integer add_sequence(lua_State *L, int index, ss_lua_gathered *out)
{
    for (lua_Integer i = 1;; i++) {
        bool there = lua_rawgeti(L, index, i) != LUA_TNIL;

        if (there && i <= MOST_FIELDS) {
            add(out, i > 1 ? ", " : "");
            add_value(L, -1, out);
        }
        lua_pop(L, 1);
        if (!there)
            return i - 1;
        if (i > MOST_FIELDS) {
            add(out, ", ...");
            return INT64_MAX; /* the rest is not shown one by one */
        }
    }
}

/* The other fields; the table has COUNT values in a row. [-0, +0, -], 2 slots */
static void gather_named(lua_State *L, int index, lua_Integer count, named *fields)
{
    lua_pushnil(L);
    while (lua_next(L, index)) {
        bool in_row =
            lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1 && lua_tointeger(L, -2) <= count;

        if (!in_row && fields->count == MOST_FIELDS) {
            fields->more = true;
            lua_pop(L, 2);
            return;
        }
        if (!in_row) {
            fields->starts[fields->count++] = fields->texts.length;
            add_key(L, -2, &fields->texts);
            add(&fields->texts, " = ");
            add_value(L, -1, &fields->texts);
            (void)ss_lua_gather("", 1, &fields->texts);
        }
        lua_pop(L, 1);
    }
}

/* The order of a table's fields is another one in each run; that of a message is not. */
static void sort(named *fields)
{
    for (int i = 1; i < fields->count; i++) {
        size_t start = fields->starts[i];
        int to = i;

        for (; to > 0 &&
               strcmp(fields->texts.text + fields->starts[to - 1], fields->texts.text + start) > 0;
             to--)
            fields->starts[to] = fields->starts[to - 1];
        fields->starts[to] = start;
    }
}

void ss_lua_push_fields(lua_State *L, int index)
{
    ss_lua_gathered out = {0};
    named fields = {.count = 0};

    index = lua_absindex(L, index);
    add(&out, "{");
    gather_named(L, index, add_sequence(L, index, &out), &fields);
    if (fields.texts.failed)
        out.failed = true;
    else
        sort(&fields);
    for (int i = 0; i < fields.count && !out.failed; i++) {
        add(&out, out.length > 1 ? ", " : "");
        add(&out, fields.texts.text + fields.starts[i]);
    }
    free(fields.texts.text);
    if (out.length == 1) {
        out.length = 0;
        add(&out, "(error object is a table value)"); /* the words of the standalone Lua */
    } else {
        add(&out, fields.more ? ", ...}" : "}");
    }
    ss_lua_push_gathered(L, &out);
}
