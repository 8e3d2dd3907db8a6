/*
 * Lua's API by the names of its functions: which of them are on the way between Lua and other code,
 * and a gap where the frames of a Lua are missing because no frame source reads it.
 */
#ifndef SS_LUA_API_H
#define SS_LUA_API_H

#include "resolve/resolve.h"

/* Whether NAME is a function of the API that can call back, raise, or run a collector. */
bool ss_lua_api_is(const char *name);

/* A gap with the text that its reason points to. */
typedef struct ss_lua_gap {
    ss_frame frame;
    char reason[512]; /* enough: the name of a file has 255 bytes */
} ss_lua_gap;

/*
 * Whether the native FRAMES of one address call into a Lua that no frame source reads: *GAP is then
 * what stands inside of them.  Takes the loader's lock if one of them calls into a Lua.
 */
bool ss_lua_gap_find(const ss_frame *frames, uint32_t count, ss_lua_gap *gap);

#endif
