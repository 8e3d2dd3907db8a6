/* The errors of an attached state that nobody in Lua catches with a handler of ours. */
#include "attachment.h"

#include <stdlib.h>
#include <string.h>

/* The arguments of the protected parts. */
typedef struct wanted {
    ss_lua_attachment *attachment;
    const void *above;
    lua_State *coroutine;
    const char *text;
    size_t length;
    IUnknown *found;
} wanted;

static void free_recorded(ss_lua_recorded *recorded)
{
    if (recorded)
        ss_lua_release(recorded->error);
    free(recorded);
}

void ss_lua_drop_recorded(ss_lua_attachment *attachment)
{
    free_recorded(atomic_exchange(&attachment->last, NULL));
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

/* ERROR, which is consumed, with the value at index 1 if that is a string; NULL without memory. */
static ss_lua_recorded *new_recorded(lua_State *L, IUnknown *error)
{
    size_t length = 0;
    const char *text = lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, &length) : NULL;
    ss_lua_recorded *recorded = malloc(sizeof *recorded + length);

    if (!recorded) {
        ss_lua_release(error);
        return NULL;
    }
    recorded->error = error;
    recorded->thread = pthread_self();
    recorded->length = text ? length : SIZE_MAX;
    if (text)
        memcpy(recorded->message, text, length);
    return recorded;
}

/* Arguments: the value, what is wanted. */
static int record_protected(lua_State *L)
{
    const wanted *now = lua_touserdata(L, 2);
    ss_lua_attachment *attachment = now->attachment;
    ss_lua_origin origin = {.above = now->above, .status = LUA_ERRRUN};
    IUnknown *error;

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    error = error_of(L, ss_lua_state_open(L), 1, &origin);
    ss_lua_drop_recorded(attachment);
    if (!error)
        return 0;
    atomic_store(&attachment->last_thread, pthread_self());
    free_recorded(atomic_exchange(&attachment->last, new_recorded(L, error)));
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

/* The stack of X; NULL without one, or without memory. */
static uintptr_t *copy_stack(stacksplice_exception *x, ULONG *count)
{
    IUnknown *unknown = stacksplice_exception_unknown(x);
    ILanguageExceptionStackBackTrace *stack =
        ss_lua_query(unknown, &IID_ILanguageExceptionStackBackTrace);
    uintptr_t *frames = NULL;

    *count = stacksplice_max_frames();
    if (stack)
        frames = malloc(*count * sizeof *frames);
    if (!frames || FAILED(stack->lpVtbl->GetStackBackTrace(stack, *count, frames, count)))
        *count = 0;
    ss_lua_release(stack);
    return frames;
}

/* A coroutine that the value at index 1 failed in has tied its stack to it (cross/coroutine.c). */
static void tell_raised(lua_State *L, const ss_lua_attachment *attachment, const void *above)
{
    ss_lua_state *state = ss_lua_state_find(L);
    const stacksplice_ties *ties = state ? ss_lua_ties_find(L, state, 1) : NULL;
    uintptr_t *frames = NULL;
    ULONG count = 0;

    if (ties && ties->exception)
        frames = copy_stack(ties->exception, &count);
    attachment->hooks.raised(attachment->hooks.data, lua_touserdata(L, 1), above, frames,
                             (uint32_t)count);
    free(frames);
}

void ss_lua_record(lua_State *L, ss_lua_attachment *attachment, const void *above)
{
    wanted now = {.attachment = attachment, .above = above};

    if (is_hooked(L, attachment)) {
        tell_raised(L, attachment, above);
        return;
    }
    ss_lua_note_raise(L, above);
    (void)ss_lua_call_protected(L, record_protected, &now);
}

static bool matches(const ss_lua_recorded *recorded, const char *text, size_t length)
{
    if (!pthread_equal(recorded->thread, pthread_self()))
        return false;
    return !text || recorded->length == SIZE_MAX ||
           (length >= recorded->length && memcmp(text, recorded->message, recorded->length) == 0);
}

/* Another thread may run the state and record an error at the same time. */
IUnknown *ss_lua_take_recorded(ss_lua_attachment *attachment, const char *text, size_t length)
{
    ss_lua_recorded *recorded, *none = NULL;
    IUnknown *error;

    if (!pthread_equal(atomic_load(&attachment->last_thread), pthread_self()))
        return NULL;
    recorded = atomic_exchange(&attachment->last, NULL);
    if (!recorded)
        return NULL;
    if (!matches(recorded, text, length)) {
        if (!atomic_compare_exchange_strong(&attachment->last, &none, recorded))
            free_recorded(recorded);
        return NULL;
    }
    error = recorded->error;
    free(recorded);
    return error;
}

/* ---- Coroutines that failed ------------------------------------------------------------------*/

bool ss_lua_owns(const ss_lua_attachment *attachment, void *coroutine)
{
    return attachment->main && coroutine &&
           lua_topointer(coroutine, LUA_REGISTRYINDEX) ==
               lua_topointer(attachment->main, LUA_REGISTRYINDEX);
}

/* Arguments: nil, what is wanted. */
static int find_protected(lua_State *L)
{
    wanted *now = lua_touserdata(L, 2);
    ss_lua_state *state = ss_lua_state_open(L);
    ss_lua_origin origin = {.above = now->above, .unwound = true};

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    origin.dead = now->coroutine;
    origin.status = lua_status(origin.dead);
    lua_pushlstring(L, now->text ? now->text : "", now->text ? now->length : 0);
    ss_lua_forget_equal(L, state, -1);
    now->found = error_of(L, state, -1, &origin);
    return 0;
}

IUnknown *ss_lua_find_failed(ss_lua_attachment *attachment, void *coroutine, const char *text,
                             size_t length, const void *above)
{
    wanted now = {.attachment = attachment,
                  .above = above,
                  .coroutine = coroutine,
                  .text = text,
                  .length = length};
    lua_State *L = attachment->main;

    if (!ss_lua_owns(attachment, coroutine) || lua_status(now.coroutine) <= LUA_YIELD ||
        lua_status(L) != LUA_OK || !lua_checkstack(L, LUA_MINSTACK))
        return NULL;
    lua_pushnil(L);
    (void)ss_lua_call_protected(L, find_protected, &now);
    lua_pop(L, 1);
    return now.found;
}
