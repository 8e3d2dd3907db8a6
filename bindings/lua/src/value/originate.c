/* The error of a value: originated once, then put back into the slot. */
#include "value/value.h"

void ss_lua_pin(lua_State *L, ss_lua_exception *x, int index)
{
    ss_lua_pin_alone(L, x, index);
    /* What cannot be told apart is held from outside as long as it has ties. */
    if (!atomic_load_explicit(&x->cause, memory_order_relaxed) || !ss_lua_has_identity(L, index))
        return;
    ss_lua_push_tied(L, index);
    lua_getiuservalue(L, -1, SS_LUA_TIES_CAUSE);
    ss_lua_pin_error_object(L, x->state, -1);
    lua_pop(L, 2);
}

HRESULT ss_lua_put_back(IUnknown *error, HRESULT hr)
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

HRESULT ss_lua_originate_tied(ss_lua_ties *ties)
{
    HRESULT hr;

    if (ties->error)
        return ss_lua_put_back((IUnknown *)ties->error, ties->exception->hresult);
    hr = originate_first(ties);
    return FAILED(hr) ? hr : ties->exception->hresult;
}

void ss_lua_push_made_error(lua_State *L, ss_lua_state *state, int index,
                            const ss_lua_origin *origin)
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
