/* Error values that a host holds: as the thread's error, or as a language exception. */
#include "cross/cross.h"

/* lua_isnone checks only indices above the top: it reads 0 and those below the stack unchecked. */
static bool has_value(lua_State *L, int index)
{
    if (index <= 0 && index > LUA_REGISTRYINDEX)
        return index < 0 && -index <= lua_gettop(L);
    return !lua_isnone(L, index);
}

static HRESULT originate_at(lua_State *L, int index, int status, const void *above)
{
    ss_lua_job now = {.origin = {.above = above, .status = status, .unwound = true},
                      .hr = E_UNEXPECTED};
    HRESULT hr;

    if (!has_value(L, index))
        return ss_lua_invalid("no value at this index");
    lua_pushvalue(L, index);
    hr = ss_lua_originate_top(L, &now);
    lua_pop(L, 1);
    return hr;
}

SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_originate(lua_State *L, int index)
{
    return originate_at(L, index, LUA_ERRRUN, SS_LUA_HERE());
}

SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_originate_status(lua_State *L, int index,
                                                                     int status)
{
    return originate_at(L, index, status, SS_LUA_HERE());
}

/* Arguments: the error value, the job. */
static int exception_protected(lua_State *L)
{
    ss_lua_job *now = lua_touserdata(L, 2);
    ss_lua_state *state = ss_lua_state_open(L);
    const stacksplice_ties *ties;

    ss_lua_state_tend(L, state);
    ties = ss_lua_ties_ready(L, state, 1, &now->origin);
    if (ties->exception) {
        now->exception = stacksplice_exception_unknown(ties->exception);
        now->exception->lpVtbl->AddRef(now->exception);
    } else {
        now->exception = ss_lua_error_exception((IUnknown *)ties->error);
    }
    now->hr = now->exception ? S_OK : S_FALSE;
    return 0;
}

SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_exception(lua_State *L, int index,
                                                              IUnknown **out)
{
    ss_lua_job now = {.origin = {.above = SS_LUA_HERE(), .status = LUA_ERRRUN, .unwound = true},
                      .hr = E_UNEXPECTED};
    HRESULT hr;

    if (!out)
        return E_POINTER;
    if (!has_value(L, index))
        return E_INVALIDARG;
    *out = NULL;
    lua_pushvalue(L, index);
    hr = ss_lua_call_protected(L, exception_protected, &now) ? now.hr : E_OUTOFMEMORY;
    lua_pop(L, 1);
    *out = now.exception;
    return hr;
}

int stacksplice_lua_push(lua_State *L, IUnknown *language_exception)
{
    ss_lua_state *state;
    stacksplice_exception *x;

    if (!language_exception || !lua_checkstack(L, 4))
        return 0;
    state = ss_lua_state_find(L);
    x = state ? stacksplice_exception_from(language_exception, ss_lua_owner(state)) : NULL;
    return x && ss_lua_push_value(L, x);
}
