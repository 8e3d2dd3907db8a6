/*
 * Tables from what the core's walk (stacksplice/read.h) delivers, with the names of debug.getinfo
 * where those exist.
 *
 * Lua must not raise through the core: we record the walk in C memory, and play it back afterwards.
 * The frames of a stack are looked up one element at a time, so that the record stays small.
 */
#include "value/error_object.h"

#include <stacksplice/read.h>

#include <stdlib.h>
#include <string.h>

/* ---- Recording -------------------------------------------------------------------------------*/

typedef enum event_type { BEGIN, END, NIL, BOOLEAN, INTEGER, TEXT, ELEMENT } event_type;

typedef struct event {
    event_type type;
    const char *key; /* or NULL */
    uint64_t value;  /* a text's length; its bytes follow */
} event;

typedef struct recorder {
    stacksplice_visitor visitor;
    ss_lua_gathered out;
    const char *wanted; /* the only member of the outermost object to record; NULL: all */
    unsigned depth;
    bool ignored; /* inside another member */
} recorder;

/* False outside of the wanted member.  A stack's count follows the stack. */
static bool is_wanted(recorder *r, const char *key)
{
    if (r->depth == 1 && r->wanted && key)
        r->ignored = strcmp(key, r->wanted) != 0 && strcmp(key, "frames_left_out") != 0;
    return r->depth > 0 && !r->ignored;
}

/* Add an event, with room for LENGTH bytes after it, which are not added yet; NULL without
   memory. */
static char *add_event(recorder *r, event_type type, const char *key, uint64_t value, size_t length)
{
    const event e = {type, key, value};
    char *room = r->out.failed ? NULL : ss_lua_gather_room(&r->out, sizeof e + length);

    if (!room)
        return NULL;
    memcpy(room, &e, sizeof e);
    r->out.length += sizeof e;
    return room + sizeof e;
}

/* Whether nothing that is wanted follows an event of TYPE. */
static bool is_all(const recorder *r, event_type type)
{
    return r->depth == 1 && r->wanted && type != BEGIN;
}

static int record(stacksplice_visitor *self, event_type type, const char *key, uint64_t value)
{
    recorder *r = (recorder *)self;

    return is_wanted(r, key) && (!add_event(r, type, key, value, 0) || is_all(r, type));
}

static int record_begin(stacksplice_visitor *self, const char *key, stacksplice_container container)
{
    int failed = record(self, BEGIN, key, 0);

    (void)container;
    ((recorder *)self)->depth++;
    return failed;
}

static int record_end(stacksplice_visitor *self, stacksplice_container container)
{
    recorder *r = (recorder *)self;

    (void)container;
    return --r->depth > 0 && !r->ignored && !add_event(r, END, NULL, 0, 0);
}

static int record_null(stacksplice_visitor *self, const char *key)
{
    return record(self, NIL, key, 0);
}

static int record_boolean(stacksplice_visitor *self, const char *key, int value)
{
    return record(self, BOOLEAN, key, value != 0);
}

static int record_integer(stacksplice_visitor *self, const char *key, int64_t value)
{
    return record(self, INTEGER, key, (uint64_t)value);
}

static int record_hex(stacksplice_visitor *self, const char *key, uint64_t value, unsigned digits)
{
    (void)digits;
    return record(self, INTEGER, key, value);
}

static int record_utf8(stacksplice_visitor *self, const char *key, const char *text, size_t length)
{
    recorder *r = (recorder *)self;
    char *room;

    if (!is_wanted(r, key))
        return 0;
    room = add_event(r, TEXT, key, length, length);
    if (!room)
        return 1;
    memcpy(room, text, length);
    r->out.length += length;
    return is_all(r, TEXT);
}

/* Its UTF-8 length is known only when it has been written. */
static int record_utf16(stacksplice_visitor *self, const char *key, const uint16_t *text,
                        size_t length)
{
    recorder *r = (recorder *)self;
    size_t most = length * 3 + 1;
    uint64_t written;
    char *room;

    if (!is_wanted(r, key))
        return 0;
    room = add_event(r, TEXT, key, 0, most);
    if (!room)
        return 1;
    written = stacksplice_utf8(text, (uint32_t)length, room, most);
    memcpy(room - sizeof(event) + offsetof(event, value), &written, sizeof written);
    r->out.length += written;
    return is_all(r, TEXT);
}

static int record_element(stacksplice_visitor *self, uintptr_t element)
{
    return record(self, ELEMENT, NULL, element);
}

static recorder begin_recording(const char *wanted)
{
    return (recorder){.visitor = {.size = sizeof(stacksplice_visitor),
                                  .begin = record_begin,
                                  .end = record_end,
                                  .null = record_null,
                                  .boolean = record_boolean,
                                  .integer = record_integer,
                                  .hex = record_hex,
                                  .utf8 = record_utf8,
                                  .utf16 = record_utf16},
                      .wanted = wanted};
}

/* ---- Playing back ----------------------------------------------------------------------------*/

static const char *name_in_lua(const char *key)
{
    static const char *const names[][2] = {
        {"function", "name"},    {"file", "source"},          {"line", "currentline"},
        {"end_line", "endline"}, {"end_column", "endcolumn"}, {"module_offset", "offset"},
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (*key == *names[i][0] && strcmp(key, names[i][0]) == 0)
            return names[i][1];
    }
    return key;
}

/* Make the value at the top a member of the table at INDEX. [-1, +0, m] */
static void set(lua_State *L, int index, const char *key)
{
    if (key)
        lua_setfield(L, index, name_in_lua(key));
    else
        lua_rawseti(L, index, (lua_Integer)lua_rawlen(L, index) + 1);
}

/* As many as most frames have: a table that grows field by field costs a third more. */
enum { FRAME_FIELDS = 11 };

/* Push the table KEY of the table at the top; creates it if it is missing.  Without a key it is a
   frame's or a node's. [-0, +1, m] */
static void push_table(lua_State *L, const char *key)
{
    if (key && lua_getfield(L, -1, key) == LUA_TTABLE)
        return;
    if (key)
        lua_pop(L, 1);
    lua_createtable(L, 0, key ? 0 : FRAME_FIELDS);
    lua_pushvalue(L, -1);
    set(L, -3, key);
}

/* Set the flags that a frame lacks to false. */
static void set_flags(lua_State *L)
{
    static const char *const flags[] = {"inlined", "asynchronous", "glue"};

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        lua_pushboolean(L, 0);
        lua_setfield(L, -2, flags[i]);
    }
}

/* Append the frames of ELEMENT to the list "stack" in the table at INDEX. [-0, +0, m] */
static void append_frames(lua_State *L, int index, uintptr_t element);

static void play_text(lua_State *L, const event *e, const char *text)
{
    if (e->key && strcmp(e->key, "kind") == 0) /* a frame begins */
        set_flags(L);
    lua_pushlstring(L, text, e->value);
    set(L, -2, e->key);
}

static void play_integer(lua_State *L, const event *e)
{
    bool of_stack = e->key && strcmp(e->key, "frames_left_out") == 0;

    if (of_stack)
        lua_getfield(L, -1, "stack");
    lua_pushinteger(L, (lua_Integer)e->value);
    set(L, -2, e->key);
    if (of_stack)
        lua_pop(L, 1);
}

/* Play the event into the table at the top. */
static void play(lua_State *L, const event *e, const char *text)
{
    switch (e->type) {
    case BEGIN:
        push_table(L, e->key);
        break;
    case END:
        lua_pop(L, 1);
        break;
    case BOOLEAN:
        lua_pushboolean(L, e->value != 0);
        set(L, -2, e->key);
        break;
    case INTEGER:
        play_integer(L, e);
        break;
    case TEXT:
        play_text(L, e, text);
        break;
    case ELEMENT:
        append_frames(L, -2, (uintptr_t)e->value);
        break;
    case NIL:
        break;
    }
}

/* Arguments: the record, the table that it goes into. */
static int play_back(lua_State *L)
{
    const ss_lua_gathered *out = lua_touserdata(L, 1);
    event e;

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    for (size_t at = 0; at < out->length; at += e.type == TEXT ? e.value : 0) {
        memcpy(&e, out->text + at, sizeof e);
        at += sizeof e;
        play(L, &e, out->text + at);
    }
    return 0;
}

/* Arguments: the record of one member, nil.  Returns the member. */
static int play_member(lua_State *L)
{
    const ss_lua_gathered *out = lua_touserdata(L, 1);
    event e = {.type = NIL};

    if (out->length)
        memcpy(&e, out->text, sizeof e);
    if (e.type == TEXT) {
        lua_pushlstring(L, out->text + sizeof e, e.value);
    } else if (e.type == INTEGER) {
        lua_pushinteger(L, (lua_Integer)e.value);
    } else {
        lua_createtable(L, 0, 1);
        lua_replace(L, 2);
        (void)play_back(L);
        lua_getfield(L, 2, e.key ? e.key : "");
    }
    return 1;
}

/* Call PLAY_RECORD with what R recorded and the value at the top, and free the record even if something
   raises. [-1, +results, m] */
static void end_recording(lua_State *L, recorder *r, lua_CFunction play_record, int results)
{
    int status = LUA_OK;

    if (!r->out.failed) {
        lua_pushcfunction(L, play_record);
        lua_insert(L, -2);
        lua_pushlightuserdata(L, &r->out);
        lua_insert(L, -2);
        status = lua_pcall(L, 2, results, 0);
    }
    free(r->out.text);
    if (r->out.failed)
        luaL_error(L, "not enough memory");
    if (status != LUA_OK)
        lua_error(L);
}

/* ---- Stacks and errors -----------------------------------------------------------------------*/

static void append_frames(lua_State *L, int index, uintptr_t element)
{
    recorder r = begin_recording(NULL);

    index = lua_absindex(L, index);
    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    (void)stacksplice_stack_visit(&element, 1, NULL, &r.visitor);
    lua_pushvalue(L, index);
    end_recording(L, &r, play_back, 0);
}

void ss_lua_push_frames(lua_State *L, const uintptr_t *frames, uint32_t count)
{
    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    lua_createtable(L, 0, 1);
    lua_createtable(L, (int)count, 1);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "stack");
    for (uint32_t i = 0; i < count; i++)
        append_frames(L, -2, frames[i]);
    lua_pushinteger(L, stacksplice_frames_left_out(frames, count));
    lua_setfield(L, -2, "frames_left_out");
    lua_remove(L, -2);
}

void ss_lua_push_member(lua_State *L, IUnknown *error, uint32_t part, const char *key)
{
    const stacksplice_read_options options = {
        .size = sizeof options, .parts = part, .without_source = 1};
    recorder r = begin_recording(key);

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    r.visitor.element = record_element;
    (void)stacksplice_error_visit(error, &options, &r.visitor);
    lua_pushnil(L);
    end_recording(L, &r, play_member, 1);
}
