#include "splice/splice.h"

#include "splice/collection.h"
#include "splice/merge.h"
#include "splice/hash.h"
#include "splice/token_private.h"
#include "unwind/stack.h"

#include <string.h>

/* Upper bounds for our own functions further in than the caller: frames, and bytes of stack. */
#define OWN_FRAMES 16
#define OWN_BYTES 65536

/* Each frame of ours is one more to walk. */
#define INLINED inline __attribute__((always_inline))

/* ABOVE, if it can be the frame address of a caller of the function at HERE; else HERE. */
static const void *checked_above(const void *above, const void *here)
{
    return (uintptr_t)above >= (uintptr_t)here && (uintptr_t)above - (uintptr_t)here <= OWN_BYTES
               ? above
               : here;
}

/*
 * Set the part of the stack that sources may read.  For a signal handler on its own stack that is
 * the interrupted stack, where interpreters run.
 */
static INLINED void set_bounds(stacksplice_walk *walk, const ss_unwind *unwind, const void *above)
{
    ss_range stack;

    if (unwind->stack_count)
        stack = unwind->stacks[unwind->stack_count - 1];
    else if (!ss_stack_find((uintptr_t)above, &stack))
        stack.high = (uintptr_t)above;
    walk->stack_high = stack.high;
    walk->stack_low = unwind->stack_count > 1 ? stack.low : (uintptr_t)above;
    if (unwind->stack_count == 1 && walk->frames && walk->frame_count)
        walk->stack_low = walk->frames[0].sp;
}

/*
 * Report the missing bytes roughly, so that all tokens for them can exist before a stack is deep.
 */
static uintptr_t depth_gap(const ss_unwind *unwind)
{
    size_t below = (size_t)64 << 10;
    uint32_t id = SS_TOKEN_DEEP_64K;

    if (unwind->count < SS_UNWIND_MAX_FRAMES)
        return ss_token_of(SS_TOKEN_TOO_DEEP);
    for (; id < SS_TOKEN_DEEPEST && unwind->bytes_left >= below; id++)
        below *= 16;
    return ss_token_of(id);
}

static uintptr_t end_gap(const ss_unwind *unwind)
{
    if (unwind->end_reason)
        return ss_token_gap("native", unwind->end_reason);
    return unwind->bytes_left ? depth_gap(unwind) : 0;
}

/* How many tokens of either end of one run SINK can keep. */
static uint32_t run_ends(const ss_sink *sink)
{
    uint64_t most = sink->ends ? sink->max / 2 + UINT64_C(1) : (uint64_t)sink->skip + sink->max;

    return most < UINT32_MAX / 8 ? (uint32_t)most : UINT32_MAX / 8;
}

static INLINED bool run(ss_collection *c, const void *above, ss_sink *sink)
{
    ss_scratch *scratch = c->scratch;
    const ss_unwind *unwind = &scratch->unwind;
    uint32_t sources = ss_source_count();
    ss_merge merge;

    if (!ss_unwind_walk(&scratch->unwind, above, SS_UNWIND_MAX_FRAMES))
        return false;
    c->walk.size = sizeof c->walk;
    c->walk.frame_count = unwind->count - unwind->hidden;
    c->walk.frames = unwind->frames ? unwind->frames + unwind->hidden : NULL;
    c->walk.marked = unwind->marked;
    c->walk.marked_count = unwind->marked_count;
    c->walk.truncated = unwind->end_reason || unwind->bytes_left;
    c->walk.run_ends = run_ends(sink);
    c->behind = sink->behind;
    set_bounds(&c->walk, unwind, above);
    ss_collect(c, sources);
    if (c->no_memory)
        return false;
    merge = (ss_merge){.frames = c->walk.frames,
                       .frame_count = c->walk.frame_count,
                       .inferred = unwind->inferred,
                       .splices = scratch->splices,
                       .splice_count = scratch->splice_count,
                       .source_ends = scratch->source_ends,
                       .source_count = sources,
                       .tokens = scratch->tokens,
                       .end_gap = c->end_token ? c->end_token : end_gap(unwind)};
    ss_merge_run(&merge, sink);
    if (c->out_of_order)
        ss_sink_put(sink, ss_token_of(SS_TOKEN_OUT_OF_ORDER));
    return true;
}

static INLINED stacksplice_hresult capture_into(const void *above, ss_sink *sink)
{
    ss_collection c = {.no_memory = false};
    bool done = false;

    if (!ss_scratch_enter()) {
        ss_sink_put(sink, ss_token_of(SS_TOKEN_REENTERED));
        return S_FALSE;
    }
    c.scratch = ss_scratch_mine();
    if (c.scratch) {
        done = run(&c, checked_above(above, SS_HERE()), sink);
        ss_scratch_trim(c.scratch);
    }
    ss_scratch_leave();
    if (!done)
        return E_OUTOFMEMORY;
    ss_sink_finish(sink);
    return sink->more ? S_FALSE : S_OK;
}

SS_NOINLINE stacksplice_hresult ss_capture(const void *above, uint32_t skip, uint32_t max,
                                           uintptr_t *frames, uint32_t *captured, uint32_t *hash)
{
    ss_sink sink = {.frames = frames, .max = max, .skip = skip};
    stacksplice_hresult hr = capture_into(above, &sink);

    *captured = hr < 0 ? 0 : sink.stored;
    if (hash && hr >= 0)
        *hash = ss_hash_words(frames, sink.stored);
    return hr;
}

SS_NOINLINE stacksplice_hresult ss_capture_ends(const void *above, uintptr_t behind, uint32_t max,
                                                uintptr_t *frames, uint32_t *captured)
{
    ss_sink sink = {.frames = frames, .max = max, .ends = true, .behind = behind};
    stacksplice_hresult hr = capture_into(above, &sink);

    *captured = hr < 0 ? 0 : sink.stored;
    return hr;
}

/*
 * Store the return addresses of UNWIND's frames from FIRST on.  A list of addresses has no gap that
 * could mark a guessed frame.  So at the first guess, stop and return false.
 */
static bool store_native(const ss_unwind *unwind, uint32_t first, ss_sink *sink)
{
    const stacksplice_native_frame *from = unwind->frames + first;
    uint32_t end = unwind->inferred ? first : unwind->count, skipped, count;
    uintptr_t *out = sink->frames + sink->stored;

    while (end < unwind->count && !(unwind->frames[end].flags & STACKSPLICE_NATIVE_INFERRED))
        end++;
    count = end - first;
    skipped = count < sink->skip ? count : sink->skip;
    sink->skip -= skipped;
    count -= skipped;
    from += skipped;
    if (count > sink->max - sink->stored)
        count = sink->max - sink->stored;
    sink->stored += count;
    for (uint32_t i = 0; i < count; i++)
        out[i] = from[i].ip;
    return end == unwind->count;
}

/* The hash that callers of the Windows function expect: the sum of the low halves. */
static uint32_t sum_of(const uintptr_t *frames, uint32_t count)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += (uint32_t)frames[i];
    return sum;
}

/* The same for a stack that needs a full walk. */
static SS_NOINLINE uint32_t walk_native(ss_scratch *scratch, const void *above, uint32_t skip,
                                        uint32_t max, uintptr_t *frames)
{
    uint64_t wanted = (uint64_t)skip + max + OWN_FRAMES;
    ss_unwind *unwind = &scratch->unwind;
    ss_sink sink = {.frames = frames, .max = max, .skip = skip};
    bool more;

    if (wanted > SS_UNWIND_MAX_FRAMES)
        wanted = SS_UNWIND_MAX_FRAMES;
    more = ss_unwind_walk(unwind, above, (uint32_t)wanted);
    if (more) {
        ss_unwind_recurs(unwind, above);
        more = store_native(unwind, unwind->hidden, &sink);
    }
    while (SS_UNLIKELY(more && sink.stored < max && unwind->bytes_left) &&
           ss_unwind_continue(unwind, SS_UNWIND_MAX_FRAMES))
        more = store_native(unwind, 1, &sink);
    ss_scratch_trim(scratch);
    return sink.stored;
}

SS_NOINLINE uint32_t ss_capture_native(const void *above, uint32_t skip, uint32_t max,
                                       uintptr_t *frames, uint32_t *hash)
{
    ss_scratch *scratch;
    uint32_t stored = 0;

    if (!max || !ss_scratch_enter())
        return 0;
    scratch = ss_scratch_mine();
    if (SS_LIKELY(scratch != NULL) &&
        !ss_unwind_recurring(&scratch->unwind, above, skip, max, frames, &stored))
        stored = walk_native(scratch, above, skip, max, frames);
    ss_scratch_leave();
    if (hash)
        *hash = sum_of(frames, stored);
    return stored;
}

/* ---- Public -----------------------------------------------------------------------------------*/

SS_NOINLINE stacksplice_hresult stacksplice_capture(uint32_t skip, uint32_t max_frames,
                                                    uintptr_t *frames, uint32_t *captured,
                                                    uint32_t *hash)
{
    if (!captured || (!frames && max_frames))
        return E_POINTER;
    return ss_capture(SS_HERE(), skip, max_frames, frames, captured, hash);
}

/* ABOVE, but never hiding fewer frames than our own. */
static const void *at_least(const void *above, const void *here)
{
    return (uintptr_t)above > (uintptr_t)here ? above : here;
}

SS_NOINLINE stacksplice_hresult stacksplice_capture_above(const void *frame_address,
                                                          uint32_t max_frames, uintptr_t *frames,
                                                          uint32_t *captured, uint32_t *hash)
{
    if (!captured || (!frames && max_frames))
        return E_POINTER;
    return ss_capture(at_least(frame_address, SS_HERE()), 0, max_frames, frames, captured, hash);
}

SS_NOINLINE stacksplice_hresult stacksplice_capture_ends(const void *frame_address,
                                                         uintptr_t behind, uint32_t max_frames,
                                                         uintptr_t *frames, uint32_t *captured)
{
    if (!captured || (!frames && max_frames))
        return E_POINTER;
    return ss_capture_ends(at_least(frame_address, SS_HERE()), behind, max_frames, frames,
                           captured);
}
