/* The local variables of a Lua function of a target. */
#ifndef SSI_LUA_LOCALS_H
#define SSI_LUA_LOCALS_H

#include "base/written.h"
#include "lua/call.h"

/* Write those of CALL, a call of a Lua function, as one JSON object. */
void ssi_lua_locals(const ssi_memory *memory, const ssi_lua_layout *layout,
                    const ssi_lua_call *call, ssi_written *to);

#endif
