/* The errors of an attached state that nobody in Lua catches with a handler of ours. */
#include "attachment.h"

#include <stdlib.h>
#include <string.h>

/* The coroutines that failed and were seen: a table with weak keys. */
static const char seen_key;

/* The arguments of the protected parts. */
typedef struct wanted {
    ss_lua_attachment *attachment;
    const void *above;
    const char *text;
    size_t length;
    IUnknown *found;
} wanted;

void ss_lua_drop_recorded(ss_lua_attachment *attachment)
{
    IUnknown *last = attachment->last;

    free(attachment->last_message);
    attachment->last_message = NULL;
    attachment->last = NULL;
    ss_lua_release(last);
}

/* The error of the value at INDEX with an outside reference, or NULL. [-0, +0, m] */
static IUnknown *error_of(lua_State *L, ss_lua_state *state, int index, const ss_lua_origin *origin)
{
    IUnknown *error;

    ss_lua_push_error_of(L, state, index, origin);
    error = ss_lua_to_error(L, -1);
    if (error) { /* else origination is switched off */
        ss_lua_pin(L, state, -1, ss_lua_ties_find(L, state, -1));
        error->lpVtbl->AddRef(error);
    }
    lua_pop(L, 1);
    return error;
}

/* ---- Recording -------------------------------------------------------------------------------*/

/* Arguments: the value, what is wanted. */
static int record_protected(lua_State *L)
{
    const wanted *now = lua_touserdata(L, 2);
    ss_lua_attachment *attachment = now->attachment;
    ss_lua_origin origin = {.above = now->above, .status = LUA_ERRRUN};
    IUnknown *error;
    size_t length;
    const char *text;

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    error = error_of(L, ss_lua_state_open(L), 1, &origin);
    ss_lua_drop_recorded(attachment);
    attachment->last = error;
    attachment->last_thread = pthread_self();
    text = lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, &length) : NULL;
    if (text && (attachment->last_message = malloc(length + 1)) != NULL) {
        memcpy(attachment->last_message, text, length + 1);
        attachment->last_length = length;
    }
    return 0;
}

/* Whether the value at index 1 has the metatable of the hook. */
static bool is_hooked(lua_State *L, const ss_lua_attachment *attachment)
{
    bool same;

    if (!attachment->metatable || lua_type(L, 1) != LUA_TUSERDATA || !lua_getmetatable(L, 1))
        return false;
    same = lua_topointer(L, -1) == attachment->metatable;
    lua_pop(L, 1);
    return same;
}

void ss_lua_record(lua_State *L, ss_lua_attachment *attachment, const void *above)
{
    wanted now = {.attachment = attachment, .above = above};

    if (is_hooked(L, attachment)) {
        attachment->hooks.raised(attachment->hooks.data, lua_touserdata(L, 1), above);
        return;
    }
    ss_lua_note_raise(L, above);
    (void)ss_lua_call_protected(L, record_protected, &now);
}

static bool matches(const ss_lua_attachment *attachment, const char *text, size_t length)
{
    if (!attachment->last || !pthread_equal(attachment->last_thread, pthread_self()))
        return false;
    return !text || !attachment->last_message ||
           (length >= attachment->last_length &&
            memcmp(text, attachment->last_message, attachment->last_length) == 0);
}

IUnknown *ss_lua_take_recorded(ss_lua_attachment *attachment, const char *text, size_t length)
{
    IUnknown *error = attachment->last;

    if (!matches(attachment, text, length))
        return NULL;
    attachment->last = NULL;
    ss_lua_drop_recorded(attachment);
    return error;
}

/* ---- Coroutines that failed ------------------------------------------------------------------*/

/*
 * Push the coroutines in the registry that failed, as far as they were not seen before, and count
 * them as seen.  Returns their number, but pushes only the last. [-0, +1, m]
 */
static int push_unseen(lua_State *L)
{
    int count = 0, found, seen;

    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &seen_key) != LUA_TTABLE) {
        lua_pop(L, 1);
        ss_lua_push_weak_table(L, "k");
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &seen_key);
    }
    seen = lua_gettop(L);
    lua_pushnil(L);
    found = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, LUA_REGISTRYINDEX)) {
        lua_State *thread = lua_tothread(L, -1);

        if (thread && lua_status(thread) > LUA_YIELD) {
            lua_pushvalue(L, -1);
            if (lua_rawget(L, seen) == LUA_TNIL) {
                lua_pushvalue(L, -2);
                lua_replace(L, found);
                lua_pushvalue(L, -2);
                lua_pushboolean(L, 1);
                lua_rawset(L, seen);
                count++;
            }
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
    lua_remove(L, seen);
    return count;
}

void ss_lua_see_failed(lua_State *L)
{
    (void)push_unseen(L);
    lua_pop(L, 1);
}

/* Arguments: nil, what is wanted. */
static int find_protected(lua_State *L)
{
    wanted *now = lua_touserdata(L, 2);
    ss_lua_state *state = ss_lua_state_open(L);
    ss_lua_origin origin = {.above = now->above, .unwound = true};

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    if (push_unseen(L) != 1)
        return 0;
    origin.dead = lua_tothread(L, -1);
    origin.status = lua_status(origin.dead);
    lua_pushlstring(L, now->text ? now->text : "", now->text ? now->length : 0);
    ss_lua_forget_equal(L, state, -1);
    now->found = error_of(L, state, -1, &origin);
    return 0;
}

IUnknown *ss_lua_find_failed(ss_lua_attachment *attachment, const char *text, size_t length,
                             const void *above)
{
    wanted now = {.attachment = attachment, .above = above, .text = text, .length = length};
    lua_State *L = attachment->main;

    if (!L || lua_status(L) != LUA_OK || !lua_checkstack(L, LUA_MINSTACK))
        return NULL;
    lua_pushnil(L);
    (void)ss_lua_call_protected(L, find_protected, &now);
    lua_pop(L, 1);
    return now.found;
}
