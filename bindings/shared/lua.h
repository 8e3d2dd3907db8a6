/*
 * What is known of Lua's insides: where 5.1, 5.2, 5.3.6, 5.4 (from 5.4.3) and 5.5 keep things, on
 * machines of 64 bits.  The inspection of other processes reads them by it, and the binding activations of its own
 * copy of Lua, after it has compared them.  A new version is one row in lua.c; a test says what to add
 * in version/call_info.h of the binding.
 */
#ifndef SS_SHARED_LUA_H
#define SS_SHARED_LUA_H

#include <stdbool.h>
#include <stdint.h>

/* What differs. */
typedef struct ssi_lua_layout {
    unsigned minor;
    uint8_t state_call, state_stack_last, state_stack;
    uint8_t state_base_call; /* a call, or 5.1: where the array of calls is */
    uint8_t state_shared;    /* what all coroutines share, */
    uint8_t shared_registry; /* which has the registry */
    uint8_t state_pc;        /* 5.1: of the function that runs; 0: in its call, as of the others */
    uint8_t call_function, call_top;
    uint8_t call_size; /* 5.1: calls lie one behind the other; 0: each knows the previous one */
    uint8_t call_pc;
    uint8_t call_base; /* where the variables begin; NOTHING: behind the function */
    uint8_t call_status, status_size;
    uint8_t status_c, status_fresh, status_hook, status_tail, status_finalizer; /* bits */
    bool status_c_is_lua;     /* that bit says the opposite */
    bool status_fresh_is_not; /* so does that one */
    bool status_is_tail;      /* 5.1: a count of tail calls, and the function has whether it is C */
    bool finalizer_is_called; /* that bit is the interrupted function's own */
    bool old_tags;            /* integers and floats have each other's; a boolean is in its value */
    bool only_floats;         /* numbers have one kind */
    uint8_t array_size, array, nodes; /* of a table */
    uint8_t node, node_key, node_key_tag;
    bool array_of_tags;     /* the values of an array stand before it, its tags in it */
    bool long_text_pointer; /* the bytes of a long string are elsewhere */
    bool long_texts;        /* each string has its length where long ones have it */
    uint8_t closure_proto;  /* of a Lua function */
    uint8_t proto_line, proto_constants, proto_code, proto_upvalues, proto_lines, proto_variables;
    uint8_t proto_code_count, proto_line_count, proto_variable_count;
    uint8_t proto_source, upvalue_size;
    bool whole_lines;    /* each instruction has its line */
    bool pc_in_register; /* of the function that runs */
    bool loop_has_state; /* the interpreter's loop keeps its state and no call */
} ssi_lua_layout;

/* NULL for another version. */
const ssi_lua_layout *ssi_lua_layout_of(int minor);

/* What does not. */
enum {
    SSI_LUA_TYPE = 8, /* of an object that is collected */
    SSI_LUA_THREAD = 8,
    SSI_LUA_NOTHING = 255,

    SSI_LUA_CALL_FUNCTION = 0, /* from 5.2 on */
    SSI_LUA_CALL_TOP = 8,
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

    SSI_LUA_OLD_FUNCTION = 6,       /* 5.1: any function, */
    SSI_LUA_CLOSURE_IS_C = 10,      /* which says what it is */
    SSI_LUA_CLOSURE_FUNCTION = 24,  /* of a C function with upvalues, from 5.2 on */
    SSI_LUA_PROTO_KNOWN_COUNT = 40, /* of lines that are stored whole */
    SSI_LUA_PROTO_KNOWN = 96,

    SSI_LUA_TEXT_SHORT_LENGTH = 11,
    SSI_LUA_TEXT_LONG_LENGTH = 16,
    SSI_LUA_TEXT_DATA = 24
};

/*
 * LuaJIT keeps the calls of a state on its stack, in slots of 8 bytes, and references have 64 or, in builds
 * that are narrow, 32 bits: of each place the wide build's comes first, then the narrow one's.
 */
#define SSI_JIT_SHARED 16, 8 /* of a state: what all coroutines share, */
#define SSI_JIT_BASE 32, 16
#define SSI_JIT_TOP 40, 24
#define SSI_JIT_STACK_END 48, 32
#define SSI_JIT_STACK 56, 36
#define SSI_JIT_GLOBALS 72, 44 /* the table of them */
#define SSI_JIT_KIND 9, 5      /* of any object, in a byte */
#define SSI_JIT_SORT 10, 6 /* of a function, in a byte: 0: in Lua, 1: in C, more: a library's own */
#define SSI_JIT_C_FUNCTION 40, 24 /* of a function that is not in Lua */
#define SSI_JIT_FRAME_SLOTS 2, 1 /* a frame: the function, and how far it is to the frame outside */

enum {
    SSI_JIT_SLOT = 8,
    SSI_JIT_REFERENCE_BITS = 47, /* in a slot of a wide build; the others say what it is */

    /* Kinds of objects. */
    SSI_JIT_STRING = 4,
    SSI_JIT_THREAD = 6,
    SSI_JIT_PROTO = 7,
    SSI_JIT_FUNCTION = 8,
    SSI_JIT_TRACE = 9,
    SSI_JIT_TABLE = 11,

    /* The link to the frame outside, in the lowest bits of a frame's second word. */
    SSI_JIT_LINK_BITS = 7,
    SSI_JIT_LINK_KIND = 3,
    SSI_JIT_LINK_LUA = 0,       /* else the other bits are the distance */
    SSI_JIT_LINK_C = 1,         /* C has called this function */
    SSI_JIT_LINK_NEXT = 2,      /* a continuation follows, as after a metamethod, or C's callback */
    SSI_JIT_LINK_PROTECTED = 5, /* C has called it by lua_pcall */
    SSI_JIT_LINK_VARARG = 3, /* the frame outside is the same call's, before its arguments moved */
    SSI_JIT_CALLBACK = 1     /* the continuation of what C has called by FFI */
};

#endif
