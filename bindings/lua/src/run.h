/* Runs: the activations of one coroutine, from one outward, of which a long stack shows a part. */
#ifndef SS_LUA_RUN_H
#define SS_LUA_RUN_H

#include "activation.h"

/* More links than any Lua stack can hold: a damaged chain. */
enum { SS_LUA_RUN_LIMIT = 4000000 };

enum {
    SS_LUA_RUN_WHOLE = 256, /* a run of activations up to this length is shown whole; */
    SS_LUA_RUN_INNER = 160, /* of a longer one these innermost */
    SS_LUA_RUN_OUTER = 64   /* and these outermost */
};

/* Steps outward along the activations of one coroutine. */
typedef struct ss_lua_cursor {
    lua_State *L;
    uintptr_t ci; /* 0 at the end */
    int level;    /* only where the links are not known */
} ss_lua_cursor;

/* What is shown of a run: the innermost activations, and the outermost ones in a ring. */
typedef struct ss_lua_run {
    uintptr_t inner[SS_LUA_RUN_INNER], outer[SS_LUA_RUN_WHOLE - SS_LUA_RUN_INNER];
    uint32_t inner_count;
    uint32_t first, end; /* of the outer ones, counted from the first that is not an inner one */
} ss_lua_run;

uintptr_t ss_lua_ci_at_level(lua_State *L, int level);

/* Find the level of the cursor's ci; without one it ends there. */
void ss_lua_cursor_place(ss_lua_cursor *at);

/* To the next level where the links are not known. */
void ss_lua_step_by_level(ss_lua_cursor *at);

static inline void ss_lua_step(const ss_lua_layout *layout, ss_lua_cursor *at)
{
    uintptr_t outer;

    if (layout->previous == SS_LUA_UNKNOWN) {
        ss_lua_step_by_level(at);
        return;
    }
    outer = ss_lua_word(at->ci + layout->previous);
    /* The base level, which has nothing outside of it, is no activation. */
    at->ci = outer && ss_lua_word(outer + layout->previous) ? outer : 0;
}

/* The activations from AT outward, up to but without STOP (0: to the end), of which the first INNER
   are inner ones. */
void ss_lua_run_find(const ss_lua_layout *layout, ss_lua_cursor at, uintptr_t stop, uint32_t inner,
                     ss_lua_run *found);

/* The outer activation with the number I, from first to end. */
static inline uintptr_t ss_lua_run_outer(const ss_lua_run *found, uint32_t i)
{
    return found->outer[i % (SS_LUA_RUN_WHOLE - SS_LUA_RUN_INNER)];
}

/* The token of the gap that says how many were left out. */
uintptr_t ss_lua_levels_gap(uint32_t count);

#endif
