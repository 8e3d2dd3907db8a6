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
#include "frames/collection.h"

/* The first frame outward of FRAME that is a site, or the number of frames. */
static uint32_t next_site(const ss_lua_collection *c, uint32_t frame)
{
    for (uint32_t i = 0; i < c->site_count; i++)
        if (c->sites[i].frame > frame)
            return c->sites[i].frame;
    return c->walk->frame_count;
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
