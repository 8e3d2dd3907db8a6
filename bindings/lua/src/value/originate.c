/* The error of a value as its error object. */
#include "value/value.h"

void ss_lua_push_made_error(lua_State *L, ss_lua_state *state, int index,
                            const ss_lua_origin *origin)
{
    stacksplice_ties *ties;
    IUnknown **holder;

    if (ss_lua_to_error(L, index)) {
        lua_pushvalue(L, index);
        return;
    }
    index = lua_absindex(L, index);
    holder = ss_lua_push_holder(L);
    ties = ss_lua_ties_make(L, state, index, origin);
    ss_lua_pin(L, state, index);
    if (FAILED(stacksplice_make_error(ties, (IScriptErrorInfo **)holder)))
        luaL_error(L, "not enough memory");
    if (*holder)
        ss_lua_push_error(L, state, *holder);
    else /* origination is switched off */
        lua_pushnil(L);
    ss_lua_drop_holder(L, -2);
}
