/* The pairs of a Lua table of a target, in the order of `next`. */
#ifndef SSI_LUA_TABLE_H
#define SSI_LUA_TABLE_H

#include "lua/read.h"

typedef struct ssi_lua_table {
    const ssi_memory *memory;
    const ssi_lua_layout *layout;
    uint64_t array, nodes;
    uint64_t at, array_size, node_count;
    bool is_damaged;
} ssi_lua_table;

/* False if the table at ADDRESS cannot be read. */
bool ssi_lua_table_begin(ssi_lua_table *table, const ssi_memory *memory,
                         const ssi_lua_layout *layout, uint64_t address);
/* False after the last pair, and where no more can be read: then IS_DAMAGED. */
bool ssi_lua_table_next(ssi_lua_table *table, ssi_lua_value *key, ssi_lua_value *value);

#endif
