/* Runs: the activations of one coroutine, from one outward. */
#ifndef SS_LUA_RUN_H
#define SS_LUA_RUN_H

#include "frames/activation.h"

/* More links than any Lua stack can hold: such a chain is damaged. */
enum { SS_LUA_RUN_LIMIT = 4000000 };

/* Without known links each level is searched for from the innermost one on, up to this limit. */
enum { SS_LUA_LEVEL_LIMIT = 256 };

/* Steps outward along the activations of one coroutine. */
typedef struct ss_lua_cursor {
    lua_State *L;
    uintptr_t ci; /* 0 at the end */
    int level;    /* only if the links are unknown */
} ss_lua_cursor;

uintptr_t ss_lua_ci_at_level(lua_State *L, int level);

/* Find the level of the cursor's ci; if there is none, the cursor ends. */
void ss_lua_cursor_place(ss_lua_cursor *at);

/* Step to the next level if the links are unknown. */
void ss_lua_step_by_level(ss_lua_cursor *at);

static inline void ss_lua_step(const ss_lua_layout *layout, ss_lua_cursor *at)
{
    uintptr_t outer;

    if (layout->previous == SS_LUA_UNKNOWN) {
        ss_lua_step_by_level(at);
        return;
    }
    outer = ss_lua_word(at->ci + layout->previous);
    /* The base level, with nothing outside of it, is no activation. */
    at->ci = outer && ss_lua_word(outer + layout->previous) ? outer : 0;
}

/* How many activations there are from AT outward, up to but without STOP (0: to the end). */
uint32_t ss_lua_run_length(const ss_lua_layout *layout, ss_lua_cursor at, uintptr_t stop);

/* A gap if AT ended because the links are unknown, else 0. */
uintptr_t ss_lua_run_cut(const ss_lua_layout *layout, const ss_lua_cursor *at);

#endif
