/*
 * Error values and what is tied to them.  Tables, userdata, functions and threads have an identity:
 * their ties hang in a table with weak keys.  Of the others, equal ones cannot be told apart, so
 * only the state's last one is remembered.
 */
#include "life/binding.h"

#include <stdlib.h>
#include <string.h>

#include "calibrate/calibrate.h"

enum { NEAR_FRAMES = 512 };

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

void ss_lua_drop_ties(ss_lua_ties *ties)
{
    if (ties->error)
        ties->error->lpVtbl->ReleaseInside(ties->error);
    if (ties->exception)
        ss_lua_exception_release_inside(ties->exception);
    *ties = (ss_lua_ties){NULL, NULL};
}

/* ---- The last value without identity ---------------------------------------------------------*/

void ss_lua_forget_last(ss_lua_state *state)
{
    ss_lua_ties gone = state->last;

    state->last = (ss_lua_ties){NULL, NULL};
    state->raising = (ss_lua_raising){NULL, NULL, NULL};
    if (gone.exception)
        gone.exception->script.lpVtbl->Release(&gone.exception->script);
    ss_lua_drop_ties(&gone);
}

void ss_lua_set_last(ss_lua_state *state, ss_lua_exception *x, IScriptErrorInfo *error)
{
    ss_lua_exception_add_inside(x);
    if (error)
        error->lpVtbl->AddInside(error);
    ss_lua_forget_last(state);
    state->last = (ss_lua_ties){x, error};
    state->last_raised = true;
}

/* The very same value; that NaN is not equal to itself is arithmetic's business. */
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

void ss_lua_push_anchor(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    ss_lua_push_table(L, SS_LUA_ANCHORS);
    lua_pushvalue(L, index);
    (void)lua_rawget(L, -2);
    lua_remove(L, -2);
}

ss_lua_ties *ss_lua_ties_find(lua_State *L, ss_lua_state *state, int index)
{
    ss_lua_hold *const *anchor;

    index = lua_absindex(L, index);
    if (!ss_lua_has_identity(L, index))
        return is_last(L, state, index) ? &state->last : NULL;
    ss_lua_push_anchor(L, index);
    anchor = lua_touserdata(L, -1);
    lua_pop(L, 1);
    /* A finalizer of the value may run after that of its anchor: then nothing is tied any more. */
    return anchor && *anchor && (*anchor)->ties.exception ? &(*anchor)->ties : NULL;
}

void ss_lua_pin_alone(lua_State *L, ss_lua_exception *x, int index)
{
    if (x->pinned)
        return;
    index = lua_absindex(L, index);
    if (!lua_isnil(L, index)) { /* nil is found as what is not there */
        ss_lua_push_table(L, SS_LUA_PINS);
        lua_pushvalue(L, index);
        lua_rawsetp(L, -2, x);
        lua_pop(L, 1);
    }
    x->pinned = true;
}

void ss_lua_pin(lua_State *L, ss_lua_exception *x, int index)
{
    ss_lua_pin_alone(L, x, index);
    /* What cannot be told apart is held from outside as long as it has ties. */
    if (!atomic_load_explicit(&x->cause, memory_order_relaxed) || !ss_lua_has_identity(L, index))
        return;
    ss_lua_push_anchor(L, index);
    lua_getiuservalue(L, -1, SS_LUA_ANCHOR_CAUSE);
    ss_lua_pin_error_object(L, x->state, -1);
    lua_pop(L, 2);
}

bool ss_lua_push_value(lua_State *L, const ss_lua_exception *x)
{
    if (!x->pinned || !atomic_load(&x->state->registry))
        return false;
    ss_lua_push_table(L, SS_LUA_PINS);
    lua_rawgetp(L, -1, x);
    lua_remove(L, -2);
    return true;
}

/* Give the value at INDEX an anchor, whose ties are empty. [-0, +0, m] */
static ss_lua_ties *make_anchor(lua_State *L, ss_lua_state *state, int index)
{
    static const luaL_Reg functions[] = {{"__gc", ss_lua_collect_hold}, {NULL, NULL}};
    static const ss_lua_hold_kind kind = {"stacksplice.anchor", functions, SS_LUA_ANCHOR_CAUSE};
    ss_lua_ties *ties = &ss_lua_push_hold(L, state, &kind)->ties;

    ss_lua_push_table(L, SS_LUA_ANCHORS);
    lua_pushvalue(L, index);
    lua_pushvalue(L, -3);
    lua_rawset(L, -3);
    lua_pop(L, 2);
    return ties;
}

void ss_lua_set_new_last(lua_State *L, ss_lua_state *state, IUnknown **holder, ss_lua_exception *x,
                         int index)
{
    *holder = ss_lua_unknown(x);
    (*holder)->lpVtbl->AddRef(*holder);
    ss_lua_exception_release_inside(x); /* the holder has it */
    ss_lua_pin(L, x, index);
    (*holder)->lpVtbl->AddRef(*holder); /* handed to set_last */
    ss_lua_set_last(state, x, NULL);
    ss_lua_drop_holder(L, -1);
}

/* ---- What a value says of itself -------------------------------------------------------------*/

/* Whether code of scripts may run when the value is asked for its text; strings have a metatable,
   but are their own. [-0, +0, -], 1 slot */
static bool has_metatable(lua_State *L, int index)
{
    if (lua_type(L, index) == LUA_TSTRING || !lua_getmetatable(L, index))
        return false;
    lua_pop(L, 1);
    return true;
}

static int tostring_protected(lua_State *L)
{
    (void)luaL_tolstring(L, 1, NULL);
    return 1;
}

/* The message at the top; the value's own __tostring may fail, if it is SCRIPTED. [-0, +1, m] */
static void push_message(lua_State *L, int index, bool scripted)
{
    if (lua_type(L, index) == LUA_TSTRING) {
        lua_pushvalue(L, index);
        return;
    }
    if (!scripted) {
        (void)luaL_tolstring(L, index, NULL);
        return;
    }
    lua_pushcfunction(L, tostring_protected);
    lua_pushvalue(L, index);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING)
        return;
    lua_pop(L, 1);
    lua_pushfstring(L, "(error object is a %s value whose __tostring failed)",
                    luaL_typename(L, index));
}

/* "table", or what its metatable's __name says; at the top. [-0, +1, m] */
static const char *push_type_name(lua_State *L, int index)
{
    int type = luaL_getmetafield(L, index, "__name");

    if (type == LUA_TSTRING)
        return lua_tostring(L, -1);
    if (type != LUA_TNIL)
        lua_pop(L, 1);
    lua_pushstring(L, luaL_typename(L, index));
    return lua_tostring(L, -1);
}

static HRESULT status_hresult(int status)
{
    switch (status) {
    case LUA_ERRMEM:
        return E_OUTOFMEMORY;
    case LUA_ERRERR:
        return E_UNEXPECTED;
    case LUA_ERRSYNTAX:
        return (HRESULT)0x80020101; /* SCRIPT_E_REPORTED */
    default:
        return E_FAIL;
    }
}

static int get_field_protected(lua_State *L)
{
    (void)lua_gettable(L, 1);
    return 1;
}

void ss_lua_push_field(lua_State *L, int index, const char *key)
{
    if (lua_type(L, index) == LUA_TTABLE) {
        index = lua_absindex(L, index);
        lua_pushstring(L, key);
        lua_rawget(L, index);
        return;
    }
    index = lua_absindex(L, index);
    lua_pushcfunction(L, get_field_protected);
    lua_pushvalue(L, index);
    lua_pushstring(L, key);
    if (lua_pcall(L, 2, 1, 0) != LUA_OK) {
        lua_pop(L, 1);
        lua_pushnil(L);
    }
}

/* An integer field "hresult" that is a failure, signed or unsigned; else what the status says. */
static HRESULT value_hresult(lua_State *L, int index, int status)
{
    HRESULT hr = status_hresult(status);
    lua_Integer number;

    if (lua_type(L, index) != LUA_TTABLE && lua_type(L, index) != LUA_TUSERDATA)
        return hr;
    ss_lua_push_field(L, index, "hresult");
    number = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;
    if (number >= INT32_MIN && number <= UINT32_MAX && (int32_t)(uint32_t)number < 0)
        hr = (HRESULT)(uint32_t)number;
    lua_pop(L, 1);
    return hr;
}

/* ---- Making an exception ---------------------------------------------------------------------*/

/* Into FRAMES, which has room for MAX, and for three times as many if the coroutine of ORIGIN is to
   be told, too. */
static uint32_t take_stack(lua_State *L, const ss_lua_origin *origin, lua_State *dead, uint32_t max,
                           uintptr_t *frames)
{
    uint32_t count = dead ? ss_lua_dead_frames(dead, max + 4, frames) : 0;

    if (origin->unwound)
        frames[count++] = ss_lua_gap(STACKSPLICE_GAP_RETURNED);
    count += ss_lua_capture(L, origin->above, dead ? max : max - count, frames + count, NULL);
    return stacksplice_copy_ends(frames, count, max, frames);
}

/* The texts are Lua's. */
static ss_lua_exception *new_exception(lua_State *L, ss_lua_state *state,
                                       ss_lua_exception_parts *parts, const ss_lua_origin *origin)
{
    uint32_t limit = stacksplice_max_frames();
    uintptr_t near[NEAR_FRAMES], *far = NULL;
    ss_lua_exception *x;

    if (limit > NEAR_FRAMES || origin->dead)
        far = malloc((3 * (size_t)limit + 8) * sizeof *far);
    if (!far && limit > NEAR_FRAMES)
        limit = NEAR_FRAMES;
    parts->frames = far ? far : near;
    parts->frame_count = take_stack(L, origin, far ? origin->dead : NULL, limit, far ? far : near);
    x = ss_lua_exception_new(state, parts);
    free(far);
    if (!x)
        luaL_error(L, "not enough memory");
    return x;
}

/* What the value at INDEX says of itself; its texts are pushed. [-0, +2, m] */
static ss_lua_exception_parts push_parts(lua_State *L, int index, const ss_lua_origin *origin,
                                         bool scripted)
{
    ss_lua_exception_parts parts = {.hresult = origin->hresult};

    push_message(L, index, scripted);
    parts.message = lua_tolstring(L, -1, &parts.message_length);
    parts.type_name = push_type_name(L, index);
    if (!parts.hresult)
        parts.hresult = value_hresult(L, index, origin->status);
    return parts;
}

ss_lua_ties *ss_lua_ties_make(lua_State *L, ss_lua_state *state, int index,
                              const ss_lua_origin *origin)
{
    ss_lua_ties *ties = ss_lua_ties_find(L, state, index);
    ss_lua_exception_parts parts;
    int top = lua_gettop(L);
    bool identity = ss_lua_has_identity(L, index), scripted = has_metatable(L, index);

    if (ties)
        return ties;
    index = lua_absindex(L, index);
    parts = push_parts(L, index, origin, scripted);
    /* What was asked of the value (__tostring) may have made an error of it meanwhile. */
    ties = scripted && identity ? ss_lua_ties_find(L, state, index) : NULL;
    if (!ties && identity) {
        ties = make_anchor(L, state, index);
        ties->exception = new_exception(L, state, &parts, origin);
    } else if (!ties) {
        IUnknown **holder = ss_lua_push_holder(L);
        ss_lua_exception *x = new_exception(L, state, &parts, origin);

        ss_lua_set_new_last(L, state, holder, x, index);
        ties = &state->last;
    }
    lua_settop(L, top);
    return ties;
}

/* ---- Origination -----------------------------------------------------------------------------*/

/* The error exists: it goes back to the slot as it is. */
static HRESULT put_back(IUnknown *error, HRESULT hr)
{
    IRestrictedErrorInfo *info = NULL;

    if (SUCCEEDED(
            error->lpVtbl->QueryInterface(error, &IID_IRestrictedErrorInfo, (void **)&info))) {
        (void)SetRestrictedErrorInfo(info);
        info->lpVtbl->Release(info);
    }
    return hr;
}

/* The new error is in the slot, and inside the ties; neither where origination is switched off.
   Calls nothing of Lua. */
static HRESULT originate_first(ss_lua_ties *ties)
{
    ss_lua_exception *x = ties->exception;
    IRestrictedErrorInfo *info = NULL;
    HRESULT hr;

    hr = stacksplice_originate(x->hresult, x->message, x->message_length, ss_lua_unknown(x), &info);
    if (SUCCEEDED(hr) && info) {
        void *script = NULL;

        if (SUCCEEDED(
                info->lpVtbl->QueryInterface(info, &stacksplice_IID_IScriptErrorInfo, &script))) {
            ties->error = script;
            ties->error->lpVtbl->AddInside(ties->error);
            ties->error->lpVtbl->Release(ties->error);
        }
        info->lpVtbl->Release(info);
    }
    return hr;
}

HRESULT ss_lua_originate_value(lua_State *L, ss_lua_state *state, int index,
                               const ss_lua_origin *origin)
{
    IUnknown *error = ss_lua_to_error(L, index);
    ss_lua_ties *ties;
    HRESULT hr;

    if (error) {
        ss_lua_pin_error_object(L, state, index);
        return put_back(error, ss_lua_error_hresult(error));
    }
    ties = ss_lua_ties_make(L, state, index, origin);
    ss_lua_find_causes(L, state, index, origin);
    ss_lua_pin(L, ties->exception, index);
    if (ties->error)
        return put_back((IUnknown *)ties->error, ties->exception->hresult);
    hr = originate_first(ties);
    return FAILED(hr) ? hr : ties->exception->hresult;
}

void ss_lua_push_error_of(lua_State *L, ss_lua_state *state, int index, const ss_lua_origin *origin)
{
    stacksplice_saved_error saved;
    ss_lua_ties *ties;
    IUnknown **holder;
    HRESULT hr = S_OK;

    if (ss_lua_to_error(L, index)) {
        lua_pushvalue(L, index);
        return;
    }
    index = lua_absindex(L, index);
    holder = ss_lua_push_holder(L);
    ties = ss_lua_ties_make(L, state, index, origin);
    ss_lua_find_causes(L, state, index, origin);
    ss_lua_pin(L, ties->exception, index);
    if (!ties->error) {
        (void)stacksplice_save_error(&saved);
        hr = originate_first(ties);
        (void)stacksplice_restore_error(&saved);
    }
    if (FAILED(hr))
        luaL_error(L, "not enough memory");
    if (!ties->error) { /* origination is switched off */
        lua_pop(L, 1);
        lua_pushnil(L);
        return;
    }
    ties->error->lpVtbl->AddRef(ties->error);
    *holder = (IUnknown *)ties->error;
    ss_lua_push_error(L, state, *holder);
    ss_lua_drop_holder(L, -2);
}
