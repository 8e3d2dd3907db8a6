/*
 * Where a coroutine's part of this native stack ends.  A coroutine may have been called on several
 * stacks: on a thread's, and from inside of that on a fiber's.
 *
 * Every function in C that Lua called has a call site among the frames of its stack, and there the
 * run that is inside of it ends.  So a run that comes upon a C activation earlier has come to where
 * this stack entered Lua; that activation and all outward of it belong to frames that are not here.
 * But a coroutine that was resumed here had no frames anywhere before, so all of it belongs here,
 * with C activations that lost their frames when they yielded.
 */
#include "frames/collection.h"

static bool is_c(const ss_lua_layout *layout, const ss_lua_cursor *at)
{
    lua_Debug activation = {.i_ci = (struct CallInfo *)at->ci};

    if (layout->function != SS_LUA_UNKNOWN && layout->lua_tag) {
        uintptr_t slot = ss_lua_word(at->ci + layout->function);

        return *(const uint8_t *)(slot + sizeof(uintptr_t)) != layout->lua_tag;
    }
    lua_getinfo(at->L, "S", &activation);
    return *activation.what == 'C';
}

/* The first frame outward of FRAME that is a site, or the number of frames. */
static uint32_t next_site(const ss_lua_collection *c, uint32_t frame)
{
    for (uint32_t i = 0; i < c->site_count; i++)
        if (c->sites[i].frame > frame)
            return c->sites[i].frame;
    return c->walk->frame_count;
}

uintptr_t ss_lua_run_end(const ss_lua_collection *c, uint32_t frame, ss_lua_cursor from,
                         uintptr_t stop, uintptr_t hooked)
{
    for (uint32_t i = 0; from.ci && from.ci != stop && i < SS_LUA_RUN_LIMIT; i++) {
        if (from.ci != hooked && is_c(c->layout, &from))
            return ss_lua_resumes_between(c, frame, next_site(c, frame)) ? stop : from.ci;
        ss_lua_step(c->layout, &from);
    }
    return stop;
}
