/* Texts of values that run no code of scripts: no metamethod is called, nothing is allocated in
 * Lua. */
#ifndef SS_LUA_SAFE_TEXT_H
#define SS_LUA_SAFE_TEXT_H

#include "shared/value_text.h"
#include "value/gather.h"

/* Add the text of the value at INDEX to TO. [-0, +0, -] */
void ss_lua_safe_text(lua_State *L, int index, ss_value_text *to);

#endif
