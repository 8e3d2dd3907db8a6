/* Where the activations of each coroutine belong among the native frames. */
#include "frames/splice.h"

#include <stdlib.h>

enum {
    NAMED_FUNCTIONS = 1024,
    NAMELESS_SIGHTS = 1000, /* how often a nameless function is seen before it is looked up again */
    ROOM_FOR_NAMES = 6
};

/* ---- Names of C functions --------------------------------------------------------------------*/

/*
 * Whether to look up the name of FUNCTION now: not if it has one already, and not each time if it
 * has none.  Threads may take each other's entries: that costs only time.
 */
static bool wants_name(uintptr_t function)
{
    static struct {
        _Atomic(uintptr_t) function;
        _Atomic(uint32_t) sights; /* until the next lookup; UINT32_MAX: never */
    } named[NAMED_FUNCTIONS];
    size_t at = (function >> 4) % NAMED_FUNCTIONS;
    uint32_t sights = atomic_load_explicit(&named[at].sights, memory_order_relaxed);

    if (atomic_load_explicit(&named[at].function, memory_order_relaxed) == function && sights > 0) {
        atomic_store_explicit(&named[at].sights, sights - 1, memory_order_relaxed);
        return false;
    }
    atomic_store_explicit(&named[at].function, function, memory_order_relaxed);
    atomic_store_explicit(&named[at].sights, NAMELESS_SIGHTS, memory_order_relaxed);
    return true;
}

/* Give the core the scripts' name of a C function whose own frame is on the stack. */
static void name_c_function(const ss_lua_collection *c, const ss_lua_call_site *site)
{
    uintptr_t function = ss_lua_c_function_of(site->ci);
    const char *name;

    if (!function || c->walk->frames[site->frame - 1].function != function ||
        !site->interpreter->rest || !wants_name(function))
        return;
    name = ss_lua_c_function_name(site->interpreter, site->L, site->ci);
    if (name)
        (void)stacksplice_name_function(function, "lua", name);
}

/* ---- Suspended coroutines -------------------------------------------------------------------- */

/*
 * Whether Lua runs inside of the C function that the innermost site called, as it does when an
 * allocator captures.  In a file that contains Lua, functions of others may lie among those of Lua.
 * If the called function does, that others are near says nothing.
 */
static bool lua_runs_inside(const ss_lua_collection *c, const ss_lua_call_site *site)
{
    const stacksplice_native_frame *frames = c->walk->frames;
    bool among = site->frame > 0 && ss_lua_mark_of(c, site->frame - 1) == SS_LUA_MARK_NEAR &&
                 frames[site->frame - 1].function == ss_lua_c_function_of(site->ci);

    for (uint32_t i = 0; i < site->frame; i++) {
        uint8_t mark = ss_lua_mark_of(c, i);

        if (mark && !(among && mark == SS_LUA_MARK_NEAR))
            return true;
        if (mark && ss_lua_is_callback(c->layout, frames[i].ip))
            return true;
    }
    return false;
}

bool ss_lua_rests(lua_State *L, uintptr_t ci)
{
    return ss_lua_innermost(L) == ci && ss_lua_has_room(L, ROOM_FOR_NAMES);
}

/* Whether the coroutine of a site is suspended in the C function that the site called. */
static bool rests_at(const ss_lua_collection *c, uint32_t index)
{
    const ss_lua_call_site *site = &c->sites[index];

    return (index > 0 || !lua_runs_inside(c, site)) && ss_lua_rests(site->L, site->ci);
}

/* Decide what may be done with the innermost coroutine of each state, and log the coroutines. */
static void open_interpreters(ss_lua_collection *c)
{
    uint32_t opened = 0;

    for (uint32_t i = 0; i < c->site_count; i++) {
        ss_lua_interpreter *interpreter = c->sites[i].interpreter;

        if (c->sites[i].first)
            ss_lua_log_coroutine(c, c->sites[i].L);
        if (interpreter != &c->interpreters[opened] || opened == c->interpreter_count)
            continue; /* interpreters were met in the order of sites */
        opened++;
        if (!interpreter->rest && rests_at(c, i))
            interpreter->rest = c->sites[i].L;
        interpreter->cached = interpreter->rest && interpreter->record;
        if (interpreter->cached)
            ss_lua_cache_begin(interpreter->rest, interpreter->record);
    }
}

/* ---- Activations inside of the innermost site ------------------------------------------------*/

/*
 * The coroutine runs something without a site: Lua code that allocates while the allocator
 * captures, or a call site that calibration never met.  A frame whose function is the activation's
 * shows where it belongs.  Otherwise a gap says that the place is unknown.
 */
static bool push_unsited(ss_lua_collection *c, uint32_t index)
{
    const ss_lua_call_site *site = &c->sites[index];
    uint32_t inner = index ? site[-1].frame + site[-1].hidden : 0;
    uint32_t at = site->frame ? site->frame - 1 : 0;
    uintptr_t ci = ss_lua_innermost(site->L), function;

    if (ci == 0 || ci == site->ci)
        return true;
    function = ss_lua_c_function_of(ci);
    for (uint32_t i = inner; function && i < at; i++)
        if (c->walk->frames[i].function == function)
            return ss_lua_splice(c, i + 1, 0) &&
                   ss_lua_push_run(c, site, ss_lua_outer(ci), STACKSPLICE_TRUST_INFERRED, site->ci);
    /* Lua code that is in no call to C runs in a frame between these two. */
    return ss_lua_splice(c, at < inner ? inner : at, 0) &&
           (!function || ss_lua_push(c, ss_lua_gap("unrecognized call between Lua and C"))) &&
           ss_lua_push_run(c, site, ci, STACKSPLICE_TRUST_INFERRED, site->ci);
}

/* ---- Collecting ------------------------------------------------------------------------------*/

/*
 * Whether the innermost C activation has lost its frame: its function ended in a tail call of ours
 * (`return stacksplice_lua_raise(L, hr);`), and our frames are not shown.  The activation of a
 * module function is ours too.
 */
static bool lost_its_frame(const ss_lua_call_site *site)
{
    uintptr_t function;

    if (site->frame > 0 || site->hook)
        return false;
    function = ss_lua_c_function_of(site->ci);
    return function && !ss_lua_is_own_function(function);
}

static bool splice_site(ss_lua_collection *c, uint32_t index)
{
    const ss_lua_call_site *site = &c->sites[index];

    if (site->first && !site->sited && !c->capturing && !push_unsited(c, index))
        return false;
    if (c->sites[site->first ? index : site->latest].closed) {
        stacksplice_walk_refuse(c->walk);
        return ss_lua_splice(c, site->frame, site->hidden) &&
               ss_lua_push(c, ss_lua_gap("Lua had already closed these frames"));
    }
    if (!site->hook && site->frame > 0) {
        name_c_function(c, site);
        if (c->log)
            ss_lua_log_activation(c->log, c->walk->frames[site->frame - 1].ip, site->L, site->ci);
    }
    if (!ss_lua_splice(c, site->frame, site->hidden))
        return false;
    if (lost_its_frame(site) && !ss_lua_push_asked(c, site, site->ci, STACKSPLICE_TRUST_EXACT))
        return false;
    return ss_lua_push_run_here(c, site, site->frame,
                                site->hook ? site->ci : ss_lua_outer(site->ci),
                                STACKSPLICE_TRUST_EXACT, site->stop);
}

/* Whether FRAME is that of the C library's abort, or code that called it and that the compiler has
   moved out of a function of Lua. */
static bool is_abort(const ss_lua_collection *c, uint32_t frame)
{
    const stacksplice_native_frame *frames = c->walk->frames;

    return frames[frame].function == (uintptr_t)abort ||
           (frame && frames[frame - 1].function == (uintptr_t)abort);
}

/* Whether this is none of the calls that a site stands for: Lua calls its panic function, or
   abort, when no activation has caught an error. */
static bool is_no_call(const ss_lua_collection *c, const ss_lua_missed *missed)
{
    return missed->may_be_none || is_abort(c, missed->frame - 1) ||
           (c->site_count && c->sites[0].closed && missed->frame < c->sites[0].frame);
}

/* Push the missed sites inside of frame END that were not pushed yet. */
static bool push_missed_until(ss_lua_collection *c, uint32_t end)
{
    for (; c->missed_pushed < c->missed_count; c->missed_pushed++) {
        const ss_lua_missed *missed = &c->missed[c->missed_pushed];

        if (missed->frame >= end)
            return true;
        if (!missed->ci && is_no_call(c, missed))
            continue;
        if (!ss_lua_splice(c, missed->frame, missed->ci ? missed->hidden : 0))
            return false;
        if (!missed->ci) {
            if (!ss_lua_push(c, ss_lua_gap("unrecognized call between Lua and C")))
                return false;
            continue;
        }
        if (!ss_lua_push_run_here(c, missed->site, missed->frame, ss_lua_outer(missed->ci),
                                  STACKSPLICE_TRUST_INFERRED, missed->stop))
            return false;
    }
    return true;
}

/* The same, with what lies where the walk has lost frames. */
static bool push_missed(ss_lua_collection *c, uint32_t end)
{
    while (c->rest.ci && c->rest.frame <= end)
        if (!push_missed_until(c, c->rest.frame) || !ss_lua_push_rest(c))
            return false;
    return push_missed_until(c, end);
}

/* The state in which a function of ours captures on the stack of WALK, or NULL. */
static const ss_lua_state *state_capturing(const stacksplice_walk *walk)
{
    ss_lua_state *state = atomic_load(&ss_lua_the_shared->states);

    for (; state; state = __atomic_load_n(&state->next, __ATOMIC_ACQUIRE)) {
        uintptr_t above = atomic_load(&state->capturing_above);

        if (above >= walk->stack_low && above < walk->stack_high)
            return state;
    }
    return NULL;
}

/* Without native frames we know only the coroutine in which a function of ours captures. */
static void push_capturing(ss_lua_collection *c, const ss_lua_state *state)
{
    lua_State *L = state->capturing;
    ss_lua_call_site site = {.L = L, .first = true, .interpreter = ss_lua_interpreter_of(c, L)};
    uintptr_t ci = ss_lua_innermost(L);

    c->log = ss_lua_cache_of(state)->log;
    ss_lua_log_coroutine(c, L);
    if (ci && ss_lua_is_own_function(ss_lua_c_function_of(ci)))
        ci = ss_lua_outer(ci);
    (void)(ss_lua_splice(c, 0, 0) &&
           ss_lua_push(c, ss_lua_gap("without native frames, only the running "
                                     "coroutine's frames known")) &&
           ss_lua_push_run(c, &site, ci, STACKSPLICE_TRUST_EXACT, 0) && ss_lua_flush(c));
}

/* Splice what belongs to the found sites. */
void ss_lua_splice_all(ss_lua_collection *c)
{
    const ss_lua_state *state;

    if (!c->walk->frame_count && (state = state_capturing(c->walk)))
        push_capturing(c, state);
    if (c->missed_count > 0)
        ss_lua_missed_place(c);
    if (!ss_lua_push_running(c))
        return;
    open_interpreters(c);
    for (uint32_t i = 0; i < c->site_count; i++)
        if (!push_missed(c, c->sites[i].frame) || !splice_site(c, i))
            return;
    if (!push_missed(c, c->walk->frame_count))
        return;
    if (c->too_many && (!ss_lua_splice(c, c->sites[c->site_count - 1].frame + 1, 0) ||
                        !ss_lua_push(c, ss_lua_gap("too many calls between C and Lua to follow"))))
        return;
    (void)ss_lua_flush(c);
}
