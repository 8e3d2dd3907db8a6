#include "run.h"

#include <stdio.h>

uintptr_t ss_lua_ci_at_level(lua_State *L, int level)
{
    lua_Debug activation;

    return lua_getstack(L, level, &activation) ? (uintptr_t)activation.i_ci : 0;
}

/* lua_getstack starts at the innermost level each time, so this is kept short. */
void ss_lua_cursor_place(ss_lua_cursor *at)
{
    uintptr_t ci = at->ci;

    for (at->level = 0; at->level < SS_LUA_RUN_WHOLE; at->level++) {
        at->ci = ss_lua_ci_at_level(at->L, at->level);
        if (at->ci == ci || at->ci == 0)
            return;
    }
    at->ci = 0;
}

void ss_lua_step_by_level(ss_lua_cursor *at)
{
    at->ci = at->level < SS_LUA_RUN_WHOLE ? ss_lua_ci_at_level(at->L, ++at->level) : 0;
}

/* The activations from AT outward, up to but without STOP (0: to the end). */
void ss_lua_run_find(const ss_lua_layout *layout, ss_lua_cursor at, uintptr_t stop, uint32_t inner,
                     ss_lua_run *found)
{
    uint32_t count = 0, rest;

    for (; at.ci && at.ci != stop && count < inner; ss_lua_step(layout, &at))
        found->inner[count++] = at.ci;
    found->inner_count = count;
    for (rest = 0; at.ci && at.ci != stop && rest < SS_LUA_RUN_LIMIT; ss_lua_step(layout, &at))
        found->outer[rest++ % (SS_LUA_RUN_WHOLE - SS_LUA_RUN_INNER)] = at.ci;
    found->end = rest;
    found->first = rest > SS_LUA_RUN_WHOLE - SS_LUA_RUN_INNER ? rest - SS_LUA_RUN_OUTER : 0;
}

uintptr_t ss_lua_levels_gap(uint32_t count)
{
    char reason[64];

    (void)snprintf(reason, sizeof reason, "%u Lua levels left out", count);
    return ss_lua_gap(reason);
}

uint32_t ss_lua_dead_frames(lua_State *dead, uint32_t max, uintptr_t *frames)
{
    const ss_lua_layout *layout = ss_lua_layout_get();
    ss_lua_cursor at = {dead, ss_lua_ci_at_level(dead, 0), 0};
    uint32_t count = 0;
    ss_lua_run found;

    if (!layout || max < SS_LUA_RUN_WHOLE + 1)
        return 0;
    ss_lua_run_find(layout, at, 0, SS_LUA_RUN_INNER, &found);
    for (uint32_t i = 0; i < found.inner_count; i++)
        frames[count++] = ss_lua_activation_token(dead, (struct CallInfo *)found.inner[i],
                                                  STACKSPLICE_TRUST_TRACEBACK);
    if (found.first > 0)
        frames[count++] = ss_lua_levels_gap(found.first);
    for (uint32_t i = found.first; i < found.end; i++)
        frames[count++] = ss_lua_activation_token(
            dead, (struct CallInfo *)ss_lua_run_outer(&found, i), STACKSPLICE_TRUST_TRACEBACK);
    return count;
}
