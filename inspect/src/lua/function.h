/* What a Lua function of a target says of itself. */
#ifndef SSI_LUA_FUNCTION_H
#define SSI_LUA_FUNCTION_H

#include "target/frame.h"
#include "target/target.h"

/* The frame of a Lua function that is called by CALL_INFO; FUNCTION is its closure. */
ssi_frame ssi_lua_frame(const ssi_memory *memory, unsigned minor, uint64_t call_info,
                        uint64_t function);

#endif
