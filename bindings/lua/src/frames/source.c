/*
 * The frame source: native frames that are call sites of the interpreter name a lua_State and a
 * CallInfo; the activations outward of it become tokens in place of the interpreter's own frames.
 *
 * Nothing is allocated in Lua, nothing can raise, and a stack of Lua is only written above its top
 * where room is known to be.
 */
#include "frames/collection.h"

#include <stdlib.h>
#include <string.h>

enum {
    NAMED_FUNCTIONS = 1024,
    NAMELESS_SIGHTS = 1000, /* for so many a function without a name is not asked again */
    ROOM_FOR_NAMES = 6
};

static void note(ss_lua_notebook *book, uintptr_t element, lua_State *L, uintptr_t ci)
{
    if (book->capacity)
        *ss_lua_seen_at(book, book->count) = (ss_lua_seen){element, L, (struct CallInfo *)ci};
    book->count++;
}

static void note_state(const ss_lua_collection *c, lua_State *L)
{
    ss_lua_notebook *book = c->notebook;

    if (book && book->state_count < SS_LUA_DISPLACED)
        book->states[book->state_count++] = L;
}

/* ---- Splices ---------------------------------------------------------------------------------*/

static bool flush(ss_lua_collection *c)
{
    uint32_t count = c->token_count;

    c->token_count = 0;
    return count == 0 || stacksplice_walk_push_all(c->walk, c->tokens, count);
}

static bool splice(ss_lua_collection *c, uint32_t first, uint32_t count)
{
    return flush(c) && stacksplice_walk_splice(c->walk, first, count);
}

static inline bool push(ss_lua_collection *c, uintptr_t token)
{
    if (c->token_count == SS_LUA_TOKENS && !flush(c))
        return false;
    c->tokens[c->token_count++] = token;
    return true;
}

/* ---- Runs of activations ---------------------------------------------------------------------*/

static SS_LUA_NOINLINE bool push_tail_calls(ss_lua_collection *c)
{
    if (!c->tail_calls)
        c->tail_calls = ss_lua_gap(SS_LUA_TAIL_CALLS);
    return push(c, c->tail_calls);
}

static inline bool push_token(ss_lua_collection *c, uintptr_t token, lua_State *L, uintptr_t ci,
                              bool tail_call)
{
    if (c->notebook)
        note(c->notebook, token, L, ci);
    return push(c, token) && (!tail_call || push_tail_calls(c));
}

/* Push the activation CI by what Lua says of it. */
static bool push_asked(ss_lua_collection *c, const ss_lua_call_site *site, uintptr_t ci,
                       stacksplice_trust trust)
{
    return push_token(c, ss_lua_asked_token(c->layout, site->world, site->L, ci, trust), site->L,
                      ci, ss_lua_is_tail_call(c->layout, site->L, ci));
}

static inline bool push_keyed(ss_lua_collection *c, const ss_lua_call_site *site,
                              const ss_lua_activation *at, const ss_lua_activation *caller)
{
    return push_token(c, ss_lua_token(c->layout, site->world, site->L, at, caller), site->L, at->ci,
                      at->status & c->layout->tail);
}

/* One activation of which its caller is not known yet. */
static bool push_one(ss_lua_collection *c, const ss_lua_call_site *site, uintptr_t ci,
                     stacksplice_trust trust)
{
    ss_lua_activation at, caller = {0};

    if (!c->keys || trust != STACKSPLICE_TRUST_EXACT)
        return push_asked(c, site, ci, trust);
    ss_lua_activation_read(c->layout, ci, &at);
    if (at.outer)
        ss_lua_activation_read(c->layout, at.outer, &caller);
    return push_keyed(c, site, &at, &caller);
}

/*
 * Push the activations from *CI outward, at most LIMIT, up to but without STOP; *CI is then the
 * first one that is left.  An activation has one outside of it, but for the base level of the
 * coroutine, which is no activation and ends the run.
 */
static bool push_keyed_run(ss_lua_collection *c, const ss_lua_call_site *site, uintptr_t *ci,
                           uint32_t limit, uintptr_t stop)
{
    ss_lua_activation pair[2], *at = &pair[0], *caller = &pair[1], *passed;

    ss_lua_activation_read(c->layout, *ci, at);
    do {
        ss_lua_activation_read(c->layout, at->outer, caller);
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

/* Push the activations from AT outward, up to but without STOP, at most LIMIT; AT is then the first
   one that is left. */
static bool push_part(ss_lua_collection *c, const ss_lua_call_site *site, ss_lua_cursor *at,
                      stacksplice_trust trust, uint32_t limit, uintptr_t stop)
{
    if (!at->ci || at->ci == stop || !limit)
        return true;
    if (c->keys && trust == STACKSPLICE_TRUST_EXACT)
        return push_keyed_run(c, site, &at->ci, limit, stop);
    for (; at->ci && at->ci != stop && limit; limit--) {
        if (!push_one(c, site, at->ci, trust))
            return false;
        ss_lua_step(c->layout, at);
    }
    return true;
}

/* Push the activations from AT outward, up to but without STOP (0: to the end): of a long run its
   ends, which are all of it that any stack keeps. */
static bool push_run(ss_lua_collection *c, const ss_lua_call_site *site, ss_lua_cursor at,
                     stacksplice_trust trust, uintptr_t stop)
{
    uint32_t ends = c->walk->run_ends, length;
    uintptr_t cut;

    if (!push_part(c, site, &at, trust, ends, stop))
        return false;
    if (at.ci && at.ci != stop) {
        length = ss_lua_run_length(c->layout, at, stop);
        if (length > ends && !push(c, stacksplice_left_out(length - ends)))
            return false;
        for (; length > ends; length--)
            ss_lua_step(c->layout, &at);
        if (!push_part(c, site, &at, trust, length, stop))
            return false;
    }
    cut = ss_lua_run_cut(c->layout, &at);
    return !cut || push(c, cut);
}

/* ---- Marks -----------------------------------------------------------------------------------*/

/* Whether captures that begin now find the marks of the layout; read after learning only. */
static atomic_bool marks_told;

uint8_t ss_lua_classify(uintptr_t ip, uintptr_t function, void *data)
{
    const ss_lua_layout *layout = ss_lua_layout_peek();
    const ss_lua_site *site;

    (void)data;
    if (!layout || layout->failure)
        return 0;
    site = ss_lua_site_find(layout, ip);
    if (site)
        return (uint8_t)(site - layout->sites + 1);
    if (ss_lua_is_api(layout, function))
        return SS_LUA_MARK_API;
    if (ss_lua_is_internal(layout, function))
        return SS_LUA_MARK_INTERNAL;
    return ss_lua_is_near(layout, function) ? SS_LUA_MARK_NEAR : 0;
}

/*
 * Whether the frames of this walk are marked: it began after the layout was learnt and that was
 * told.  A thread's first capture that finds it told may have begun before; the next one did not.
 */
static bool has_marks(void)
{
    static _Thread_local bool told_before;
    bool before = told_before;

    if (before)
        return true;
    if (!atomic_load(&marks_told)) {
        stacksplice_reclassify();
        atomic_store(&marks_told, true);
    }
    told_before = true;
    return false;
}

/* ---- Names of C functions --------------------------------------------------------------------*/

/*
 * Whether FUNCTION is to be asked for its name now: not when it has one already, and not each time
 * when it has none.  Threads may take each other's entries: that costs time only.
 */
static bool wants_name(uintptr_t function)
{
    static struct {
        _Atomic(uintptr_t) function;
        _Atomic(uint32_t) sights; /* until it is asked again; UINT32_MAX: never */
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

/* Scripts' name of a C function whose own frame is on the stack. */
static void name_c_function(const ss_lua_collection *c, const ss_lua_call_site *site)
{
    uintptr_t function = ss_lua_c_function_of(c->layout, site->ci);
    const char *name;

    if (!function || c->walk->frames[site->frame - 1].function != function || !site->world->rest ||
        !wants_name(function))
        return;
    name = ss_lua_c_function_name(c->layout, site->world, site->L, site->ci);
    if (name)
        (void)stacksplice_name_function(function, "lua", name);
}

/* ---- Coroutines that rest --------------------------------------------------------------------*/

/*
 * Whether the coroutine of a site rests in the C function that the site called: it is the running
 * activation, there is room, and (of the innermost site) no frame of Lua is inside of it, as in an
 * allocator that captures.
 */
static bool rests_at(const ss_lua_collection *c, uint32_t index)
{
    const ss_lua_call_site *site = &c->sites[index];
    uintptr_t room;

    if (c->layout->top == SS_LUA_UNKNOWN || c->layout->function == SS_LUA_UNKNOWN ||
        ss_lua_ci_at_level(site->L, 0) != site->ci)
        return false;
    for (uint32_t i = 0; index == 0 && i < site->frame; i++)
        if (ss_lua_mark_of(c, i))
            return false;
    room = (ss_lua_word(site->ci + c->layout->top) - ss_lua_word(site->ci + c->layout->function)) /
           (2 * sizeof(uintptr_t));
    return room >= (uintptr_t)lua_gettop(site->L) + 1 + ROOM_FOR_NAMES;
}

/* What the innermost coroutine of each state allows; and the notebook's coroutines. */
static void open_worlds(ss_lua_collection *c)
{
    uint32_t opened = 0;

    for (uint32_t i = 0; i < c->site_count; i++) {
        ss_lua_world *world = c->sites[i].world;

        if (c->sites[i].first)
            note_state(c, c->sites[i].L);
        if (world != &c->worlds[opened] || opened == c->world_count)
            continue; /* worlds were met in the order of sites */
        opened++;
        if (!world->rest && rests_at(c, i))
            world->rest = c->sites[i].L;
        if (world->rest && world->record && c->keys)
            world->keyed = ss_lua_sentinel_lives(world->rest, world->record);
    }
}

/* ---- Activations inside of the innermost site ------------------------------------------------*/

/*
 * The coroutine runs something that no site was found for: Lua code that allocates while the
 * allocator captures, or a call site that calibration never met.  A frame that begins where the
 * activation's function does shows where it belongs; else a gap says that the place is unknown.
 */
static bool push_unsited(ss_lua_collection *c, uint32_t index)
{
    const ss_lua_call_site *site = &c->sites[index];
    uint32_t inner = index ? site[-1].frame + site[-1].hidden : 0;
    uint32_t at = site->frame ? site->frame - 1 : 0;
    ss_lua_cursor from = {site->L, ss_lua_ci_at_level(site->L, 0), 0};
    lua_Debug activation = {.i_ci = (struct CallInfo *)from.ci};
    uintptr_t function;

    if (from.ci == 0 || from.ci == site->ci)
        return true;
    lua_getinfo(site->L, "S", &activation);
    if (*activation.what == 'C') {
        function = ss_lua_c_function_of(c->layout, from.ci);
        for (uint32_t i = inner; function && i < at; i++)
            if (c->walk->frames[i].function == function) {
                ss_lua_step(c->layout, &from);
                return splice(c, i + 1, 0) &&
                       push_run(c, site, from, STACKSPLICE_TRUST_INFERRED, site->ci);
            }
    }
    /* Lua code that is in no call to C runs in a frame between here and there. */
    return splice(c, at < inner ? inner : at, 0) &&
           (*activation.what != 'C' ||
            push(c, ss_lua_gap("a call between Lua and C was not recognised here"))) &&
           push_run(c, site, from, STACKSPLICE_TRUST_INFERRED, site->ci);
}

/* ---- Collecting ------------------------------------------------------------------------------*/

/*
 * Whether the innermost C activation is missing from the frames: its function ended in a call of
 * ours (`return stacksplice_lua_raise(L, hr);`), which took over its frame, and our frames are not
 * shown.  The activation of a function of the module is ours as well.
 */
static bool lost_its_frame(const ss_lua_collection *c, const ss_lua_call_site *site)
{
    uintptr_t function;

    if (site->frame > 0 || site->hook)
        return false;
    function = ss_lua_c_function_of(c->layout, site->ci);
    return function && !ss_lua_is_own_function(function);
}

/*
 * Push the activations from FROM outward that the frames of Lua from FRAME on ran, and say so when
 * the coroutine goes on elsewhere.
 */
static bool push_run_here(ss_lua_collection *c, const ss_lua_call_site *site, uint32_t frame,
                          ss_lua_cursor from, stacksplice_trust trust, uintptr_t stop)
{
    uintptr_t hooked = site->hook && frame == site->frame ? site->ci : 0;
    uintptr_t end = ss_lua_run_end(c, frame, from, stop, hooked);

    return push_run(c, site, from, trust, end) &&
           (end == stop || c->too_many ||
            push(c, ss_lua_gap("the rest of this coroutine was called from frames that are not "
                               "here")));
}

static bool splice_site(ss_lua_collection *c, uint32_t index)
{
    const ss_lua_call_site *site = &c->sites[index];
    ss_lua_cursor from = {site->L, site->ci, 0};

    if (site->first && !site->sited && !c->capturing && !push_unsited(c, index))
        return false;
    if (!site->hook && site->frame > 0) {
        name_c_function(c, site);
        if (c->notebook)
            note(c->notebook, c->walk->frames[site->frame - 1].ip, site->L, site->ci);
    }
    if (!splice(c, site->frame, site->hidden))
        return false;
    if (lost_its_frame(c, site) && !push_asked(c, site, site->ci, STACKSPLICE_TRUST_EXACT))
        return false;
    if (c->layout->previous == SS_LUA_UNKNOWN)
        ss_lua_cursor_place(&from);
    if (!site->hook && from.ci)
        ss_lua_step(c->layout, &from);
    return push_run_here(c, site, site->frame, from, STACKSPLICE_TRUST_EXACT, site->stop);
}

/* What belongs to the missed sites inside of frame END that were not pushed yet. */
static bool push_missed(ss_lua_collection *c, uint32_t end)
{
    for (; c->missed_pushed < c->missed_count; c->missed_pushed++) {
        const ss_lua_missed *missed = &c->missed[c->missed_pushed];
        ss_lua_cursor from = {missed->L, missed->ci, 0};

        if (missed->frame >= end)
            return true;
        if (!missed->ci && missed->may_be_none)
            continue;
        if (!splice(c, missed->frame, missed->ci ? missed->hidden : 0))
            return false;
        if (!missed->ci) {
            if (!push(c, ss_lua_gap("a call between Lua and C was not recognised here")))
                return false;
            continue;
        }
        ss_lua_step(c->layout, &from);
        if (!push_run_here(c, missed->site, missed->frame, from, STACKSPLICE_TRUST_INFERRED,
                           missed->stop))
            return false;
    }
    return true;
}

/* Without native frames only the coroutine is known in which a function of ours captures. */
static void push_capturing(ss_lua_collection *c, const ss_lua_state *state)
{
    ss_lua_cursor from = {state->capturing, ss_lua_ci_at_level(state->capturing, 0), 0};
    ss_lua_call_site site = {.L = from.L, .first = true, .world = ss_lua_world_of(c, from.L)};

    c->notebook = state->notebook;
    note_state(c, from.L);
    if (from.ci && ss_lua_is_own_function(ss_lua_c_function_of(c->layout, from.ci)))
        ss_lua_step(c->layout, &from);
    (void)(splice(c, 0, 0) &&
           push(c, ss_lua_gap("without native frames only one coroutine's frames "
                              "are known, and not their place")) &&
           push_run(c, &site, from, STACKSPLICE_TRUST_EXACT, 0) && flush(c));
}

/* Lua is on the stack but cannot be read: say so where it was entered. */
static void say_failure(stacksplice_walk *walk, const ss_lua_layout *layout)
{
    static const uintptr_t entries[] = {(uintptr_t)lua_pcallk, (uintptr_t)lua_callk,
                                        (uintptr_t)lua_resume};

    for (uint32_t i = 0; i < walk->frame_count; i++)
        for (size_t e = 0; e < sizeof entries / sizeof *entries; e++)
            if (walk->frames[i].function == entries[e]) {
                (void)(stacksplice_walk_splice(walk, i, 0) &&
                       stacksplice_walk_push(walk, ss_lua_gap(layout->failure)));
                return;
            }
}

/* Without the many that are filled when they are used. */
static void begin(ss_lua_collection *c, stacksplice_walk *walk, const ss_lua_layout *layout)
{
    c->walk = walk;
    c->layout = layout;
    c->world_count = c->site_count = 0;
    c->keys = ss_lua_has_keys(layout);
    c->marks = has_marks();
    c->source = walk->source;
    c->too_many = c->stray_is_missed = false;
    c->stray_end = c->missed_count = c->missed_pushed = c->token_count = 0;
    c->tail_calls = 0;
    c->capturing = NULL;
    c->notebook = NULL;
    memset(c->threads, 0xff, sizeof c->threads);
}

/* What belongs to the sites that were found. */
static void splice_all(ss_lua_collection *c)
{
    const ss_lua_state *state;

    if (!c->walk->frame_count && (state = ss_lua_state_capturing(c->walk)))
        push_capturing(c, state);
    if (c->missed_count > 0)
        ss_lua_missed_place(c);
    open_worlds(c);
    for (uint32_t i = 0; i < c->site_count; i++)
        if (!push_missed(c, c->sites[i].frame) || !splice_site(c, i))
            return;
    if (!push_missed(c, c->walk->frame_count))
        return;
    if (c->too_many &&
        (!splice(c, c->sites[c->site_count - 1].frame + 1, 0) ||
         !push(c, ss_lua_gap("there are too many calls between C and Lua to follow"))))
        return;
    (void)flush(c);
}

/* Apart, so that learning, where that comes first, has the stack that this takes. */
static SS_LUA_NOINLINE void collect(stacksplice_walk *walk, const ss_lua_layout *layout)
{
    ss_lua_collection c;

    begin(&c, walk, layout);
    ss_lua_find_sites(&c);
    splice_all(&c);
    if (c.sites != c.near_sites)
        free(c.sites);
}

void ss_lua_collect(stacksplice_walk *walk, void *data)
{
    const ss_lua_layout *layout = ss_lua_layout_get();

    (void)data;
    if (!layout)
        return;
    if (layout->failure)
        say_failure(walk, layout);
    else
        collect(walk, layout);
}
