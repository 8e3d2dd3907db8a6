/* An error value leaves Lua: originate its error once, then put it back or show it. */
#include "value/value.h"

stacksplice_ties *ss_lua_ties_ready(lua_State *L, ss_lua_state *state, int index,
                                    const ss_lua_origin *origin)
{
    stacksplice_ties *ties = ss_lua_ties_make(L, state, index, origin);

    ss_lua_find_causes(L, state, index, origin);
    ss_lua_pin(L, state, index, ties);
    return ties;
}

HRESULT ss_lua_originate_value(lua_State *L, ss_lua_state *state, int index,
                               const ss_lua_origin *origin)
{
    stacksplice_ties *ties = ss_lua_ties_ready(L, state, index, origin);
    HRESULT hr = E_FAIL, result = stacksplice_leave(ties, &hr);

    return FAILED(result) ? result : hr;
}

void ss_lua_push_error_of(lua_State *L, ss_lua_state *state, int index, const ss_lua_origin *origin)
{
    IUnknown **holder;

    if (ss_lua_to_error(L, index)) {
        lua_pushvalue(L, index);
        return;
    }
    index = lua_absindex(L, index);
    holder = ss_lua_push_holder(L);
    ss_lua_push_made_error(L, state, holder, ss_lua_ties_ready(L, state, index, origin));
}
