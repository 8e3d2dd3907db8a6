/* Runs: the activations of one coroutine, from one outward. */
#ifndef SS_LUA_RUN_H
#define SS_LUA_RUN_H

#include "frames/activation.h"

/* More links than any Lua stack can hold: such a chain is damaged. */
enum { SS_LUA_RUN_LIMIT = 4000000 };

/* The activation in which L runs, or was suspended; 0: none. */
uintptr_t ss_lua_innermost(lua_State *L);

/* How many activations there are from CI outward, up to but without STOP (0: to the end). */
uint32_t ss_lua_run_length(uintptr_t ci, uintptr_t stop);

#endif
