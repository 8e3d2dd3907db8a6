/* The message handler: records the error at the raise, and never prevents the raise. */
#include "cross/cross.h"

#include <string.h>

/* The arguments of the protected part. */
typedef struct raise_note {
    const void *above;
    ss_lua_state *state; /* NULL if it was not open yet */
} raise_note;

bool ss_lua_is_raising(lua_State *L, lua_State *thread, const ss_lua_state *state, int level)
{
    lua_Debug activation;
    bool same;

    if (state->raising.L != thread || !lua_getstack(thread, level, &activation) ||
        (const void *)activation.i_ci != state->raising.ci || !lua_checkstack(L, 1))
        return false;
    lua_getinfo(L, "f", &activation);
    same = lua_topointer(L, -1) == state->raising.function;
    lua_pop(L, 1);
    return same;
}

bool ss_lua_take_raising(lua_State *L, ss_lua_state *state, int level)
{
    bool raising = ss_lua_is_raising(L, L, state, level);

    state->raising = (ss_lua_raising){NULL, NULL, NULL};
    return raising;
}

/*
 * A value without identity that stacksplice_lua_raise is raising right now already has its ties.
 * The function that called stacksplice_lua_raise is the handler's caller, two levels out from here.
 */
static bool is_being_raised(lua_State *L, ss_lua_state *state)
{
    return ss_lua_take_raising(L, state, 2) && ss_lua_ties_find(L, state, 1) == &state->last;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = text ? strlen(text) : 0, wanted = strlen(end);

    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

/* Whether the coroutine failed and was closed since: nothing runs in it, and it has no frames
   left. */
static bool is_closed(lua_State *thread)
{
    lua_Debug activation;

    return lua_status(thread) == LUA_OK && lua_gettop(thread) == 0 &&
           !lua_getstack(thread, 0, &activation);
}

/* The coroutine of a function that coroutine.wrap made, at LEVEL of THREAD; or NULL.  Such a
   function is a C closure over nothing else. [-0, +0, -], 3 slots in L */
static lua_State *wrapped_at(lua_State *L, lua_State *thread, int level)
{
    lua_State *wrapped = NULL;
    lua_Debug activation;
    int top = lua_gettop(L);

    if (!lua_getstack(thread, level, &activation))
        return NULL;
    lua_getinfo(L, "f", &activation);
    if (lua_iscfunction(L, -1) && lua_getupvalue(L, -1, 1) && !lua_getupvalue(L, -2, 2))
        wrapped = lua_tothread(L, -1);
    lua_settop(L, top);
    return wrapped;
}

/*
 * Whether a function that coroutine.wrap made raised the error at index 1 again.  Since Lua 5.4
 * that function closes its coroutine first.  Its frames are gone then, unless the error is that
 * there was nothing to resume.  In Lua 5.3 they still exist: *DEAD is the coroutine, if the error
 * was born in it.
 */
static bool comes_from_wrap(lua_State *L, lua_State **dead)
{
    static const char nothing[] = "cannot resume dead coroutine";
    lua_State *wrapped = wrapped_at(L, L, 2);

    if (!wrapped || (lua_type(L, 1) == LUA_TSTRING && ends_with(lua_tostring(L, 1), nothing)))
        return false;
    if (is_closed(wrapped))
        return true;
    if (LUA_VERSION_NUM >= 504 || lua_status(wrapped) == LUA_OK || lua_status(wrapped) == LUA_YIELD)
        return false;
    if (!wrapped_at(L, wrapped, 0))
        *dead = wrapped;
    return true;
}

/* Arguments: the value, the note. */
static int note_raise(lua_State *L)
{
    const raise_note *now = lua_touserdata(L, 2);
    ss_lua_origin origin = {.above = now->above, .status = LUA_ERRRUN};
    ss_lua_state *state = now->state ? now->state : ss_lua_state_open(L);

    if (state->handling)
        return 0;
    state->handling++;
#if LUA_VERSION_NUM >= 505
    /* After the handler Lua replaces a nil error by this text, so the text is the error. */
    if (lua_isnil(L, 1)) {
        lua_pushliteral(L, "<no error object>");
        lua_replace(L, 1);
    }
#endif
    ss_lua_state_drain(L, state);
    if (ss_lua_to_error(L, 1) || is_being_raised(L, state) ||
        ss_lua_is_raised_again(L, state, 1, L, 2))
        return 0;
    /* An equal string was another error: values without an identity are not recognised by it. */
    ss_lua_forget_equal(L, state, 1);
    origin.unwound = comes_from_wrap(L, &origin.dead);
    (void)ss_lua_ties_make(L, state, 1, &origin);
    ss_lua_plant_gc_canary(L, state); /* for the next error: this one is recorded by now */
    return 0;
}

void ss_lua_note_raise(lua_State *L, const void *above)
{
    ss_lua_state *state = ss_lua_state_find(L);
    raise_note now = {above, state};
    int handling = state ? state->handling : 0;

    if (handling || (state && ss_lua_foreign_hold(L)))
        return; /* another language has recorded its error */
    /* Out of memory or of stack: let the value through, without its stack if necessary. */
    (void)ss_lua_call_protected(L, note_raise, &now);
    if (!state)
        state = ss_lua_state_find(L);
    if (state)
        state->handling = handling;
}

SS_LUA_OWN int stacksplice_lua_handler(lua_State *L)
{
    lua_settop(L, 1);
    ss_lua_note_raise(L, SS_LUA_HERE());
    return 1;
}
