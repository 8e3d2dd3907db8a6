/* Puts the activations of one coroutine, as tokens, in the place of native frames. */
#include "frames/collection.h"

#include <stdio.h>
#include <stdlib.h>

bool ss_lua_flush(ss_lua_collection *c)
{
    uint32_t count = c->token_count;

    c->token_count = 0;
    return count == 0 || stacksplice_walk_push_all(c->walk, c->tokens, count);
}

/* What is pushed from now on replaces COUNT native frames from FIRST outward. */
static bool open_splice(ss_lua_collection *c, uint32_t first, uint32_t count)
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
static bool push_asked(ss_lua_collection *c, const ss_lua_call_site *site, uintptr_t ci,
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
        if (!push_asked(c, site, *ci, trust))
            return false;
    return true;
}

/* Of a long run push both ends, since no stack keeps more. */
static bool push_run(ss_lua_collection *c, const ss_lua_call_site *site, uintptr_t ci,
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

/* LuaJIT has one site only: where that does not help, a signal has interrupted it, or a trace ends. */
#if SS_LUA_JIT
#define MISSED_CALL "LuaJIT does not tell which Lua functions run here"
#else
#define MISSED_CALL "unrecognized call between Lua and C"
#endif

/*
 * Push the activations from FROM outward that the frames of Lua from FRAME on ran.  If the coroutine
 * continues elsewhere, push a gap, unless that of a missed site follows; if it may continue where the
 * walk has lost frames, note the rest.
 */
static bool push_run_here(ss_lua_collection *c, const ss_lua_call_site *site, uint32_t frame,
                          uintptr_t from, stacksplice_trust trust, uintptr_t stop)
{
    uintptr_t end = ss_lua_run_end(c, site, frame, from, stop);
    uint32_t next, hole;

    if (!push_run(c, site, from, trust, end))
        return false;
    if (end == stop || c->too_many || ss_lua_misses_behind(c, frame, true))
        return true;
    hole = ss_lua_hole_behind(c, frame, &next);
    if (hole == SS_LUA_NO_HOLE || c->rest.ci) {
        bool missed = ss_lua_misses_behind(c, frame, false);

        return ss_lua_push(
            c, ss_lua_gap(missed ? MISSED_CALL
                                 : "outer frames of this coroutine were called from elsewhere"));
    }
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

/* Push the rest that was noted, in its place. */
static bool push_rest(ss_lua_collection *c)
{
    const ss_lua_rest *rest = &c->rest;
    uint32_t frame = rest->frame < c->spliced ? c->spliced : rest->frame;
    bool ended = frame == c->walk->frame_count;
    uintptr_t from = rest->ci, at;

    if (!open_splice(c, frame, 0) ||
        (ended && stacksplice_has_other_sources("lua") &&
         !ss_lua_push(c, ss_lua_gap("without native frames, order relative to other languages "
                                    "unknown"))))
        return false;
    while ((at = next_with_frame(c, from, &frame))) {
        if (!push_run(c, rest->site, from, STACKSPLICE_TRUST_INFERRED, at) ||
            !open_splice(c, ++frame, 0))
            return false;
        from = ss_lua_outer(at);
    }
    c->rest.ci = 0;
    return push_run(c, rest->site, from,
                    ended ? STACKSPLICE_TRUST_EXACT : STACKSPLICE_TRUST_INFERRED, rest->stop);
}

/* ---- What Lua's own loop runs -----------------------------------------------------------------*/

/*
 * What Lua's own loop runs, in no call to C, so that no call site tells of it: a signal has
 * interrupted it, or its allocator captures.  It is a coroutine that the innermost site's function
 * has resumed or closes, or a state whose address lies in these frames.  Nothing else is followed.
 */

/* Frames of the interpreter from FIRST up to END; RESUMED: lua_resume is outward of them. */
typedef struct loop {
    uint32_t first, end;
    bool resumed;
} loop;

static bool is_of_lua(const ss_lua_collection *c, uint32_t frame)
{
    uint8_t mark = ss_lua_mark_of(c, frame);

    return mark == SS_LUA_MARK_INTERNAL || mark == SS_LUA_MARK_NEAR;
}

/* The innermost frames of the interpreter, if they are inside of all sites. */
static bool find_loop(const ss_lua_collection *c, loop *found)
{
    uint32_t limit = c->walk->frame_count;
    bool is_sure = false;
    uint32_t at = 0;

    if (c->site_count) /* the frame inside of it is that of the function that it called */
        limit = c->sites[0].frame ? c->sites[0].frame - 1 : 0;
    while (at < limit && !is_of_lua(c, at))
        at++;
    for (found->first = at; at < limit && is_of_lua(c, at); at++)
        is_sure |= ss_lua_mark_of(c, at) == SS_LUA_MARK_INTERNAL;
    found->end = at;
    found->resumed = ss_lua_resumes_between(c, at, limit);
    return is_sure;
}

/* Whether a call to C that has no known site is inside of all sites. */
static bool calls_unknown(const ss_lua_collection *c, const loop *in)
{
    for (uint32_t i = 0; i < c->missed_count; i++)
        if (c->missed[i].frame < in->end && !c->missed[i].may_be_none)
            return true;
    return false;
}

#if !SS_LUA_JIT
/* Whether L runs a function of Lua: neither suspended, nor ended, nor in a function in C. */
static bool runs_lua(lua_State *L)
{
    uintptr_t ci = lua_status(L) == LUA_OK ? ss_lua_innermost(L) : 0, slot, tag, function, word;

    if (!ci || !ss_lua_read_words(ci + SS_LUA_AT_FUNCTION, &slot, 1) ||
        !ss_lua_read_words(slot + sizeof slot, &tag, 1) || !ss_lua_read_words(slot, &function, 1))
        return false;
#if !SS_LUA_TAGS_TELL_C
    return (uint8_t)tag == LUA_TFUNCTION && ss_lua_read_words(function + sizeof word, &word, 1) &&
           !(word >> 16 & 0xff);
#else
    return (uint8_t)tag == SSI_LUA_TAG_LUA && ss_lua_read_words(function, &word, 1);
#endif
}
#else
/* The innermost frame of LuaJIT is in registers of its interpreter. */
static bool runs_lua(lua_State *L)
{
    (void)L;
    return false;
}
#endif

/* The coroutine that the function of SITE has resumed or is closing: coroutine.wrap has it as an
   upvalue, others as an argument.  None but one that runs now is in Lua code. */
static lua_State *entered_by(const ss_lua_call_site *site)
{
    lua_State *parent = site->L, *found;

    if (site->hook || ss_lua_innermost(parent) != site->ci)
        return NULL;
    found = lua_tothread(parent, lua_upvalueindex(1));
    for (int i = 1; !found && i <= lua_gettop(parent); i++)
        found = lua_tothread(parent, i);
    return found && found != parent && runs_lua(found) ? found : NULL;
}

static bool lies_in(const ss_lua_collection *c, const loop *in, lua_State *L)
{
    const stacksplice_walk *walk = c->walk;
    uintptr_t at = walk->frames[in->first].sp, end = walk->stack_high;

    if (in->end + 1 < walk->frame_count)
        end = walk->frames[in->end + 1].sp;
    if (at < walk->stack_low || end > walk->stack_high)
        return false;
    while (at + sizeof at <= end) {
        uintptr_t words[64];
        size_t count = (end - at) / sizeof at;

        count = count < 64 ? count : 64;
        if (!ss_lua_read_words(at, words, count))
            return false;
        for (size_t i = 0; i < count; i++)
            if (words[i] == (uintptr_t)L)
                return true;
        at += count * sizeof at;
    }
    return false;
}

static bool has_site(const ss_lua_collection *c, lua_State *L)
{
    for (uint32_t i = 0; i < c->site_count; i++)
        if (c->sites[i].L == L)
            return true;
    return false;
}

/* The only state, without a site, that runs a function of Lua, and whose address lies in the frames. */
static lua_State *state_in(const ss_lua_collection *c, const loop *in)
{
    ss_lua_state *state = atomic_load(&ss_lua_the_shared->states);
    lua_State *found = NULL;

    for (; state; state = __atomic_load_n(&state->next, __ATOMIC_ACQUIRE)) {
        if (!atomic_load(&state->registry) || has_site(c, state->main) ||
            !lies_in(c, in, state->main) || !runs_lua(state->main))
            continue;
        if (found)
            return NULL;
        found = state->main;
    }
    return found;
}

/* Push what Lua's own loop runs inside of all sites, if it can be known. */
static bool push_running(ss_lua_collection *c)
{
    ss_lua_call_site *site = &c->running; /* which the rest of the run may need later */
    loop in;

    if (c->capturing || !find_loop(c, &in) || calls_unknown(c, &in))
        return true;
    stacksplice_walk_refuse(c->walk); /* it depends on more than is reported */
    *site = (ss_lua_call_site){.first = true};
    if (c->site_count)
        site->L = entered_by(&c->sites[0]);
    if (!site->L && !in.resumed)
        site->L = state_in(c, &in);
    if (!site->L)
        return !in.resumed || (open_splice(c, in.first, in.end - in.first) &&
                               ss_lua_push(c, ss_lua_gap("frames of a coroutine missing: "
                                                         "not known which one runs here")));
    site->frame = in.first;
    site->interpreter = ss_lua_interpreter_of(c, site->L);
    ss_lua_log_coroutine(c, site->L);
    return open_splice(c, in.first, in.end - in.first) &&
           push_run_here(c, site, in.first, ss_lua_innermost(site->L), STACKSPLICE_TRUST_INFERRED,
                         0);
}

/* ---- Places -----------------------------------------------------------------------------------*/

/* Where the activations of each coroutine belong among the native frames. */

enum {
    NAMED_FUNCTIONS = 1024,
    NAMELESS_SIGHTS = 1000, /* how often a nameless function is seen before it is looked up again */
    NAMED_SIGHTS = 5000     /* a function with a name, which may have another one by then */
};

/* ---- Names of C functions --------------------------------------------------------------------*/

/* Until when the name of a function is not looked up.  Threads may take each other's: that costs only
   time. */
typedef struct ss_lua_naming {
    _Atomic(uintptr_t) function;
    _Atomic(uint32_t) sights; /* until the next lookup */
} ss_lua_naming;

static ss_lua_naming *naming_of(uintptr_t function)
{
    static ss_lua_naming all[NAMED_FUNCTIONS];

    return &all[(function >> 4) % NAMED_FUNCTIONS];
}

/* Whether to look up the name of FUNCTION now. */
static bool wants_name(ss_lua_naming *naming, uintptr_t function)
{
    uint32_t sights = atomic_load_explicit(&naming->sights, memory_order_relaxed);

    if (atomic_load_explicit(&naming->function, memory_order_relaxed) != function || !sights)
        return true;
    atomic_store_explicit(&naming->sights, sights - 1, memory_order_relaxed);
    return false;
}

/* Give the core the scripts' name of a C function whose own frame is on the stack. */
static void name_c_function(const ss_lua_collection *c, const ss_lua_call_site *site)
{
    uintptr_t function = ss_lua_c_function_of(site->ci);
    ss_lua_naming *naming = naming_of(function);
    char name[SS_LUA_NAME_SIZE];
    bool found;

    if (!function || c->walk->frames[site->frame - 1].function != function ||
        !site->interpreter->rest || !wants_name(naming, function))
        return;
    found = ss_lua_c_function_name(site->interpreter, site->L, site->ci, name);
    atomic_store_explicit(&naming->function, function, memory_order_relaxed);
    atomic_store_explicit(&naming->sights, found ? NAMED_SIGHTS : NAMELESS_SIGHTS,
                          memory_order_relaxed);
    if (found)
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
    return ss_lua_innermost(L) == ci && ss_lua_has_room(L, SS_LUA_USED_SLOTS);
}

/* Whether the coroutine of a site is suspended in the C function that the site called.  LuaJIT calls
   its own functions from there, too: the top may then be that of an earlier call. */
static bool rests_at(const ss_lua_collection *c, uint32_t index)
{
    const ss_lua_call_site *site = &c->sites[index];

    if (!site->ci || (SS_LUA_JIT && (site->hook || site->inferred)))
        return false;
    return (index > 0 || !lua_runs_inside(c, site)) && ss_lua_rests(site->L, site->ci);
}

/* Let L, which rests, be used above its top, until ss_lua_give_back. */
static void borrow(ss_lua_interpreter *interpreter, lua_State *L)
{
#if SS_LUA_JIT
    uintptr_t top = ss_lua_top_of((uintptr_t)L);
#else
    uintptr_t top =
        ss_lua_slot_of(ss_lua_innermost(L)) + (uintptr_t)(lua_gettop(L) + 1) * SSI_LUA_VALUE;
#endif

    interpreter->rest = L;
    interpreter->used = (void *)top;
    memcpy(interpreter->before, interpreter->used, sizeof interpreter->before);
}

void ss_lua_give_back(const ss_lua_collection *c)
{
    for (uint32_t i = 0; i < c->interpreter_count; i++) {
        const ss_lua_interpreter *interpreter = &c->interpreters[i];

        if (interpreter->used)
            memcpy(interpreter->used, interpreter->before, sizeof interpreter->before);
    }
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
            borrow(interpreter, c->sites[i].L);
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
            return open_splice(c, i + 1, 0) &&
                   push_run(c, site, ss_lua_outer(ci), STACKSPLICE_TRUST_INFERRED, site->ci);
    /* Lua code that is in no call to C runs in a frame between these two. */
    return open_splice(c, at < inner ? inner : at, 0) &&
           (!function || ss_lua_push(c, ss_lua_gap("unrecognized call between Lua and C"))) &&
           push_run(c, site, ci, STACKSPLICE_TRUST_INFERRED, site->ci);
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

    if (site->first && !c->capturing && !push_unsited(c, index))
        return false;
    if (c->sites[site->first ? index : site->latest].closed) {
        stacksplice_walk_refuse(c->walk);
        return open_splice(c, site->frame, site->hidden) &&
               ss_lua_push(c, ss_lua_gap("Lua had already closed these frames"));
    }
    if (!site->hook && site->frame > 0) {
        name_c_function(c, site);
        if (c->log)
            ss_lua_log_activation(c->log, c->walk->frames[site->frame - 1].ip, site->L, site->ci);
    }
    if (!open_splice(c, site->frame, site->hidden))
        return false;
    if (lost_its_frame(site) && !push_asked(c, site, site->ci, STACKSPLICE_TRUST_EXACT))
        return false;
    return push_run_here(c, site, site->frame, site->hook ? site->ci : ss_lua_outer(site->ci),
                         site->inferred && !site->hook ? STACKSPLICE_TRUST_INFERRED
                                                       : STACKSPLICE_TRUST_EXACT,
                         site->stop);
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

/* Push the gap of a missed site, inside of its frame.  Where a signal has interrupted that, what asks for
   the stack leaves out all that is inside. */
static bool push_missed_call(ss_lua_collection *c, const ss_lua_missed *missed)
{
    bool interrupted = c->walk->frames[missed->frame].flags & STACKSPLICE_NATIVE_SIGNAL;

    return open_splice(c, missed->frame + interrupted, 0) &&
           ss_lua_push(c, ss_lua_gap(MISSED_CALL));
}

/* Push the missed sites inside of frame END that were not pushed yet. */
static bool push_missed_until(ss_lua_collection *c, uint32_t end)
{
    for (; c->missed_pushed < c->missed_count; c->missed_pushed++) {
        const ss_lua_missed *missed = &c->missed[c->missed_pushed];

        if (missed->frame >= end)
            return true;
        if (!is_no_call(c, missed) && !push_missed_call(c, missed))
            return false;
    }
    return true;
}

/* The same, with what lies where the walk has lost frames. */
static bool push_missed(ss_lua_collection *c, uint32_t end)
{
    while (c->rest.ci && c->rest.frame <= end)
        if (!push_missed_until(c, c->rest.frame) || !push_rest(c))
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

    ss_lua_log_coroutine(c, L);
    if (ci && ss_lua_is_own_function(ss_lua_c_function_of(ci)))
        ci = ss_lua_outer(ci);
    (void)(open_splice(c, 0, 0) &&
           ss_lua_push(c, ss_lua_gap("without native frames, only the running "
                                     "coroutine's frames known")) &&
           push_run(c, &site, ci, STACKSPLICE_TRUST_EXACT, 0) && ss_lua_flush(c));
}

#if SS_LUA_JIT
/* Where the walk ends in code that LuaJIT has compiled, which keeps no frames: push a gap with the function
   in which that was entered, and the callers of that. */
static bool push_compiled(ss_lua_collection *c)
{
    ss_lua_call_site *site = &c->running;
    char reason[LUA_IDSIZE + 64];
    lua_Debug entered;
    uintptr_t ci;

    if (c->rest.ci)
        return true;
    *site = (ss_lua_call_site){.L = ss_lua_compiled(c, &ci), .first = true};
    if (!site->L)
        return true;
    stacksplice_walk_refuse(c->walk);
    site->interpreter = ss_lua_interpreter_of(c, site->L);
    ss_lua_log_coroutine(c, site->L);
    entered = ss_lua_debug_of(site->L, ci);
    lua_getinfo(site->L, "S", &entered);
    (void)snprintf(reason, sizeof reason, "JIT-compiled: entered in function <%s:%d>",
                   entered.short_src, entered.linedefined);
    return open_splice(c, c->walk->frame_count, 0) && ss_lua_push(c, ss_lua_gap(reason)) &&
           push_run(c, site, ss_lua_outer(ci), STACKSPLICE_TRUST_EXACT, 0);
}
#endif

/* Splice what belongs to the found sites. */
void ss_lua_splice_all(ss_lua_collection *c)
{
    const ss_lua_state *state;

    if (!c->walk->frame_count && (state = state_capturing(c->walk)))
        push_capturing(c, state);
    if (!push_running(c))
        return;
    open_interpreters(c);
    for (uint32_t i = 0; i < c->site_count; i++)
        if (!push_missed(c, c->sites[i].frame) || !splice_site(c, i))
            return;
    if (!push_missed(c, c->walk->frame_count))
        return;
#if SS_LUA_JIT
    if (!push_compiled(c))
        return;
#endif
    if (c->too_many && (!open_splice(c, c->sites[c->site_count - 1].frame + 1, 0) ||
                        !ss_lua_push(c, ss_lua_gap("too many calls between C and Lua to follow"))))
        return;
    (void)ss_lua_flush(c);
}

/* ---- Runs that are kept -----------------------------------------------------------------------*/

static uintptr_t tail_calls_gap(ss_lua_cache *cache)
{
    if (!cache->tail_calls)
        cache->tail_calls = ss_lua_gap(SS_LUA_TAIL_CALLS);
    return cache->tail_calls;
}

uint32_t ss_lua_run_frames(lua_State *L, ss_lua_state *state, uintptr_t ci, uintptr_t stop,
                           uint32_t max, uintptr_t *frames)
{
    ss_lua_interpreter interpreter = {
        .registry = atomic_load_explicit(&state->registry, memory_order_relaxed),
        .record = state,
        .cache = ss_lua_cache_of(state),
        .rest = L,
        .cached = true};
    uint32_t length = ss_lua_run_length(ci, stop), most = max / 2 - 1, count = 0;
    uint32_t left_out = length > most ? length - most : 0;

    ss_lua_activation at, caller;

    interpreter.cache->captured = true;
    ss_lua_cache_begin(L, state);
    ss_lua_activation_read(ci, &caller);
    for (uint32_t i = 0; i < length; i++) {
        at = caller;
        if (left_out && i == most / 2) {
            frames[count++] = stacksplice_left_out(left_out);
            for (ci = at.ci; i < most / 2 + left_out; i++)
                ci = ss_lua_outer(ci);
            ss_lua_activation_read(ci, &at);
        }
        ss_lua_activation_read(at.outer, &caller);
        if (!at.pc)
            at.pc = at.closure; /* a function in C has a key, too: itself, and what calls it */
        frames[count++] = ss_lua_token(&interpreter, L, &at, &caller);
        if (at.status & (uint32_t)SS_LUA_TAIL_CALLED)
            frames[count++] = tail_calls_gap(interpreter.cache);
    }
    return count;
}
