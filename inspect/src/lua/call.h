/* A call in a Lua state. */
#ifndef SSI_LUA_CALL_H
#define SSI_LUA_CALL_H

#include "base/memory.h"
#include "lua/layout.h"

typedef struct ssi_lua_call {
    uint64_t address, function, previous; /* FUNCTION: its place on Lua's stack */
    uint64_t base, pc; /* of a Lua function: its variables, the next instruction */
    bool is_c;
    bool is_fresh; /* the interpreter's loop began with it */
    bool is_tail;  /* it replaced its caller */
    bool runs_hook, runs_finalizer;
    uint8_t tag;
} ssi_lua_call;

/* False if it cannot be read. */
bool ssi_lua_read_call(const ssi_memory *memory, const ssi_lua_layout *layout, uint64_t address,
                       ssi_lua_call *call);

#endif
