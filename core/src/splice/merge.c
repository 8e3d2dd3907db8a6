#include "splice/merge.h"

#include "splice/pool.h"

#include <string.h>

/* ---- Order -----------------------------------------------------------------------------------*/

/* Whether A comes before B: innermost first, and insertions before replacements of the same frame. */
static bool is_before(const ss_splice *a, const ss_splice *b)
{
    return a->first < b->first || (a->first == b->first && !a->count && b->count);
}

/* How many splices are moved together: bytes of stack, and what keeps deep stacks from being slow. */
#define BLOCK 32

void ss_merge_sort(ss_splice *splices, uint32_t first, uint32_t count)
{
    ss_splice block[BLOCK];

    while (first && first < count && is_before(&splices[first], &splices[first - 1])) {
        uint32_t left = count - first < BLOCK ? count - first : BLOCK, before = first;

        memcpy(block, splices + first, left * sizeof *block);
        first += left;
        for (uint32_t to = first; left; to--)
            splices[to - 1] = before && is_before(&block[left - 1], &splices[before - 1])
                                  ? splices[--before]
                                  : block[--left];
    }
}

/* ---- Output ----------------------------------------------------------------------------------*/

static void put_tokens(const ss_merge *merge, const ss_splice *splice, ss_sink *sink)
{
    ss_sink_put_tokens(sink, merge->tokens + splice->token_first, splice->token_count);
}

static bool is_inferred(const stacksplice_native_frame *frame)
{
    return frame->flags & STACKSPLICE_NATIVE_INFERRED;
}

static void put_native_frame(const ss_merge *merge, uint32_t i, ss_sink *sink)
{
    const stacksplice_native_frame *frame = &merge->frames[i];

    if (frame->flags & SS_UNWIND_FORWARDER)
        return;
    /* One gap marks a whole run of inferred frames. */
    if (is_inferred(frame) && (!i || !is_inferred(frame - 1)))
        ss_sink_put(sink, ss_token_of(SS_TOKEN_INFERRED));
    ss_sink_put(sink, frame->ip);
}

static void put_native(const ss_merge *merge, uint32_t from, uint32_t to, ss_sink *sink)
{
    for (; from < to; from++)
        put_native_frame(merge, from, sink);
}

/*
 * Put SPLICE and those before END that claim the same native frames; returns the next one and sets
 * *FRAME one past its frames.  If several do, we cannot know which is right.  So show everything
 * unmerged: the native frames, then each splice's tokens.  Each claim extends the disputed range:
 *
 *      native frames     3  4  5  6  7  8
 *      SPLICE            [-----]
 *      next                 [-----]
 *      next                       [--]
 *      output: gap, native 3 to 7, tokens of SPLICE, tokens of each next
 */
static const ss_splice *put_splice(const ss_merge *merge, const ss_splice *splice,
                                   const ss_splice *end, uint32_t *frame, ss_sink *sink)
{
    uint32_t first = splice->first, last = first + splice->count;
    const ss_splice *next = splice + 1;

    for (; SS_UNLIKELY(next < end && next->first < last); next++)
        if (last < next->first + next->count)
            last = next->first + next->count;
    if (SS_UNLIKELY(next > splice + 1)) {
        ss_sink_put(sink, ss_token_of(SS_TOKEN_DISAGREE));
        put_native(merge, first, last, sink);
    }
    for (; splice < next; splice++)
        put_tokens(merge, splice, sink);
    *frame = last;
    return next;
}

/* Store the addresses of the frames up to END at OUT; returns the place behind them. */
static inline uintptr_t *put_addresses(uintptr_t *out, const stacksplice_native_frame *frame,
                                       const stacksplice_native_frame *end)
{
    for (; end - frame >= 4; frame += 4, out += 4) {
        out[0] = frame[0].ip;
        out[1] = frame[1].ip;
        out[2] = frame[2].ip;
        out[3] = frame[3].ip;
    }
    while (frame < end)
        *out++ = frame++->ip;
    return out;
}

/* Nearly all stacks: no frame is special, nothing is disputed, and SINK keeps every element. */
static bool merge_plain(const ss_merge *merge, ss_sink *sink)
{
    const ss_splice *splice = merge->splices, *end = splice + merge->splice_count;
    const stacksplice_native_frame *frame = merge->frames, *last = frame + merge->frame_count;
    uintptr_t *out = sink->frames + sink->stored;

    if (merge->special || sink->behind || merge->end_gap ||
        !ss_sink_has_room(sink, (size_t)merge->frame_count + merge->token_count))
        return false;
    for (; splice < end; splice++) {
        const stacksplice_native_frame *first = merge->frames + splice->first;
        const uintptr_t *token = merge->tokens + splice->token_first;

        if (first < frame)
            return false; /* disputed */
        out = put_addresses(out, frame, first);
        for (uint32_t i = 0; i < splice->token_count; i++)
            *out++ = token[i];
        frame = first + splice->count;
    }
    out = put_addresses(out, frame, last);
    sink->stored = (uint32_t)(out - sink->frames);
    return true;
}

void ss_merge_run(const ss_merge *merge, ss_sink *sink)
{
    const ss_splice *splice = merge->splices, *end = splice + merge->splice_count;
    uint32_t frame = 0;

    if (SS_LIKELY(merge_plain(merge, sink)))
        return;
    while (splice < end && splice->first < merge->frame_count) {
        put_native(merge, frame, splice->first, sink);
        splice = put_splice(merge, splice, end, &frame, sink);
    }
    put_native(merge, frame, merge->frame_count, sink);
    if (merge->end_gap) {
        sink->skip = 0; /* frames that are not known may be the ones asked for */
        ss_sink_put(sink, merge->end_gap);
    }
    for (; splice < end; splice++)
        put_tokens(merge, splice, sink);
}
