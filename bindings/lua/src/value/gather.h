/*
 * Text that the core delivers piece by piece, in C memory: Lua must not raise through the core.
 */
#ifndef SS_LUA_GATHER_H
#define SS_LUA_GATHER_H

#include <stdbool.h>
#include <stddef.h>

#include <lua.h>

/* All zero: none yet. */
typedef struct ss_lua_gathered {
    char *text;
    size_t length, capacity;
    bool failed; /* memory ran out; stays */
} ss_lua_gathered;

/* Add TEXT to DATA, an ss_lua_gathered; nonzero without memory, now and in all later calls. */
int ss_lua_gather(const char *text, size_t length, void *data);

/* Push the text as a string and free it, even if something raises: "not enough memory" if it is
   incomplete. [-0, +1, m] */
void ss_lua_push_gathered(lua_State *L, ss_lua_gathered *out);

/* Free the text. */
void ss_lua_gathered_free(ss_lua_gathered *out);

/* Make room for LENGTH more bytes; NULL without memory, else where they go. */
char *ss_lua_gather_room(ss_lua_gathered *out, size_t length);

#endif
