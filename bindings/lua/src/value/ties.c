/*
 * Ties of error values to their errors.  Tables, userdata, functions and threads have an identity:
 * their ties are in a table with weak keys.  Equal values of other types cannot be distinguished,
 * so the state remembers only the last one.
 */
#include "value/value.h"

bool ss_lua_has_identity(lua_State *L, int index)
{
    switch (lua_type(L, index)) {
    case LUA_TTABLE:
    case LUA_TUSERDATA:
    case LUA_TFUNCTION:
    case LUA_TTHREAD:
        return true;
    default:
        return false;
    }
}

/* ---- The last value without identity ---------------------------------------------------------*/

void ss_lua_set_last(ss_lua_state *state, stacksplice_exception *x, IScriptErrorInfo *error)
{
    IUnknown *unknown = stacksplice_exception_unknown(x);

    unknown->lpVtbl->AddRef(unknown);
    ss_lua_forget_last(state);
    stacksplice_ties_set_exception(&state->last, x);
    if (error)
        stacksplice_ties_set_error(&state->last, error, 0);
    state->last_raised = true;
}

/* Whether both are the very same value; NaN counts as equal to itself. */
static bool is_same(lua_State *L, int a, int b)
{
    return lua_rawequal(L, a, b) || (lua_type(L, a) == LUA_TNUMBER && !lua_rawequal(L, a, a) &&
                                     lua_type(L, b) == LUA_TNUMBER && !lua_rawequal(L, b, b));
}

static bool is_last(lua_State *L, const ss_lua_state *state, int index)
{
    bool same;

    if (!state->last.exception || !ss_lua_push_value(L, state->last.exception))
        return false;
    same = is_same(L, -1, index);
    lua_pop(L, 1);
    return same;
}

void ss_lua_forget_equal(lua_State *L, ss_lua_state *state, int index)
{
    if (!ss_lua_has_identity(L, index) && is_last(L, state, index))
        ss_lua_forget_last(state);
}

void ss_lua_forget_originated(lua_State *L, ss_lua_state *state, int index)
{
    if (!state->last_raised)
        ss_lua_forget_equal(L, state, index);
}

/* ---- Ties ------------------------------------------------------------------------------------*/

void ss_lua_push_tied(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    ss_lua_push_table(L, SS_LUA_TIED);
    lua_pushvalue(L, index);
    (void)lua_rawget(L, -2);
    lua_remove(L, -2);
}

/* A finalizer of the value may run after that of its hold: then it has no ties any more. */
stacksplice_ties *ss_lua_ties_find(lua_State *L, ss_lua_state *state, int index)
{
    ss_lua_hold *const *hold = luaL_testudata(L, index, SS_LUA_ERROR_NAME);

    if (hold)
        return *hold && (*hold)->ties.error ? &(*hold)->ties : NULL;
    if (!ss_lua_has_identity(L, index))
        return is_last(L, state, index) ? &state->last : NULL;
    ss_lua_push_tied(L, index);
    hold = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return hold && *hold && (*hold)->ties.exception ? &(*hold)->ties : NULL;
}

IUnknown *ss_lua_to_error(lua_State *L, int index)
{
    ss_lua_hold *const *hold = luaL_testudata(L, index, SS_LUA_ERROR_NAME);

    return hold && *hold ? (IUnknown *)(*hold)->ties.error : NULL;
}

/* luaL_testudata could make a string, for which there may be no memory. */
ss_lua_hold *ss_lua_foreign_hold(lua_State *L)
{
    ss_lua_hold *const *object = lua_touserdata(L, -1), *hold = NULL;

    if (lua_type(L, -1) != LUA_TUSERDATA)
        return NULL;
    ss_lua_push_table(L, SS_LUA_HOLDERS);
    lua_pushvalue(L, -2);
    if (lua_rawget(L, -2) == LUA_TBOOLEAN)
        hold = *object;
    lua_pop(L, 2);
    return hold && hold->ties.error && !hold->ties.exception ? hold : NULL;
}

stacksplice_ties *ss_lua_tie(lua_State *L, ss_lua_state *state, int index)
{
    static const luaL_Reg functions[] = {{"__gc", ss_lua_collect_hold}, {NULL, NULL}};
    static const ss_lua_hold_kind kind = {"stacksplice.ties", functions, SS_LUA_CAUSE};
    stacksplice_ties *ties = &ss_lua_push_hold(L, state, &kind)->ties;

    ss_lua_push_table(L, SS_LUA_TIED);
    lua_pushvalue(L, index);
    lua_pushvalue(L, -3);
    lua_rawset(L, -3);
    lua_pop(L, 2);
    return ties;
}

void ss_lua_untie(lua_State *L, int index)
{
    ss_lua_push_table(L, SS_LUA_TIED);
    lua_pushvalue(L, index);
    lua_pushnil(L);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

/* ---- Pins -------------------------------------------------------------------------------------*/

void ss_lua_pin_alone(lua_State *L, stacksplice_exception *x, int index)
{
    if (stacksplice_exception_value(x))
        return;
    index = lua_absindex(L, index);
    if (!lua_isnil(L, index)) { /* nil as a value means that there is none */
        ss_lua_push_table(L, SS_LUA_PINS);
        lua_pushvalue(L, index);
        lua_rawsetp(L, -2, x);
        lua_pop(L, 1);
    }
    (void)stacksplice_exception_keep(x, x);
}

/* Pin the value that the value at the top (perhaps an error object) with TIES was born from, then
   replace it by the error object of its cause, or nil. */
static void pin_next(lua_State *L, const stacksplice_ties *ties)
{
    if (ss_lua_to_error(L, -1)) {
        lua_getiuservalue(L, -1, SS_LUA_VALUE);
        ss_lua_pin_alone(L, ties->exception, -1);
        lua_pop(L, 1);
    } else {
        ss_lua_pin_alone(L, ties->exception, -1);
        /* The last value's exception is held from outside, as is its cause. */
        if (ss_lua_has_identity(L, -1))
            ss_lua_push_tied(L, -1);
        else
            lua_pushnil(L);
        lua_remove(L, -2);
    }
    if (stacksplice_exception_related(ties->exception, 0) && !lua_isnil(L, -1))
        lua_getiuservalue(L, -1, SS_LUA_CAUSE);
    else
        lua_pushnil(L);
    lua_remove(L, -2);
}

void ss_lua_pin(lua_State *L, ss_lua_state *state, int index, const stacksplice_ties *ties)
{
    lua_pushvalue(L, index);
    while (ties && ties->exception && !stacksplice_exception_is_held(ties->exception)) {
        pin_next(L, ties);
        ties = lua_isnil(L, -1) ? NULL : ss_lua_ties_find(L, state, -1);
    }
    lua_pop(L, 1);
}

bool ss_lua_push_value(lua_State *L, const stacksplice_exception *x)
{
    if (!stacksplice_exception_value(x))
        return false;
    ss_lua_push_table(L, SS_LUA_PINS);
    lua_rawgetp(L, -1, x);
    lua_remove(L, -2);
    return true;
}

/* ---- Guests -----------------------------------------------------------------------------------*/

/*
 * Guests: userdata of another bridge, by their metatable.  Their metamethods run its code,
 * which may keep an error of its own meanwhile, so we read nothing of them.
 */

/* In the registry: the metatable, as a light userdata. */
static const char guest_key;

void ss_lua_set_guests(lua_State *L, const void *metatable)
{
    if (metatable)
        lua_pushlightuserdata(L, (void *)metatable);
    else
        lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &guest_key);
}

bool ss_lua_is_guest(lua_State *L, int index)
{
    bool guest;

    if (lua_type(L, index) != LUA_TUSERDATA || !lua_getmetatable(L, index))
        return false;
    (void)lua_rawgetp(L, LUA_REGISTRYINDEX, &guest_key);
    guest = lua_touserdata(L, -1) == lua_topointer(L, -2);
    lua_pop(L, 2);
    return guest;
}

/* ---- Errors of the core -----------------------------------------------------------------------*/

/* Reading an error of the core; nothing here can raise. */

IUnknown *ss_lua_error_exception(IUnknown *error)
{
    ILanguageExceptionErrorInfo2 *info = ss_lua_query(error, &IID_ILanguageExceptionErrorInfo2);
    IUnknown *exception = NULL;

    if (!info)
        return NULL;
    (void)info->lpVtbl->GetLanguageException(info, &exception);
    ss_lua_release(info);
    return exception;
}

HRESULT ss_lua_error_hresult(IUnknown *error)
{
    HRESULT hr = E_FAIL;

    (void)stacksplice_error_hresult(error, &hr);
    return hr;
}
