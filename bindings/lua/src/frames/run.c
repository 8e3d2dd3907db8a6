#include "frames/run.h"

uintptr_t ss_lua_ci_at_level(lua_State *L, int level)
{
    lua_Debug activation;

    return lua_getstack(L, level, &activation) ? (uintptr_t)activation.i_ci : 0;
}

/* lua_getstack searches from the innermost level each time, so keep this short. */
void ss_lua_cursor_place(ss_lua_cursor *at)
{
    uintptr_t ci = at->ci;

    for (at->level = 0; at->level < SS_LUA_LEVEL_LIMIT; at->level++) {
        at->ci = ss_lua_ci_at_level(at->L, at->level);
        if (at->ci == ci || at->ci == 0)
            return;
    }
    at->ci = 0;
}

void ss_lua_step_by_level(ss_lua_cursor *at)
{
    at->ci = at->level < SS_LUA_LEVEL_LIMIT ? ss_lua_ci_at_level(at->L, ++at->level) : 0;
}

uint32_t ss_lua_run_length(const ss_lua_layout *layout, ss_lua_cursor at, uintptr_t stop)
{
    uint32_t length = 0;

    for (; at.ci && at.ci != stop && length < SS_LUA_RUN_LIMIT; ss_lua_step(layout, &at))
        length++;
    return length;
}

uintptr_t ss_lua_run_cut(const ss_lua_layout *layout, const ss_lua_cursor *at)
{
    if (layout->previous != SS_LUA_UNKNOWN || at->ci || at->level < SS_LUA_LEVEL_LIMIT ||
        !ss_lua_ci_at_level(at->L, at->level + 1))
        return 0;
    return ss_lua_gap("outer Lua frames omitted: number unknown");
}

const void *ss_lua_saved_pc(const void *ci)
{
    const ss_lua_layout *layout = ss_lua_layout_peek();

    if (!layout || layout->failure || layout->saved_pc == SS_LUA_UNKNOWN)
        return NULL;
    return (const void *)ss_lua_word((uintptr_t)ci + layout->saved_pc);
}

uint32_t ss_lua_dead_frames(lua_State *dead, uint32_t max, uintptr_t *frames,
                            ss_lua_activation_log *log)
{
    const ss_lua_layout *layout = ss_lua_layout_get();
    ss_lua_cursor at = {dead, ss_lua_ci_at_level(dead, 0), 0};
    uint32_t count = 0, length, left_out;

    if (!layout || max < 2)
        return 0;
    length = ss_lua_run_length(layout, at, 0);
    left_out = length > max - 2 ? length - (max - 2) : 0;
    for (uint32_t i = 0; i < length; i++, ss_lua_step(layout, &at)) {
        if (left_out && i == max / 2) {
            frames[count++] = stacksplice_left_out(left_out);
            for (; i < max / 2 + left_out; i++)
                ss_lua_step(layout, &at);
        }
        frames[count] =
            ss_lua_activation_token(dead, (struct CallInfo *)at.ci, STACKSPLICE_TRUST_TRACEBACK);
        if (log)
            ss_lua_log_activation(log, frames[count], dead, at.ci);
        count++;
        if (ss_lua_is_tail_call(layout, dead, at.ci))
            frames[count++] = ss_lua_gap(SS_LUA_TAIL_CALLS);
    }
    if (ss_lua_run_cut(layout, &at))
        frames[count++] = ss_lua_run_cut(layout, &at);
    return count;
}
