/*
 * Call sites that calibration never met: a frame of the interpreter, at no known site, called a
 * frame that is not Lua's.  If the called function is among the activations of a coroutine, that
 * activation gives the place in the coroutine's chain.  Otherwise a gap reports the missed call.
 */
#include "frames/collection.h"

void ss_lua_missed_note(ss_lua_collection *c, uint32_t frame)
{
    const stacksplice_native_frame *frames = c->walk->frames;
    bool goes_on = frame > 0 && frame == c->unclaimed_end;
    uint8_t inside;

    c->unclaimed_end = frame + 1;
    if (goes_on) {
        if (c->unclaimed_is_missed)
            c->missed[c->missed_count - 1].hidden++;
        return;
    }
    c->unclaimed_is_missed = false;
    if (frame == 0 || frames[frame].flags & STACKSPLICE_NATIVE_SIGNAL ||
        ss_lua_is_callback(c->layout, frames[frame].ip) || c->missed_count == SS_LUA_MISSED)
        return;
    inside = ss_lua_mark_of(c, frame - 1);
    if (inside && inside != SS_LUA_MARK_NEAR)
        return;
    c->missed[c->missed_count++] =
        (ss_lua_missed){.frame = frame, .hidden = 1, .may_be_none = inside != 0};
    c->unclaimed_is_missed = true;
}

/* The innermost activation of FUNCTION from FROM outward up to STOP; 0 when there is none. */
static uintptr_t find_activation(uintptr_t from, uintptr_t stop, uintptr_t function)
{
    uintptr_t ci = from;

    for (uint32_t i = 0; ci && ci != stop && i < SS_LUA_RUN_LIMIT; i++, ci = ss_lua_outer(ci))
        if (ss_lua_c_function_of(ci) == function)
            return ci;
    return 0;
}

/* The range of activations that the missed site number WHICH divides. */
typedef struct range {
    lua_State *L;
    uintptr_t from, stop;
    uintptr_t *cut; /* what must end at the called activation; NULL: nothing is inside */
    ss_lua_call_site *site;
} range;

/* It begins after the nearest site of the same coroutine inside it, or at the innermost
   activation. */
static bool find_range(ss_lua_collection *c, uint32_t which, uint32_t outer, range *found)
{
    ss_lua_missed *inner = NULL;
    lua_State *L = NULL;

    for (uint32_t i = 0; i < which; i++)
        if (c->missed[i].ci)
            inner = &c->missed[i];
    if (outer < c->site_count &&
        !ss_lua_resumes_between(c, c->missed[which].frame, c->sites[outer].frame))
        L = c->sites[outer].L;
    for (uint32_t i = outer; i-- > 0;) {
        ss_lua_call_site *site = &c->sites[i];

        if (inner && inner->frame > site->frame)
            break;
        if (!c->sites[site->first ? i : site->latest].closed &&
            (L ? site->L == L : site->stop == 0)) {
            *found = (range){site->L, site->hook ? site->ci : ss_lua_outer(site->ci), site->stop,
                             &site->stop, site};
            return true;
        }
    }
    if (inner && (L ? inner->L == L : inner->stop == 0)) {
        *found = (range){inner->L, ss_lua_outer(inner->ci), inner->stop, &inner->stop, inner->site};
        return true;
    }
    if (!L || !c->sites[outer].first || c->sites[outer].sited)
        return false;
    *found = (range){L, ss_lua_innermost(L), c->sites[outer].ci, NULL, &c->sites[outer]};
    return true;
}

static void place(ss_lua_collection *c, uint32_t which)
{
    ss_lua_missed *missed = &c->missed[which];
    uint32_t outer = 0;
    uintptr_t ci;
    range in;

    while (outer < c->site_count && c->sites[outer].frame < missed->frame)
        outer++;
    if (!find_range(c, which, outer, &in))
        return;
    ci = find_activation(in.from, in.stop, c->walk->frames[missed->frame - 1].function);
    /* If nothing is inside, the called function must be the running one. */
    if (!ci || (!in.cut && ci != in.from))
        return;
    missed->L = in.L;
    missed->site = in.site;
    missed->ci = ci;
    missed->stop = in.stop;
    if (in.cut)
        *in.cut = ci;
    else
        in.site->sited = true;
}

void ss_lua_missed_place(ss_lua_collection *c)
{
    for (uint32_t i = 0; i < c->missed_count; i++)
        place(c, i);
}
