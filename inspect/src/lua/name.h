/* What the code that calls a Lua function calls it. */
#ifndef SSI_LUA_NAME_H
#define SSI_LUA_NAME_H

#include "lua/call.h"

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
