/* What the files of this folder share. */
#ifndef SSI_LUA_PRIVATE_H
#define SSI_LUA_PRIVATE_H

#include "lua/lua.h"

/* A call in a Lua state. */

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
bool ssi_lua_read_call(const ssi_lua_layout *layout, uint64_t address, ssi_lua_call *call);

/* Words, numbers and strings of a target's Lua. */

/* A value with the tag that later versions give it. */
typedef struct ssi_lua_value {
    uint8_t tag;
    uint64_t bits;
} ssi_lua_value;

/* The value whose parts are at BITS and TAG. */
bool ssi_lua_read_value(const ssi_lua_layout *layout, uint64_t bits, uint64_t tag,
                        ssi_lua_value *out);
/* 0 where nothing can be read. */
int32_t ssi_lua_number(uint64_t address);
/* The string at ADDRESS, cut to a thousand bytes; NULL if it cannot be read. */
const char *ssi_lua_text(const ssi_lua_layout *layout, uint64_t address);

/* The text that reports have of a value of a target's Lua, as JSON. */

void ssi_lua_value_write(const ssi_lua_layout *layout, ssi_lua_value value, ssi_written *to);

/* The local variables of a Lua function that are in scope at an instruction, in their order. */

typedef struct ssi_lua_variables {
    uint64_t rows;
    int32_t at, count, pc;
} ssi_lua_variables;

ssi_lua_variables ssi_lua_variables_at(const ssi_lua_layout *layout, uint64_t proto, int32_t pc);
/* The address of the next one's name; 0 after the last. */
uint64_t ssi_lua_next_variable(ssi_lua_variables *variables);

/* The local variables of a Lua function of a target. */

/* Write those of CALL, a call of a Lua function, as one JSON object. */
void ssi_lua_locals(const ssi_lua_layout *layout, const ssi_lua_call *call, ssi_written *to);

/* What the code that calls a Lua function calls it. */

enum { SSI_LUA_NAMES = 256 };

/* Recursion calls from one place again and again. */
typedef struct ssi_lua_names {
    struct {
        uint64_t pc; /* of the caller */
        const char *name;
    } known[SSI_LUA_NAMES];
} ssi_lua_names;

/* The name that CALL's caller has for its function, as lua_getinfo tells it; NULL: it has none. */
const char *ssi_lua_call_name(const ssi_lua_layout *layout, ssi_lua_names *names,
                              const ssi_lua_call *call);

#endif
