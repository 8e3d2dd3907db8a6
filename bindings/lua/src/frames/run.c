/* Runs of activations, and where they end. */
#include "frames/collection.h"

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

/* ---- The end of a run on this stack -----------------------------------------------------------*/

/*
 * Where a coroutine's part of this native stack ends.  A coroutine may have been called on several
 * stacks: on a thread's, and from inside of that on a fiber's.
 *
 * Every C function that Lua called has a call site on its stack, and the run inside it ends there.
 * A C activation before the expected site therefore marks where this stack entered Lua: it and all
 * activations outward of it have their frames on another stack.  The exception is a coroutine that
 * was resumed on this stack: all of it belongs here, including C activations that lost their frames
 * when they yielded.  Nor does a missing site prove anything where the walk has lost frames.
 */

/* The first frame outward of FRAME that is a site, or the number of frames. */
static uint32_t next_site(const ss_lua_collection *c, uint32_t frame)
{
    for (uint32_t i = 0; i < c->site_count; i++)
        if (c->sites[i].frame > frame)
            return c->sites[i].frame;
    return c->walk->frame_count;
}

bool ss_lua_resumes_between(const ss_lua_collection *c, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        if (c->walk->frames[i].function == (uintptr_t)lua_resume)
            return true;
    return false;
}

uintptr_t ss_lua_run_end(const ss_lua_collection *c, uint32_t frame, uintptr_t ci, uintptr_t stop,
                         uintptr_t hooked)
{
    for (uint32_t i = 0; ci && ci != stop && i < SS_LUA_RUN_LIMIT; i++, ci = ss_lua_outer(ci))
        if (ci != hooked && !ss_lua_is_in_lua(ci))
            return ss_lua_resumes_between(c, frame, next_site(c, frame)) ? stop : ci;
    return stop;
}

/*
 * Whether the walk ended before the stack did.  Where a fiber begins, some C libraries have no unwind
 * data: what is left of the stack there has no room for a frame of Lua.
 */
static bool ended_early(const stacksplice_walk *walk)
{
    enum { ROOM_OF_A_START = 128 };
    uintptr_t outermost = walk->frame_count ? walk->frames[walk->frame_count - 1].sp : 0;

    return walk->truncated &&
           (outermost >= walk->stack_high || walk->stack_high - outermost > ROOM_OF_A_START);
}

uint32_t ss_lua_hole_behind(const ss_lua_collection *c, uint32_t frame, uint32_t *next)
{
    const stacksplice_walk *walk = c->walk;

    *next = next_site(c, frame);
    for (uint32_t i = frame + 1; i < *next; i++)
        if (walk->frames[i].flags & STACKSPLICE_NATIVE_INFERRED)
            return i;
    return *next == walk->frame_count && ended_early(walk) ? *next : SS_LUA_NO_HOLE;
}
