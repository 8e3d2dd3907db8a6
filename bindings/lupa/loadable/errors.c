/* The errors of an attached state that nobody in Lua catches with a handler of ours. */
#include "attachment.h"

#include <stdlib.h>
#include <string.h>

/* The arguments of the protected parts. */
typedef struct wanted {
    ss_lua_attachment *attachment;
    const void *above;
    lua_State *coroutine; /* that failed; NULL: a chunk is wrong */
    const char *text, *line;
    size_t length;
    IUnknown *found;
} wanted;

/* The error of the value at INDEX with an outside reference, or NULL. [-0, +0, m] */
static IUnknown *error_of(lua_State *L, ss_lua_state *state, int index, const ss_lua_origin *origin)
{
    IUnknown *error;

    ss_lua_push_error_of(L, state, index, origin);
    error = ss_lua_to_error(L, -1);
    if (error) { /* else origination is switched off */
        ss_lua_pin(L, -1, ss_lua_ties_find(L, -1));
        error->lpVtbl->AddRef(error);
    }
    lua_pop(L, 1);
    return error;
}

/* ---- Recording -------------------------------------------------------------------------------*/

/* Arguments: the value, what is wanted. */
static SS_LUA_BODY int record_protected(lua_State *L)
{
    const wanted *now = lua_touserdata(L, 2);
    const ss_lua_attachment *attachment = now->attachment;
    ss_lua_origin origin = {.which = SS_LUA_LANDED, .above = now->above, .status = LUA_ERRRUN};
    IUnknown *error;

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    error = error_of(L, ss_lua_state_open(L), 1, &origin);
    if (error)
        attachment->hooks.recorded(attachment->hooks.data, error);
    ss_lua_release(error);
    return 0;
}

/* Arguments: the value, nothing. */
static SS_LUA_BODY int tend(lua_State *L)
{
    ss_lua_plant_gc_canary(L, ss_lua_state_open(L));
    return 0;
}

/* Whether the function at LEVEL, which raises, is error or assert. [-0, +0, -], a slot */
static bool raises_again(lua_State *L, const ss_lua_attachment *attachment, int level)
{
    lua_Debug raiser;
    const void *function;

    if (!lua_getstack(L, level, &raiser) || !lua_getinfo(L, "f", &raiser))
        return false;
    function = lua_topointer(L, -1);
    lua_pop(L, 1);
    return function && (function == attachment->raisers[0] || function == attachment->raisers[1]);
}

void ss_lua_tell_caught(void *data, lua_State *L, int level, const void *above)
{
    const ss_lua_attachment *attachment = data;

    attachment->hooks.caught(attachment->hooks.data, lua_touserdata(L, 1), above,
                             raises_again(L, attachment, level));
}

IUnknown *ss_lua_find_in(void *data, lua_State *L, int index, const char *text, size_t length,
                         const void *above)
{
    const ss_lua_attachment *attachment = data;

    return attachment->hooks.find_in(attachment->hooks.data, lua_touserdata(L, index), text, length,
                                     above);
}

/* A coroutine that the value at index 1 failed in has tied its stack to it (cross/call.c).  A
   bridge uses one value for one exception, which may come out of a further coroutine next. */
static void tell_raised(lua_State *L, const ss_lua_attachment *attachment, const void *above)
{
    ss_lua_state *state = ss_lua_state_find(L);
    const stacksplice_ties *ties;
    uintptr_t *frames = NULL;
    uint32_t count = 0;

    /* Without a GC canary each capture would look for the names of all functions. */
    if (state && state->wants_tending)
        (void)ss_lua_call_protected(L, tend, NULL);
    ties = state ? ss_lua_ties_find(L, 1) : NULL;
    if (ties && ties->exception) {
        frames = ss_lua_copy_stack(ties->exception, &count);
        ss_lua_untie(L, 1);
    }
    attachment->hooks.raised(attachment->hooks.data, lua_touserdata(L, 1), above, frames, count,
                             raises_again(L, attachment, 1));
    free(frames);
}

void ss_lua_record(lua_State *L, ss_lua_attachment *attachment, const void *above)
{
    wanted now = {.attachment = attachment, .above = above};

    /* Whatever happens now, the former one is another error. */
    attachment->hooks.recorded(attachment->hooks.data, NULL);
    if (ss_lua_is_guest(L, 1)) {
        tell_raised(L, attachment, above);
        return;
    }
    ss_lua_note_raise(L, above);
    (void)ss_lua_call_protected(L, record_protected, &now);
}

/* ---- Coroutines that failed ------------------------------------------------------------------*/

bool ss_lua_owns(const ss_lua_attachment *attachment, void *coroutine)
{
    return attachment->main && coroutine &&
           lua_topointer(coroutine, LUA_REGISTRYINDEX) ==
               lua_topointer(attachment->main, LUA_REGISTRYINDEX);
}

/* Push onto L what failed: the value that a dead coroutine has, where the bridge made no text of it. */
static void push_failed(lua_State *L, const wanted *now)
{
    lua_State *co = now->coroutine;
    bool is_text = !co || now->length || lua_gettop(co) == 0 || lua_isstring(co, -1) ||
                   lua_isnil(co, -1) || ss_lua_is_guest(co, -1) || !lua_checkstack(co, 1);

    if (is_text) {
        lua_pushlstring(L, now->text, now->length);
    } else {
        lua_pushvalue(co, -1);
        lua_xmove(co, L, 1);
    }
}

/* Arguments: nil, what is wanted. */
static SS_LUA_BODY int find_protected(lua_State *L)
{
    wanted *now = lua_touserdata(L, 2);
    ss_lua_state *state = ss_lua_state_open(L);
    ss_lua_origin origin = {.above = now->above,
                            .status = now->coroutine ? lua_status(now->coroutine) : LUA_ERRSYNTAX,
                            .unwound = now->coroutine != NULL,
                            .dead = now->coroutine,
                            .line = now->line};

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    ss_lua_state_tend(L, state);
    push_failed(L, now);
    now->found = error_of(L, state, -1, &origin);
    return 0;
}

static IUnknown *find(lua_State *L, wanted *now)
{
    lua_pushnil(L);
    (void)ss_lua_call_protected(L, find_protected, now);
    lua_pop(L, 1);
    return now->found;
}

/* Whether the coroutine failed some time before it was resumed with this result: it still has the
   value that it failed with. */
static bool was_dead(lua_State *co, const char *text, size_t length)
{
#if SS_LUA_LIBRARY_REFUSES /* where that replaces the value */
    static const char refused[] = "cannot resume non-suspended coroutine";

    (void)co;
    return length == sizeof refused - 1 && !memcmp(text, refused, length);
#else
    static const char refused[] = "cannot resume dead coroutine";
    size_t own_length = 0;
    const char *own = lua_type(co, -1) == LUA_TSTRING ? lua_tolstring(co, -1, &own_length) : NULL;

    return length == sizeof refused - 1 && !memcmp(text, refused, length) &&
           (own_length != length || memcmp(own, text, length) != 0);
#endif
}

IUnknown *ss_lua_find_failed(ss_lua_attachment *attachment, void *coroutine, const char *text,
                             size_t length, const void *above, void **block)
{
    wanted now = {.attachment = attachment,
                  .above = above,
                  .coroutine = coroutine,
                  .text = text,
                  .length = length};
    lua_State *L = attachment->main;

    *block = NULL;
    if (!ss_lua_owns(attachment, coroutine) || lua_status(now.coroutine) <= LUA_YIELD ||
        lua_status(L) != LUA_OK || !lua_checkstack(L, LUA_MINSTACK) ||
        !lua_checkstack(coroutine, 2) || was_dead(coroutine, text, length))
        return NULL;
    if (ss_lua_is_guest(coroutine, -1))
        *block = lua_touserdata(coroutine, -1);
    return find(L, &now);
}

IUnknown *ss_lua_find_syntax(ss_lua_attachment *attachment, const char *text, size_t length,
                             const char *line, const void *above)
{
    wanted now = {
        .attachment = attachment, .above = above, .text = text, .length = length, .line = line};
    lua_State *L = attachment->main;

    return L && lua_status(L) == LUA_OK && lua_checkstack(L, LUA_MINSTACK) ? find(L, &now) : NULL;
}
