/* The message handler: remembers a raise at the raise, and never gets in its way. */
#include "binding.h"

/* What the protected part needs to know. */
typedef struct raise_note {
    const void *above;
} raise_note;

/*
 * A value without identity that stacksplice_lua_raise is raising right now has its ties already.
 * The function that called it is the handler's caller, two levels out from here.
 */
static bool is_being_raised(lua_State *L, ss_lua_state *state)
{
    ss_lua_raising raising = state->raising;
    lua_Debug activation;
    bool same;

    state->raising = (ss_lua_raising){NULL, NULL, NULL};
    if (raising.L != L || !lua_getstack(L, 2, &activation) ||
        (const void *)activation.i_ci != raising.ci)
        return false;
    lua_getinfo(L, "f", &activation);
    same = lua_topointer(L, -1) == raising.function;
    lua_pop(L, 1);
    return same && ss_lua_ties_find(L, state, 1) == &state->last;
}

/* Arguments: the value, the note. */
static int note_raise(lua_State *L)
{
    const raise_note *now = lua_touserdata(L, 2);
    ss_lua_origin origin = {.above = now->above, .status = LUA_ERRRUN};
    ss_lua_state *state = ss_lua_state_open(L);

    if (state->handling)
        return 0;
    state->handling++;
#if LUA_VERSION_NUM >= 505
    /* Behind its handler Lua makes this text of an error that is nil: nobody will ever see a nil. */
    if (lua_isnil(L, 1)) {
        lua_pushliteral(L, "<no error object>");
        lua_replace(L, 1);
    }
#endif
    ss_lua_state_drain(L, state);
    if (ss_lua_to_error(L, 1) || is_being_raised(L, state))
        return 0;
    /* An equal string was another error: only what can be told apart is found again. */
    if (ss_lua_ties_find(L, state, 1) == &state->last)
        ss_lua_forget_last(state);
    (void)ss_lua_ties_make(L, state, 1, &origin);
    ss_lua_plant_sentinel(L, state); /* for the next one: this error is remembered by now */
    return 0;
}

void ss_lua_note_raise(lua_State *L, const void *above)
{
    raise_note now = {above};
    ss_lua_state *state = ss_lua_state_find(L);
    int handling = state ? state->handling : 0;

    if (handling)
        return;
    lua_pushcfunction(L, note_raise);
    lua_pushvalue(L, -2);
    lua_pushlightuserdata(L, &now);
    /* Out of memory or of stack: the value must get through, if need be without its stack. */
    if (lua_pcall(L, 2, 0, 0) != LUA_OK)
        lua_pop(L, 1);
    state = ss_lua_state_find(L);
    if (state)
        state->handling = handling;
}

SS_LUA_NOINLINE int stacksplice_lua_handler(lua_State *L)
{
    lua_settop(L, 1);
    ss_lua_note_raise(L, SS_LUA_HERE());
    return 1;
}
