/* The protected work of a border on an error value: Lua may run out of memory. */
#include "cross/cross.h"

#include <string.h>

/* Arguments: the error value, the job. */
static int originate_protected(lua_State *L)
{
    ss_lua_job *now = lua_touserdata(L, 2);
    ss_lua_state *state = ss_lua_state_open(L);

    ss_lua_state_tend(L, state);
    if (now->unseen)
        ss_lua_forget_equal(L, state, 1);
    else
        ss_lua_forget_originated(L, state, 1);
    now->hr = ss_lua_originate_value(L, state, 1, &now->origin);
    if (ss_lua_ties_find(L, state, 1) == &state->last)
        state->last_raised = false;
    return 0;
}

bool ss_lua_call_protected(lua_State *L, lua_CFunction body, void *data)
{
    lua_pushcfunction(L, body);
    lua_pushvalue(L, -2);
    lua_pushlightuserdata(L, data);
    if (lua_pcall(L, 2, 0, 0) == LUA_OK)
        return true;
    lua_pop(L, 1);
    return false;
}

/* Put the error back if the value at the top is one of another language; this allocates nothing. */
static bool put_back(lua_State *L, HRESULT *hr)
{
    ss_lua_state *state = ss_lua_state_find(L);
    ss_lua_hold *hold = state && ss_lua_state_is_tended(state) ? ss_lua_foreign_hold(L) : NULL;
    HRESULT result;

    if (!hold)
        return false;
    result = stacksplice_leave(&hold->ties, hr);
    if (FAILED(result))
        *hr = result;
    return true;
}

HRESULT ss_lua_originate_top(lua_State *L, ss_lua_job *now)
{
    if (put_back(L, &now->hr))
        return now->hr;
    if (ss_lua_call_protected(L, originate_protected, now))
        return now->hr;
    (void)stacksplice_originate(E_OUTOFMEMORY, NULL, 0, NULL, NULL);
    return E_OUTOFMEMORY;
}

/* ---- Interrupts ------------------------------------------------------------------------------*/

bool ss_lua_take_interrupt(lua_State *L, lua_State *called, const void *above, HRESULT *hr)
{
    ss_lua_state *state;
    ss_lua_job now = {.origin = {.above = above, .status = LUA_ERRRUN}, .hr = E_UNEXPECTED};

    /* Results may have filled the stack.  Without room the mark and its hooks stay. */
    if (!lua_checkstack(L, LUA_MINSTACK))
        return false;
    state = ss_lua_state_find(L);
    if (!state || !ss_lua_is_interrupted(called, state))
        return false;
    ss_lua_push_interrupt(L);
    if (!state->insists)
        ss_lua_interrupt_clear(L, state);
    *hr = ss_lua_originate_top(L, &now);
    lua_pop(L, 1);
    return true;
}

/* ---- Wrong arguments -------------------------------------------------------------------------*/

HRESULT ss_lua_invalid(const char *message)
{
    (void)stacksplice_originate(E_INVALIDARG, message, strlen(message), NULL, NULL);
    return E_INVALIDARG;
}

HRESULT ss_lua_invalid_count(void)
{
    return ss_lua_invalid("the function and its arguments are not on the stack");
}
