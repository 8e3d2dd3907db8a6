/* Where a Lua function is that runs itself, and calls nothing. */
#ifndef SSI_LUA_RUNNING_H
#define SSI_LUA_RUNNING_H

#include "lua/call.h"
#include "target/target.h"

/* CALL is a state's innermost one, of a Lua function.  Its pc is that of its last call, or older:
   replace it by the one in the registers of THREAD, if there is one. */
void ssi_lua_find_pc(const ssi_target *target, const ssi_lua_layout *layout,
                     const ssi_thread *thread, ssi_lua_call *call);

#endif
