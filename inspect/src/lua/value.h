/*
 * A value of a target's Lua as JSON, from which texts for reports are made: nil, booleans and
 * integers as themselves, others as an object whose first member says what they are.
 */
#ifndef SSI_LUA_VALUE_H
#define SSI_LUA_VALUE_H

#include "base/written.h"
#include "lua/table.h"

void ssi_lua_value_write(const ssi_memory *memory, const ssi_lua_layout *layout,
                         ssi_lua_value value, ssi_written *to);

#endif
