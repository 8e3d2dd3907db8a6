/*
 * One member of an error that is a text or a number: the core's walk ends where it finds it.
 *
 * Lua must not raise through the core, so the value waits in C memory.
 */
#include "value/error_object.h"

#include <stacksplice/read.h>

#include <string.h>

enum { NEAR_BYTES = 256 };

typedef enum found_type { NOTHING, INTEGER, NEAR_TEXT, FAR_TEXT } found_type;

typedef struct finder {
    stacksplice_visitor visitor;
    const char *wanted; /* a member of the outermost object */
    unsigned depth;
    found_type found;
    int64_t number;
    size_t length; /* of NEAR */
    char near[NEAR_BYTES];
    ss_lua_gathered far; /* a text that NEAR has no room for */
} finder;

static bool is_wanted(const finder *f, const char *key)
{
    return f->depth == 1 && key && strcmp(key, f->wanted) == 0;
}

static int enter(stacksplice_visitor *self, const char *key, stacksplice_container container)
{
    (void)key;
    (void)container;
    ((finder *)self)->depth++;
    return 0;
}

static int leave(stacksplice_visitor *self, stacksplice_container container)
{
    (void)container;
    ((finder *)self)->depth--;
    return 0;
}

static int find_nothing(stacksplice_visitor *self, const char *key)
{
    return is_wanted((finder *)self, key);
}

static int find_integer(stacksplice_visitor *self, const char *key, int64_t value)
{
    finder *f = (finder *)self;

    if (!is_wanted(f, key))
        return 0;
    f->found = INTEGER;
    f->number = value;
    return 1;
}

static int find_boolean(stacksplice_visitor *self, const char *key, int value)
{
    return find_integer(self, key, value);
}

static int find_hex(stacksplice_visitor *self, const char *key, uint64_t value, unsigned digits)
{
    (void)digits;
    return find_integer(self, key, (int64_t)value);
}

/* Room for a text of at most MOST bytes; NULL without memory. */
static char *room_for(finder *f, size_t most)
{
    f->found = most <= NEAR_BYTES ? NEAR_TEXT : FAR_TEXT;
    return f->found == NEAR_TEXT ? f->near : ss_lua_gather_room(&f->far, most);
}

static void set_length(finder *f, size_t length)
{
    f->length = f->far.length = length;
}

static int find_utf8(stacksplice_visitor *self, const char *key, const char *text, size_t length)
{
    finder *f = (finder *)self;
    char *room;

    if (!is_wanted(f, key))
        return 0;
    room = room_for(f, length);
    if (room) {
        memcpy(room, text, length);
        set_length(f, length);
    }
    return 1;
}

static int find_utf16(stacksplice_visitor *self, const char *key, const uint16_t *text,
                      size_t length)
{
    finder *f = (finder *)self;
    size_t most = length * 3 + 1;
    char *room;

    if (!is_wanted(f, key))
        return 0;
    room = room_for(f, most);
    if (room)
        set_length(f, stacksplice_utf8(text, (uint32_t)length, room, most));
    return 1;
}

void ss_lua_push_scalar(lua_State *L, IUnknown *error, uint32_t part, const char *key)
{
    const stacksplice_read_options options = {
        .size = sizeof options, .parts = part, .without_source = 1};
    finder f = {.visitor = {.size = sizeof f.visitor,
                            .begin = enter,
                            .end = leave,
                            .null = find_nothing,
                            .boolean = find_boolean,
                            .integer = find_integer,
                            .hex = find_hex,
                            .utf8 = find_utf8,
                            .utf16 = find_utf16},
                .wanted = key};

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    (void)stacksplice_error_visit(error, &options, &f.visitor);
    if (f.found == INTEGER)
        lua_pushinteger(L, f.number);
    else if (f.found == NEAR_TEXT)
        lua_pushlstring(L, f.near, f.length);
    else if (f.found == FAR_TEXT)
        ss_lua_push_gathered(L, &f.far);
    else
        lua_pushnil(L);
}
