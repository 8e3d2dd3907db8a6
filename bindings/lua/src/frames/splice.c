/* Puts the activations of one coroutine, as tokens, in the place of native frames. */
#include "frames/splice.h"

bool ss_lua_flush(ss_lua_collection *c)
{
    uint32_t count = c->token_count;

    c->token_count = 0;
    return count == 0 || stacksplice_walk_push_all(c->walk, c->tokens, count);
}

bool ss_lua_splice(ss_lua_collection *c, uint32_t first, uint32_t count)
{
    c->spliced = first + count;
    return ss_lua_flush(c) && stacksplice_walk_splice(c->walk, first, count);
}

/* ---- Runs of activations ---------------------------------------------------------------------*/

static SS_LUA_NOINLINE bool push_tail_calls(ss_lua_collection *c)
{
    if (!c->tail_calls)
        c->tail_calls = ss_lua_gap(SS_LUA_TAIL_CALLS);
    return ss_lua_push(c, c->tail_calls);
}

static inline bool push_token(ss_lua_collection *c, uintptr_t token, lua_State *L, uintptr_t ci,
                              bool tail_call)
{
    if (c->log)
        ss_lua_log_activation(c->log, token, L, ci);
    return ss_lua_push(c, token) && (!tail_call || push_tail_calls(c));
}

/* Push the activation CI by asking Lua. */
bool ss_lua_push_asked(ss_lua_collection *c, const ss_lua_call_site *site, uintptr_t ci,
                       stacksplice_trust trust)
{
    return push_token(c, ss_lua_asked_token(site->interpreter, site->L, ci, trust), site->L, ci,
                      ss_lua_is_tail_call(ci));
}

static inline bool push_keyed(ss_lua_collection *c, const ss_lua_call_site *site,
                              const ss_lua_activation *at, const ss_lua_activation *caller)
{
    return push_token(c, ss_lua_token(site->interpreter, site->L, at, caller), site->L, at->ci,
                      at->status & SS_LUA_TAIL_CALLED);
}

/*
 * Push the activations from *CI outward, at most LIMIT, up to but without STOP; *CI becomes the
 * first one left.  Each activation has one outside of it, except the coroutine's base level, which
 * is no activation and ends the run.
 */
static bool push_keyed_run(ss_lua_collection *c, const ss_lua_call_site *site, uintptr_t *ci,
                           uint32_t limit, uintptr_t stop)
{
    ss_lua_activation pair[2], *at = &pair[0], *caller = &pair[1], *passed;

    ss_lua_read_outside(site, *ci, at);
    do {
        ss_lua_activation_read(at->outer, caller);
        if (!push_keyed(c, site, at, caller))
            return false;
        if (!caller->outer) {
            *ci = 0;
            return true;
        }
        passed = at;
        at = caller;
        caller = passed;
    } while (at->ci != stop && --limit > 0);
    *ci = at->ci;
    return true;
}

/* The same, also where only Lua is to say what they are. */
static bool push_part(ss_lua_collection *c, const ss_lua_call_site *site, uintptr_t *ci,
                      stacksplice_trust trust, uint32_t limit, uintptr_t stop)
{
    if (!*ci || *ci == stop || !limit)
        return true;
    if (trust == STACKSPLICE_TRUST_EXACT)
        return push_keyed_run(c, site, ci, limit, stop);
    for (; *ci && *ci != stop && limit; limit--, *ci = ss_lua_outer(*ci))
        if (!ss_lua_push_asked(c, site, *ci, trust))
            return false;
    return true;
}

/* Of a long run push both ends, since no stack keeps more. */
bool ss_lua_push_run(ss_lua_collection *c, const ss_lua_call_site *site, uintptr_t ci,
                     stacksplice_trust trust, uintptr_t stop)
{
    uint32_t ends = c->walk->run_ends, length;

    if (!push_part(c, site, &ci, trust, ends, stop))
        return false;
    if (ci && ci != stop) {
        length = ss_lua_run_length(ci, stop);
        if (length > ends && !ss_lua_push(c, stacksplice_left_out(length - ends)))
            return false;
        for (; length > ends; length--)
            ci = ss_lua_outer(ci);
        if (!push_part(c, site, &ci, trust, length, stop))
            return false;
    }
    if (!ci && stop) /* that is no activation of this coroutine any more */
        c->sites[site->first ? site - c->sites : site->latest].closed = true;
    return true;
}

bool ss_lua_push_run_here(ss_lua_collection *c, const ss_lua_call_site *site, uint32_t frame,
                          uintptr_t from, stacksplice_trust trust, uintptr_t stop)
{
    uintptr_t hooked = site->hook && frame == site->frame ? site->ci : 0;
    uintptr_t end = ss_lua_run_end(c, frame, from, stop, hooked);
    uint32_t next, hole;

    if (!ss_lua_push_run(c, site, from, trust, end))
        return false;
    if (end == stop || c->too_many)
        return true;
    hole = ss_lua_hole_behind(c, frame, &next);
    if (hole == SS_LUA_NO_HOLE || c->rest.ci)
        return ss_lua_push(c,
                           ss_lua_gap("outer frames of this coroutine were called from elsewhere"));
    c->rest = (ss_lua_rest){site, end, stop, hole, next};
    return true;
}

/* ---- Behind a hole of the walk ---------------------------------------------------------------*/

/* The first activation from CI outward whose function has its frame from *FRAME on; *FRAME becomes
   that frame.  0 if there is none. */
static uintptr_t next_with_frame(const ss_lua_collection *c, uintptr_t ci, uint32_t *frame)
{
    for (uint32_t n = 0; ci && ci != c->rest.stop && n < SS_LUA_RUN_LIMIT; n++) {
        uintptr_t function = ss_lua_c_function_of(ci);

        for (uint32_t i = *frame; function && i < c->rest.end; i++)
            if (c->walk->frames[i].function == function) {
                *frame = i;
                return ci;
            }
        ci = ss_lua_outer(ci);
    }
    return 0;
}

bool ss_lua_push_rest(ss_lua_collection *c)
{
    const ss_lua_rest *rest = &c->rest;
    uint32_t frame = rest->frame < c->spliced ? c->spliced : rest->frame;
    bool ended = frame == c->walk->frame_count;
    uintptr_t from = rest->ci, at;

    if (!ss_lua_splice(c, frame, 0) ||
        (ended && stacksplice_has_other_sources("lua") &&
         !ss_lua_push(c, ss_lua_gap("without native frames, order relative to other languages "
                                    "unknown"))))
        return false;
    while ((at = next_with_frame(c, from, &frame))) {
        if (!ss_lua_push_run(c, rest->site, from, STACKSPLICE_TRUST_INFERRED, at) ||
            !ss_lua_splice(c, ++frame, 0))
            return false;
        from = ss_lua_outer(at);
    }
    c->rest.ci = 0;
    return ss_lua_push_run(c, rest->site, from,
                           ended ? STACKSPLICE_TRUST_EXACT : STACKSPLICE_TRUST_INFERRED,
                           rest->stop);
}
