/*
 * The frame source.  Native frames that are call sites of the interpreter give a lua_State and a
 * CallInfo.  The activations from there outward become tokens that replace the interpreter's own
 * frames.
 *
 * It allocates nothing in Lua and cannot raise.  It writes to a Lua stack only above its top, where
 * it is known to have room.
 */
#include "frames/collection.h"

#include <stdlib.h>
#include <string.h>

/* ---- Marks ------------------------------------------------------------------------------------*/

/* The kinds of frames for the interpreter, as the core keeps them. */

/* The core was asked to classify again: captures that begin now find the marks of the layout. */
static atomic_bool reclassified;

uint8_t ss_lua_classify(uintptr_t ip, uintptr_t function, void *data)
{
    const ss_lua_layout *layout = ss_lua_layout_peek();
    const ss_lua_site *site;

    (void)data;
    if (!layout || layout->failure)
        return 0;
    site = ss_lua_site_find(layout, SS_LUA_JIT ? function : ip);
    if (site)
        return (uint8_t)(site - layout->sites + 1);
    if (ss_lua_is_api(layout, function))
        return SS_LUA_MARK_API;
    if (ss_lua_is_internal(layout, function))
        return SS_LUA_MARK_INTERNAL;
    return ss_lua_is_near(layout, function) ? SS_LUA_MARK_NEAR : 0;
}

/*
 * The frames of this walk are marked if it began after reclassification.  The first capture of a
 * thread that finds the flag set may have begun earlier; the next one did not.
 */
static bool has_marks(void)
{
    static _Thread_local bool seen_before;
    bool before = seen_before;

    if (before)
        return true;
    if (!atomic_load(&reclassified)) {
        stacksplice_reclassify();
        atomic_store(&reclassified, true);
    }
    seen_before = true;
    return false;
}

/* ---- Collecting -------------------------------------------------------------------------------*/

/* Lua is on the stack but cannot be read: put a gap where it was entered. */
static void say_failure(stacksplice_walk *walk, const ss_lua_layout *layout)
{
    const uintptr_t entries[] = {(uintptr_t)SS_LUA_PCALL, (uintptr_t)SS_LUA_CALL,
                                 (uintptr_t)lua_resume};

    for (uint32_t i = 0; i < walk->frame_count; i++)
        for (size_t e = 0; e < sizeof entries / sizeof *entries; e++)
            if (walk->frames[i].function == entries[e]) {
                (void)(stacksplice_walk_splice(walk, i, 0) &&
                       stacksplice_walk_push(walk, ss_lua_gap(layout->failure)));
                return;
            }
}

/* The ss_lua_activation_log of the capture that this thread runs, or NULL. */
static _Thread_local void *wanted;

static void **log_of_thread(void)
{
    return &wanted;
}

/* Leaves out the large arrays, which are filled on use. */
static void begin(ss_lua_collection *c, stacksplice_walk *walk, const ss_lua_layout *layout)
{
    c->walk = walk;
    c->layout = layout;
    c->interpreter_count = c->site_count = 0;
    c->marks = has_marks();
    c->source = walk->source;
    c->too_many = c->uncalled = false;
    c->unclaimed_end = c->missed_count = c->missed_pushed = c->token_count = 0;
    c->tail_calls = 0;
    c->spliced = 0;
    c->rest.ci = 0;
    c->lost = c->capturing = NULL;
    c->log = wanted;
    if (c->log) {
        c->log->stack_low = walk->stack_low;
        c->log->stack_high = walk->stack_high;
    }
}

/* A separate function, so that learning, if it comes first, has this stack space. */
static SS_LUA_NOINLINE void collect(stacksplice_walk *walk, const ss_lua_layout *layout)
{
    ss_lua_collection c;

    begin(&c, walk, layout);
    ss_lua_find_sites(&c);
    ss_lua_splice_all(&c);
    if (walk->recorded)
        ss_lua_report_words(&c);
    ss_lua_give_back(&c);
    ss_lua_end_sites(&c);
}

static bool is_in_signal_handler(const stacksplice_walk *walk)
{
    for (uint32_t i = 0; i < walk->frame_count; i++)
        if (walk->frames[i].flags & STACKSPLICE_NATIVE_SIGNAL)
            return true;
    return false;
}

/* Learning takes memory and waits for a thread: a signal may have interrupted malloc.  Where a
   state was opened the layout is known. */
static const ss_lua_layout *layout_for(const stacksplice_walk *walk)
{
    static const ss_lua_layout too_late = {
        .failure = "Lua's call sites cannot be located in a signal handler"};
    const ss_lua_layout *layout = ss_lua_layout_peek();

    if (layout)
        return layout;
    return is_in_signal_handler(walk) ? &too_late : ss_lua_layout_get();
}

static void collect_frames(stacksplice_walk *walk, void *data)
{
    bool (*look)(stacksplice_walk * walk) =
        atomic_load_explicit(&((ss_lua_shared *)data)->look, memory_order_acquire);
    const ss_lua_layout *layout;

    if (look && look(walk))
        return;
    layout = layout_for(walk);
    if (!layout || layout->failure)
        stacksplice_walk_refuse(walk);
    if (!layout)
        return;
    if (layout->failure)
        say_failure(walk, layout);
    else
        collect(walk, layout);
}

static void prepare(void)
{
    (void)ss_lua_layout_get();
}

/*
 * At load: a host may raise before this binding sees one of its states (a Python error on its way
 * through Lua), and that stack needs its Lua frames too.
 */
__attribute__((constructor)) static void give_source(void)
{
    static const ss_lua_frame_source source = {.collect = collect_frames,
                                               .classify = ss_lua_classify,
                                               .prepare = prepare,
                                               .cache_size = sizeof(ss_lua_cache),
                                               .log = log_of_thread,
                                               .planted = ss_lua_cache_planted};

    ss_lua_the_source = &source;
    ss_lua_the_shared->log = source.log;
#if !SS_LUA_BY_NAME /* else no copy of Lua is known yet */
    ss_lua_source_register();
#endif
}

/* ---- Captures of ours ------------------------------------------------------------------------*/

uint32_t ss_lua_capture(lua_State *L, const void *above, uint32_t max, uintptr_t *frames,
                        ss_lua_activation_log *log)
{
    ss_lua_state *state = ss_lua_state_find(L);
    void **place = ss_lua_the_shared->log();
    uint32_t captured = 0;
    stacksplice_hresult hr;

    (void)ss_lua_layout_get(); /* again, if memory ran out when the state was opened */
    if (state) {
        state->capturing = L;
        atomic_store(&state->capturing_above, (uintptr_t)above);
    }
    *place = log;
    hr = stacksplice_capture_ends(above, 0, max, frames, &captured);
    *place = NULL;
    if (state) {
        atomic_store(&state->capturing_above, 0);
        state->capturing = NULL;
    }
    if (FAILED(hr) && max > 0) {
        frames[0] = ss_lua_gap("out of memory while capturing the stack");
        captured = 1;
    }
    return captured;
}

void ss_lua_log_coroutines(const void *above, ss_lua_activation_log *log)
{
    void **place = ss_lua_the_shared->log();
    void *former = *place; /* of a capture that the signal interrupted */
    uint32_t captured;

    memset(log, 0, sizeof *log);
    *place = log;
    (void)stacksplice_capture_ends(above, 0, 0, NULL, &captured);
    *place = former;
}

bool ss_lua_runs(const ss_lua_activation_log *log, const lua_State *L)
{
    for (uint32_t i = 0; i < log->state_count; i++)
        if (log->states[i] == L)
            return true;
    return false;
}
