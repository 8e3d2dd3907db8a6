/* Splices: tokens in the place of the interpreter's native frames. */
#ifndef SS_LUA_SPLICE_H
#define SS_LUA_SPLICE_H

#include "frames/collection.h"

/* Pass the pushed tokens to the walk; false when it wants no more. */
bool ss_lua_flush(ss_lua_collection *c);

/* What is pushed from now on replaces COUNT native frames from FIRST outward. */
bool ss_lua_splice(ss_lua_collection *c, uint32_t first, uint32_t count);

static inline bool ss_lua_push(ss_lua_collection *c, uintptr_t token)
{
    if (c->token_count == SS_LUA_TOKENS && !ss_lua_flush(c))
        return false;
    c->tokens[c->token_count++] = token;
    return true;
}

/* Read CI, an activation outside of SITE; with its callee if that is the site's function.  Not only
   where the walk has a frame of that: captures that begin further outward must give the same token. */
static inline void ss_lua_read_outside(const ss_lua_call_site *site, uintptr_t ci,
                                       ss_lua_activation *out)
{
    ss_lua_activation_read(ci, out);
    if (site->ci && !site->hook)
        ss_lua_note_callee(out, site->ci);
}

/* Push the activation CI by asking Lua. */
bool ss_lua_push_asked(ss_lua_collection *c, const ss_lua_call_site *site, uintptr_t ci,
                       stacksplice_trust trust);

/* Push the activations from CI outward, up to but without STOP (0: to the end). */
bool ss_lua_push_run(ss_lua_collection *c, const ss_lua_call_site *site, uintptr_t ci,
                     stacksplice_trust trust, uintptr_t stop);

/*
 * Push the activations from FROM outward that the frames of Lua from FRAME on ran.  If the coroutine
 * continues elsewhere, push a gap; if it may continue where the walk has lost frames, note the rest.
 */
bool ss_lua_push_run_here(ss_lua_collection *c, const ss_lua_call_site *site, uint32_t frame,
                          uintptr_t from, stacksplice_trust trust, uintptr_t stop);

/* Push the rest that was noted, in its place. */
bool ss_lua_push_rest(ss_lua_collection *c);

/* Push what Lua's own loop runs inside of all sites, if it can be known. */
bool ss_lua_push_running(ss_lua_collection *c);

/* Note in the log of the capture, if it has one, that L runs here; the innermost first. */
static inline void ss_lua_log_coroutine(const ss_lua_collection *c, lua_State *L)
{
    ss_lua_activation_log *log = c->log;

    if (log && log->state_count < SS_LUA_DISPLACED)
        log->states[log->state_count++] = L;
}

#endif
