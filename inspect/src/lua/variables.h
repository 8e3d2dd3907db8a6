/* The local variables of a Lua function that are in scope at an instruction, in their order. */
#ifndef SSI_LUA_VARIABLES_H
#define SSI_LUA_VARIABLES_H

#include "base/memory.h"
#include "lua/layout.h"

typedef struct ssi_lua_variables {
    const ssi_memory *memory;
    uint64_t rows;
    int32_t at, count, pc;
} ssi_lua_variables;

ssi_lua_variables ssi_lua_variables_at(const ssi_memory *memory, const ssi_lua_layout *layout,
                                       uint64_t proto, int32_t pc);
/* The address of the next one's name; 0 after the last. */
uint64_t ssi_lua_next_variable(ssi_lua_variables *variables);

#endif
