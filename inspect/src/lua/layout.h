/* Where Lua 5.4 (from 5.4.3) and 5.5 keep things, on machines of 64 bits. */
#ifndef SSI_LUA_LAYOUT_H
#define SSI_LUA_LAYOUT_H

enum {
    SSI_LUA_TYPE = 8, /* of an object that is collected */
    SSI_LUA_THREAD = 8,
    SSI_LUA_STATE_CALL = 32,
    SSI_LUA_STATE_STACK_LAST = 40,
    SSI_LUA_STATE_STACK = 48,
    SSI_LUA_STATE_BASE_CALL = 96,

    SSI_LUA_CALL_FUNCTION = 0,
    SSI_LUA_CALL_PREVIOUS = 16,
    SSI_LUA_CALL_PC = 32,

    SSI_LUA_VALUE_TAG = 8,
    SSI_LUA_TAG_LUA = 70,      /* a Lua function */
    SSI_LUA_TAG_LIGHT = 22,    /* a C function */
    SSI_LUA_TAG_CLOSURE = 102, /* one with upvalues */

    SSI_LUA_CLOSURE_PROTO = 24,
    SSI_LUA_PROTO_LINE_COUNT = 28,
    SSI_LUA_PROTO_KNOWN_COUNT = 40, /* of lines that are stored whole */
    SSI_LUA_PROTO_LINE = 44,
    SSI_LUA_PROTO_CODE = 64,
    SSI_LUA_PROTO_LINES = 88,
    SSI_LUA_PROTO_KNOWN = 96,
    SSI_LUA_PROTO_SOURCE = 112,

    SSI_LUA_TEXT_SHORT_LENGTH = 11,
    SSI_LUA_TEXT_LONG_LENGTH = 16,
    SSI_LUA_TEXT_DATA = 24,
    SSI_LUA_TEXT_SHORT = 4 /* its type; a long one has another */
};

#endif
