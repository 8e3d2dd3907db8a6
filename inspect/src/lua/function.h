/* What a Lua function of a target says of itself. */
#ifndef SSI_LUA_FUNCTION_H
#define SSI_LUA_FUNCTION_H

#include "lua/call.h"
#include "target/frame.h"
#include "target/target.h"

/* The frame of CALL, a call of a Lua function; NAME is what its caller calls it, or NULL. */
ssi_frame ssi_lua_frame(const ssi_memory *memory, const ssi_lua_layout *layout,
                        const ssi_lua_call *call, const char *name);

#endif
