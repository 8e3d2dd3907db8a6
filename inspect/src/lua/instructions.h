/* How Lua's versions write their instructions, as far as these tell names. */
#ifndef SSI_LUA_INSTRUCTIONS_H
#define SSI_LUA_INSTRUCTIONS_H

#include "lua/layout.h"

enum { SSI_LUA_NONE = 255 };

/* A row of instructions: from FIRST to LAST.  The first one's metamethod is EVENT, and the next
   ones' are the same, or follow. */
typedef struct ssi_lua_range {
    uint8_t first, last;
} ssi_lua_range;
typedef struct ssi_lua_metamethod {
    ssi_lua_range of;
    uint8_t event;
    bool follow;
} ssi_lua_metamethod;

/* The instructions of a version, and where they have their parts. */
typedef struct ssi_lua_instructions {
    uint8_t a, b, c, wide, jump; /* the first bit of each; A has 8 bits, WIDE all that follow */
    unsigned b_mask, c_mask;
    int32_t jump_zero;              /* what stands for no jump */
    unsigned key_constant;          /* 5.3: this bit of a key's C says that it is a constant */
    unsigned event_prefix;          /* characters of a metamethod's name that are not shown */
    ssi_lua_range setters[8];       /* those that change the register A */
    ssi_lua_metamethod methods[14]; /* the rest is empty */
    uint8_t move, load_constant, load_constant_next, load_nil, get_upvalue, get_in_upvalue;
    uint8_t get, get_field, get_vararg, self, jmp, call, tail_call, iterate;
    ssi_lua_range failed; /* the operation before it did not happen; C is the event */
} ssi_lua_instructions;

const ssi_lua_instructions *ssi_lua_instructions_of(const ssi_lua_layout *layout);

/* The names of metamethods, in the order of their numbers in instructions. */
enum { SSI_LUA_EVENTS = 25 };
extern const char *const ssi_lua_events[SSI_LUA_EVENTS];

static inline unsigned ssi_lua_operation(const ssi_lua_instructions *set, uint32_t i)
{
    return i & ((1u << set->a) - 1);
}

static inline unsigned ssi_lua_a_of(const ssi_lua_instructions *set, uint32_t i)
{
    return i >> set->a & 255;
}

static inline unsigned ssi_lua_b_of(const ssi_lua_instructions *set, uint32_t i)
{
    return i >> set->b & set->b_mask;
}

static inline unsigned ssi_lua_c_of(const ssi_lua_instructions *set, uint32_t i)
{
    return i >> set->c & set->c_mask;
}

static inline bool ssi_lua_is_in(unsigned operation, ssi_lua_range r)
{
    return operation >= r.first && operation <= r.last;
}

#endif
