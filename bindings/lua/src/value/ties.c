/*
 * Ties of error values to their errors.  Tables, userdata, functions and threads have an identity:
 * their ties are in a table with weak keys.  Equal values of other types cannot be distinguished,
 * so the state remembers the last one, and on which way those go that are in flight.
 */
#include "value/value.h"

#include <string.h>

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

/* ---- Values without identity -----------------------------------------------------------------*/

void ss_lua_set_last(ss_lua_state *state, const stacksplice_ties *ties)
{
    stacksplice_ties kept;

    if (state->last.exception == ties->exception) {
        if (ties->error && !state->last.error)
            stacksplice_ties_set_error(&state->last, ties->error, 0);
        return;
    }
    ss_lua_keep(&kept, ties);
    ss_lua_let_go(state, &state->last);
    state->last = kept;
}

/* NaN is equal to itself here. */
bool ss_lua_is_one(lua_State *L, int a, int b)
{
    if (lua_type(L, a) == LUA_TSTRING && lua_type(L, b) == LUA_TSTRING)
        return lua_tostring(L, a) == lua_tostring(L, b);
    return lua_rawequal(L, a, b) || (lua_type(L, a) == LUA_TNUMBER && !lua_rawequal(L, a, a) &&
                                     lua_type(L, b) == LUA_TNUMBER && !lua_rawequal(L, b, b));
}

bool ss_lua_is_value_of(lua_State *L, const stacksplice_ties *ties, int index)
{
    bool same;

    index = lua_absindex(L, index);
    if (!ties->exception || !ss_lua_push_value(L, ties->exception))
        return false;
    same = ss_lua_is_one(L, -1, index);
    lua_pop(L, 1);
    return same;
}

/* ---- Flights ---------------------------------------------------------------------------------*/

/* Whether the call of FLIGHT has ended by now, where L's innermost protected call is at PLACE; 0: unknown.
   Who called one that is unknown asked at once, or never will. */
static bool has_ended(const ss_lua_flight *flight, uintptr_t place)
{
    return !flight->call.at || (place && flight->call.at >= place);
}

void ss_lua_begin_flight(ss_lua_state *state, lua_State *L, ss_lua_call_place call)
{
    stacksplice_ties kept;

    ss_lua_keep(&kept, &state->last);
    for (uint32_t i = state->flight_count; i > 0; i--)
        if (state->flights[i - 1].L == L && has_ended(&state->flights[i - 1], call.at))
            ss_lua_forget_flight(state, i - 1);
    if (state->flight_count == SS_LUA_AT_ONCE)
        ss_lua_forget_flight(state, 0);
    state->flights[state->flight_count++] = (ss_lua_flight){L, call, kept};
}

/* Forget the flight with that NUMBER, and those to the same call: each took the place of the one before.
   Those of its coroutine that began later were seen by handlers of calls inside, and nobody asked for
   them. */
static void end_flight(ss_lua_state *state, uint32_t number)
{
    const lua_State *L = state->flights[number].L;
    uintptr_t call = state->flights[number].call.at;

    for (uint32_t i = state->flight_count; i > 0; i--) {
        const ss_lua_flight *flight = &state->flights[i - 1];

        if (flight->L == L && (i > number || (call && flight->call.at == call)))
            ss_lua_forget_flight(state, i - 1);
    }
}

/* Whether a call at PLACE has left its error at VALUE, both in the running function. */
static bool may_have_left(lua_State *L, uintptr_t place, uintptr_t value)
{
    uintptr_t first = ss_lua_place_of(L, 1).at, above = (place - first) / SSI_LUA_VALUE;

    if (SS_LUA_JIT) /* the handler below the function may be gone */
        return value == place || value + SSI_JIT_SLOT == place;
    return place == value || (place >= first && above < (uintptr_t)lua_gettop(L) &&
                              lua_isfunction(L, (int)above + 1));
}

void ss_lua_find_call(lua_State *L, const ss_lua_state *state, int index, ss_lua_origin *origin)
{
    ss_lua_call_place value = ss_lua_place_of(L, index);

    for (uint32_t i = value.at ? state->flight_count : 0; i > 0; i--) {
        const ss_lua_flight *flight = &state->flights[i - 1];

        if (flight->L == L && flight->call.at && flight->call.caller == value.caller &&
            may_have_left(L, flight->call.at, value.at)) {
            origin->call = flight->call.at;
            return;
        }
    }
    origin->which = SS_LUA_NEW;
}

/* Whether a message handler saw the value at INDEX on its way to the call that failed in L, which ORIGIN
   tells.  Then it is the last value again. */
static bool is_flight(lua_State *L, ss_lua_state *state, int index, const ss_lua_origin *origin)
{
    for (uint32_t i = state->flight_count; i > 0; i--) {
        const ss_lua_flight *flight = &state->flights[i - 1];
        bool of_call = origin->call && flight->call.at == origin->call, same;

        if (flight->L != L || (origin->call && !of_call))
            continue;
        same = ss_lua_is_value_of(L, &flight->ties, index);
        if (same)
            ss_lua_set_last(state, &flight->ties);
        if (origin->which == SS_LUA_LANDED && (same || of_call))
            end_flight(state, i - 1);
        if (same || of_call)
            return same;
    }
    return false;
}

bool ss_lua_push_seen(lua_State *L, const ss_lua_state *state, int index, uintptr_t call)
{
    const char *text = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : NULL;
    uint32_t i = text && call ? state->flight_count : 0;

    while (i && (state->flights[i - 1].L != L || state->flights[i - 1].call.at != call))
        i--;
    if (!i || !ss_lua_push_value(L, state->flights[i - 1].ties.exception))
        return false;
    if (lua_type(L, -1) == LUA_TSTRING && strstr(text, lua_tostring(L, -1)))
        return true;
    lua_pop(L, 1);
    return false;
}

/* Whether a script that names the state's last value by its text may mean another error: one with that
   text is in flight, and the last one is not. */
static bool flies_too(lua_State *L, const ss_lua_state *state, int index)
{
    for (uint32_t i = state->flight_count; i > 0; i--) {
        const ss_lua_flight *flight = &state->flights[i - 1];

        if (flight->L == L && ss_lua_is_value_of(L, &flight->ties, index))
            return flight->ties.exception != state->last.exception;
    }
    return false;
}

stacksplice_ties *ss_lua_ties_known(lua_State *L, ss_lua_state *state, int index,
                                    const ss_lua_origin *origin)
{
    bool known;

    if (ss_lua_has_identity(L, index))
        return ss_lua_ties_find(L, index);
    switch (origin->which) {
    case SS_LUA_NEW:
        return NULL;
    case SS_LUA_LAST:
        known = ss_lua_is_value_of(L, &state->last, index);
        if (known && flies_too(L, state, index))
            return NULL;
        break;
    default:
        known = false;
    }
    if (!known)
        known = is_flight(L, state, index, origin);
    return known ? &state->last : NULL;
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
stacksplice_ties *ss_lua_ties_find(lua_State *L, int index)
{
    ss_lua_hold *const *hold = luaL_testudata(L, index, SS_LUA_ERROR_NAME);

    if (hold)
        return *hold && (*hold)->ties.error ? &(*hold)->ties : NULL;
    if (!ss_lua_has_identity(L, index))
        return NULL;
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

void ss_lua_pin(lua_State *L, int index, const stacksplice_ties *ties)
{
    lua_pushvalue(L, index);
    while (ties && ties->exception && !stacksplice_exception_is_held(ties->exception)) {
        pin_next(L, ties);
        ties = lua_isnil(L, -1) ? NULL : ss_lua_ties_find(L, -1);
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
