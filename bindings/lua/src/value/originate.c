/* The error of a value as its error object. */
#include "value/value.h"

void ss_lua_push_made_error(lua_State *L, ss_lua_state *state, IUnknown **holder,
                            stacksplice_ties *ties)
{
    if (FAILED(stacksplice_make_error(ties, (IScriptErrorInfo **)holder)))
        luaL_error(L, "not enough memory");
    if (*holder)
        ss_lua_push_error(L, state, *holder);
    else
        lua_pushnil(L);
    ss_lua_drop_holder(L, -2);
}
