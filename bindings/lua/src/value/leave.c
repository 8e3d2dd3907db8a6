/* An error value leaves Lua, after what it was made from. */
#include "value/value.h"

HRESULT ss_lua_originate_value(lua_State *L, ss_lua_state *state, int index,
                               const ss_lua_origin *origin)
{
    IUnknown *error = ss_lua_to_error(L, index);
    ss_lua_ties *ties;

    if (error) {
        ss_lua_pin_error_object(L, state, index);
        return ss_lua_put_back(error, ss_lua_error_hresult(error));
    }
    ties = ss_lua_ties_make(L, state, index, origin);
    ss_lua_find_causes(L, state, index, origin);
    ss_lua_pin(L, ties->exception, index);
    return ss_lua_originate_tied(ties);
}

void ss_lua_push_error_of(lua_State *L, ss_lua_state *state, int index, const ss_lua_origin *origin)
{
    if (!ss_lua_to_error(L, index)) {
        index = lua_absindex(L, index);
        (void)ss_lua_ties_make(L, state, index, origin);
        ss_lua_find_causes(L, state, index, origin);
    }
    ss_lua_push_made_error(L, state, index, origin);
}
