/* What the files of this folder share. */
#ifndef SSI_LUA_PRIVATE_H
#define SSI_LUA_PRIVATE_H

#include "lua/lua.h"

/* Where Lua 5.3.6, 5.4 (from 5.4.3) and 5.5 keep things, on machines of 64 bits. */

/* What differs. */
struct ssi_lua_layout {
    unsigned minor;
    uint8_t state_stack_last, state_stack;
    uint8_t call_pc;
    uint8_t call_base; /* where the variables begin; 0: behind the function */
    uint8_t call_status, status_size;
    uint8_t status_c, status_fresh, status_hook, status_tail, status_finalizer; /* bits */
    bool status_c_is_lua;     /* that bit says the opposite */
    bool finalizer_is_called; /* that bit is the interrupted function's own */
    bool old_tags;            /* integers and floats have each other's; a boolean is in its value */
    uint8_t node, node_key, node_key_tag;
    bool array_of_tags;     /* the values of an array stand before it, its tags in it */
    bool long_text_pointer; /* the bytes of a long string are elsewhere */
    uint8_t proto_line, proto_constants, proto_code, proto_upvalues, proto_lines, proto_variables;
    uint8_t proto_source;
    bool whole_lines;    /* each instruction has its line */
    bool pc_in_register; /* of the function that runs */
};

/* NULL for another version. */
const ssi_lua_layout *ssi_lua_layout_of(int minor);

/* What does not. */
enum {
    SSI_LUA_TYPE = 8, /* of an object that is collected */
    SSI_LUA_THREAD = 8,
    SSI_LUA_STATE_CALL = 32,
    SSI_LUA_STATE_BASE_CALL = 96,

    SSI_LUA_CALL_FUNCTION = 0,
    SSI_LUA_CALL_PREVIOUS = 16,

    SSI_LUA_VALUE = 16, /* the size of one */
    SSI_LUA_VALUE_TAG = 8,
    SSI_LUA_TYPE_BITS = 15, /* of a tag */
    SSI_LUA_COLLECTED = 64,
    SSI_LUA_TAG_FALSE = 1,
    SSI_LUA_TAG_TRUE = 17,
    SSI_LUA_TAG_INTEGER = 3,
    SSI_LUA_TAG_FLOAT = 19,
    SSI_LUA_TAG_SHORT = 4, /* strings */
    SSI_LUA_TAG_LONG = 20,
    SSI_LUA_TAG_TABLE = 5,
    SSI_LUA_TAG_LUA = 70,      /* a Lua function */
    SSI_LUA_TAG_LIGHT = 22,    /* a C function */
    SSI_LUA_TAG_CLOSURE = 102, /* one with upvalues */

    SSI_LUA_CLOSURE_PROTO = 24,
    SSI_LUA_PROTO_CODE_COUNT = 24,
    SSI_LUA_PROTO_LINE_COUNT = 28,
    SSI_LUA_PROTO_VARIABLE_COUNT = 36,
    SSI_LUA_PROTO_KNOWN_COUNT = 40, /* of lines that are stored whole */
    SSI_LUA_PROTO_KNOWN = 96,

    SSI_LUA_TEXT_SHORT_LENGTH = 11,
    SSI_LUA_TEXT_LONG_LENGTH = 16,
    SSI_LUA_TEXT_DATA = 24
};

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
bool ssi_lua_read_call(const ssi_memory *memory, const ssi_lua_layout *layout, uint64_t address,
                       ssi_lua_call *call);

/* Words, numbers and strings of a target's Lua. */

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
/* The string at ADDRESS, cut to a thousand bytes; NULL if it cannot be read. */
const char *ssi_lua_text(const ssi_memory *memory, const ssi_lua_layout *layout, uint64_t address);

/*
 * A value of a target's Lua as JSON, from which texts for reports are made: nil, booleans and
 * integers as themselves, others as an object whose first member says what they are.
 */

void ssi_lua_value_write(const ssi_memory *memory, const ssi_lua_layout *layout,
                         ssi_lua_value value, ssi_written *to);

/* The local variables of a Lua function that are in scope at an instruction, in their order. */

typedef struct ssi_lua_variables {
    const ssi_memory *memory;
    uint64_t rows;
    int32_t at, count, pc;
} ssi_lua_variables;

ssi_lua_variables ssi_lua_variables_at(const ssi_memory *memory, const ssi_lua_layout *layout,
                                       uint64_t proto, int32_t pc);
/* The address of the next one's name; 0 after the last. */
uint64_t ssi_lua_next_variable(ssi_lua_variables *variables);

/* The local variables of a Lua function of a target. */

/* Write those of CALL, a call of a Lua function, as one JSON object. */
void ssi_lua_locals(const ssi_memory *memory, const ssi_lua_layout *layout,
                    const ssi_lua_call *call, ssi_written *to);

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
const char *ssi_lua_call_name(const ssi_memory *memory, const ssi_lua_layout *layout,
                              ssi_lua_names *names, const ssi_lua_call *call);

#endif
