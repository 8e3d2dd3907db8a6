#include "frames/run.h"

uintptr_t ss_lua_innermost(lua_State *L)
{
    lua_Debug activation;

    return lua_getstack(L, 0, &activation) ? (uintptr_t)activation.i_ci : 0;
}

uint32_t ss_lua_run_length(uintptr_t ci, uintptr_t stop)
{
    uint32_t length = 0;

    for (; ci && ci != stop && length < SS_LUA_RUN_LIMIT; ci = ss_lua_outer(ci))
        length++;
    return length;
}

const void *ss_lua_saved_pc(const void *ci)
{
    const ss_lua_layout *layout = ss_lua_layout_peek();

    return layout && !layout->failure ? (const void *)ss_lua_pc_of((uintptr_t)ci) : NULL;
}

uint32_t ss_lua_dead_frames(lua_State *dead, uint32_t max, uintptr_t *frames,
                            ss_lua_activation_log *log)
{
    const ss_lua_layout *layout = ss_lua_layout_get();
    uintptr_t ci = ss_lua_innermost(dead);
    uint32_t count = 0, length, left_out;

    if (!layout || max < 2)
        return 0;
    if (layout->failure) {
        frames[0] = ss_lua_gap(layout->failure);
        return 1;
    }
    length = ss_lua_run_length(ci, 0);
    left_out = length > max - 2 ? length - (max - 2) : 0;
    for (uint32_t i = 0; i < length; i++, ci = ss_lua_outer(ci)) {
        if (left_out && i == max / 2) {
            frames[count++] = stacksplice_left_out(left_out);
            for (; i < max / 2 + left_out; i++)
                ci = ss_lua_outer(ci);
        }
        frames[count] =
            ss_lua_activation_token(dead, (struct CallInfo *)ci, STACKSPLICE_TRUST_TRACEBACK);
        if (log)
            ss_lua_log_activation(log, frames[count], dead, ci);
        count++;
        if (ss_lua_is_tail_call(ci))
            frames[count++] = ss_lua_gap(SS_LUA_TAIL_CALLS);
    }
    return count;
}
