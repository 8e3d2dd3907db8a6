/* Frames as tables, in the words of debug.getinfo where those exist. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

/* What one element of a stack stands for, copied: nothing of Lua runs inside the walk. */
typedef struct frame_copy {
    stacksplice_frame frame;
    char *strings[8];
} frame_copy;

typedef struct frame_copies {
    uint32_t count, capacity;
    frame_copy *items;
    bool failed;
} frame_copies;

static char *copy_string(const char *text)
{
    return text ? strdup(text) : NULL;
}

static int copy_frame(const stacksplice_frame *frame, void *data)
{
    frame_copies *out = data;
    frame_copy *item;

    if (out->count == out->capacity) {
        uint32_t capacity = out->capacity ? out->capacity * 2 : 4;
        frame_copy *grown = realloc(out->items, capacity * sizeof *grown);

        if (!grown)
            return out->failed = true;
        out->items = grown;
        out->capacity = capacity;
    }
    item = &out->items[out->count++];
    item->frame = *frame;
    item->strings[0] = copy_string(frame->language);
    item->strings[1] = copy_string(frame->function);
    item->strings[2] = copy_string(frame->file);
    item->strings[3] = copy_string(frame->module);
    item->strings[4] = copy_string(frame->build_id);
    item->strings[5] = copy_string(frame->reason);
    item->strings[6] = copy_string(frame->interpreter);
    item->strings[7] = NULL;
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

    lua_createtable(L, 0, 12);
    set_string(L, "kind", kind_name(frame->kind));
    set_string(L, "trust", trust_name(frame->trust));
    set_string(L, "language", item->strings[0]);
    set_string(L, "name", item->strings[1]);
    set_string(L, "source", item->strings[2]);
    set_string(L, "module", item->strings[3]);
    set_string(L, "build_id", item->strings[4]);
    set_string(L, "reason", item->strings[5]);
    set_string(L, "interpreter", item->strings[6]);
    set_number(L, "currentline", frame->line);
    set_number(L, "endline", frame->end_line);
    set_number(L, "column", frame->column);
    set_number(L, "endcolumn", frame->end_column);
    if (frame->module) {
        lua_pushinteger(L, (lua_Integer)frame->module_offset);
        lua_setfield(L, -2, "offset");
    }
    lua_pushinteger(L, (lua_Integer)frame->address);
    lua_setfield(L, -2, "address");
    lua_pushboolean(L, frame->inlined);
    lua_setfield(L, -2, "inlined");
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
        for (int s = 0; s < 7; s++)
            free(copies->items[i].strings[s]);
    copies->count = 0;
}

void ss_lua_push_frames(lua_State *L, const uintptr_t *frames, uint32_t count)
{
    frame_copies copies = {0, 0, NULL, false};
    int status = LUA_OK, list;

    luaL_checkstack(L, 8, "stacksplice");
    lua_createtable(L, (int)count, 0);
    list = lua_gettop(L);
    for (uint32_t i = 0; i < count && status == LUA_OK && !copies.failed; i++) {
        (void)stacksplice_resolve(frames[i], copy_frame, &copies);
        lua_pushcfunction(L, append_frames);
        lua_pushlightuserdata(L, &copies);
        lua_pushvalue(L, list);
        lua_pushinteger(L, (lua_Integer)lua_rawlen(L, list));
        status = lua_pcall(L, 3, 0, 0);
        free_copies(&copies);
    }
    free(copies.items);
    if (status != LUA_OK)
        lua_error(L);
    if (copies.failed)
        luaL_error(L, "not enough memory");
}
