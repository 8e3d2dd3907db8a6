/* Frames as tables, in the words of debug.getinfo where those exist. */
#include "value/value.h"

#include <stdlib.h>
#include <string.h>

/* What one element of a stack stands for, copied: nothing of Lua runs inside the walk. */
enum { STRINGS = 7 };
typedef struct frame_copy {
    stacksplice_frame frame; /* its strings are not to be read */
    bool glue;
    char *strings[STRINGS];
} frame_copy;

typedef struct frame_copies {
    uint32_t count, capacity;
    frame_copy *items;
    bool failed;
} frame_copies;

/* The strings of a frame with their keys in the order of its table. */
static const struct {
    const char *key;
    size_t at;
} strings[STRINGS] = {
    {"language", offsetof(stacksplice_frame, language)},
    {"name", offsetof(stacksplice_frame, function)},
    {"source", offsetof(stacksplice_frame, file)},
    {"module", offsetof(stacksplice_frame, module)},
    {"build_id", offsetof(stacksplice_frame, build_id)},
    {"reason", offsetof(stacksplice_frame, reason)},
    {"interpreter", offsetof(stacksplice_frame, interpreter)},
};

/* Room for one more copy; NULL without memory. */
static frame_copy *add_copy(frame_copies *out)
{
    if (out->count == out->capacity) {
        uint32_t capacity = out->capacity ? out->capacity * 2 : 4;
        frame_copy *grown = realloc(out->items, capacity * sizeof *grown);

        if (!grown)
            return NULL;
        out->items = grown;
        out->capacity = capacity;
    }
    return memset(&out->items[out->count++], 0, sizeof *out->items);
}

static int copy_frame(const stacksplice_frame *frame, void *data)
{
    frame_copies *out = data;
    frame_copy *item = add_copy(out);

    if (!item)
        return out->failed = true;
    item->frame = *frame;
    item->glue = stacksplice_frame_role(frame) == STACKSPLICE_ROLE_GLUE;
    for (size_t s = 0; s < STRINGS; s++) {
        const char *text = *(const char *const *)((const char *)frame + strings[s].at);

        if (text && (item->strings[s] = strdup(text)) == NULL)
            return out->failed = true;
    }
    return 0;
}

static void set_string(lua_State *L, const char *key, const char *value)
{
    if (!value)
        return;
    lua_pushstring(L, value);
    lua_setfield(L, -2, key);
}

static void set_number(lua_State *L, const char *key, lua_Integer value)
{
    if (value == 0)
        return;
    lua_pushinteger(L, value);
    lua_setfield(L, -2, key);
}

static void set_flag(lua_State *L, const char *key, bool value)
{
    lua_pushboolean(L, value);
    lua_setfield(L, -2, key);
}

static const char *kind_name(stacksplice_frame_kind kind)
{
    return kind == STACKSPLICE_FRAME_SCRIPT ? "script"
           : kind == STACKSPLICE_FRAME_GAP  ? "gap"
                                            : "native";
}

static const char *trust_name(stacksplice_trust trust)
{
    return trust == STACKSPLICE_TRUST_INFERRED    ? "inferred"
           : trust == STACKSPLICE_TRUST_TRACEBACK ? "traceback"
                                                  : "exact";
}

static void push_frame(lua_State *L, const frame_copy *item)
{
    const stacksplice_frame *frame = &item->frame;

    lua_createtable(L, 0, 16);
    set_string(L, "kind", kind_name(frame->kind));
    set_string(L, "trust", trust_name(frame->trust));
    for (size_t s = 0; s < STRINGS; s++)
        set_string(L, strings[s].key, item->strings[s]);
    set_number(L, "currentline", frame->line);
    set_number(L, "endline", frame->end_line);
    set_number(L, "column", frame->column);
    set_number(L, "endcolumn", frame->end_column);
    if (frame->module) {
        lua_pushinteger(L, (lua_Integer)frame->module_offset);
        lua_setfield(L, -2, "offset");
    }
    set_number(L, "function_offset", frame->function ? (lua_Integer)frame->function_offset : 0);
    lua_pushinteger(L, (lua_Integer)frame->address);
    lua_setfield(L, -2, "address");
    set_flag(L, "inlined", frame->inlined);
    set_flag(L, "asynchronous", frame->asynchronous);
    set_flag(L, "glue", item->glue);
}

/* Arguments: the copies, the list, how many it has; the copies' tables are appended. */
static int append_frames(lua_State *L)
{
    const frame_copies *copies = lua_touserdata(L, 1);
    lua_Integer count = lua_tointeger(L, 3);

    for (uint32_t i = 0; i < copies->count; i++) {
        push_frame(L, &copies->items[i]);
        lua_rawseti(L, 2, ++count);
    }
    return 0;
}

static void free_copies(frame_copies *copies)
{
    for (uint32_t i = 0; i < copies->count; i++)
        for (size_t s = 0; s < STRINGS; s++)
            free(copies->items[i].strings[s]);
    copies->count = 0;
}

void ss_lua_push_frames(lua_State *L, const uintptr_t *frames, uint32_t count)
{
    frame_copies copies = {0, 0, NULL, false};
    int status = LUA_OK, list;

    luaL_checkstack(L, 8, "stacksplice");
    lua_createtable(L, (int)count, 1);
    list = lua_gettop(L);
    for (uint32_t i = 0; i < count && status == LUA_OK && !copies.failed; i++) {
        (void)stacksplice_resolve(frames[i], copy_frame, &copies);
        if (!copies.failed) {
            lua_pushcfunction(L, append_frames);
            lua_pushlightuserdata(L, &copies);
            lua_pushvalue(L, list);
            lua_pushinteger(L, (lua_Integer)lua_rawlen(L, list));
            status = lua_pcall(L, 3, 0, 0);
        }
        free_copies(&copies);
    }
    free(copies.items);
    if (status != LUA_OK)
        lua_error(L);
    if (copies.failed)
        luaL_error(L, "not enough memory");
    lua_pushinteger(L, stacksplice_frames_left_out(frames, count));
    lua_setfield(L, list, "frames_left_out");
}
