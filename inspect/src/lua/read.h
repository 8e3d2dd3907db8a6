/* Words, numbers and strings of a target's Lua. */
#ifndef SSI_LUA_READ_H
#define SSI_LUA_READ_H

#include "base/memory.h"
#include "lua/layout.h"

/* A value with the tag that later versions give it. */
typedef struct ssi_lua_value {
    uint8_t tag;
    uint64_t bits;
} ssi_lua_value;

/* The value whose parts are at BITS and TAG. */
bool ssi_lua_read_value(const ssi_memory *memory, const ssi_lua_layout *layout, uint64_t bits,
                        uint64_t tag, ssi_lua_value *out);
/* 0 where nothing can be read. */
uint64_t ssi_lua_word(const ssi_memory *memory, uint64_t address);
int32_t ssi_lua_number(const ssi_memory *memory, uint64_t address);
/* Copy the string at ADDRESS, cut to SIZE bytes.  Returns how many, or -1 if it cannot be read. */
int64_t ssi_lua_bytes(const ssi_memory *memory, const ssi_lua_layout *layout, uint64_t address,
                      char *out, size_t size);
/* The string at ADDRESS, cut to a thousand bytes; NULL if it cannot be read. */
const char *ssi_lua_text(const ssi_memory *memory, const ssi_lua_layout *layout, uint64_t address);

#endif
