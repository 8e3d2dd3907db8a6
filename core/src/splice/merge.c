#include "splice/merge.h"

#include "splice/source.h"
#include "splice/pool.h"

/* ---- Order -----------------------------------------------------------------------------------*/

/*
 * The rest of one source's sorted list.  Its next splice gives
 *
 *      key = first frame << 1 | (it replaces frames)
 *
 * so the lowest key is innermost, and an insertion precedes a replacement at the same frame.  An
 * ended list has the highest key.
 */
typedef struct cursor {
    const ss_splice *at, *end;
    uint64_t key;
} cursor;

typedef struct cursors {
    uint32_t next;  /* the list with the lowest key; among equals the first registered */
    uint32_t count; /* at least 1 */
    cursor of[SS_MAX_SOURCES];
} cursors;

#define ENDED UINT64_MAX

static void set_key(cursor *c)
{
    c->key = c->at == c->end ? ENDED : (uint64_t)c->at->first << 1 | (c->at->count != 0);
}

static void choose(cursors *all)
{
    uint32_t best = 0;

    for (uint32_t s = 1; s < all->count; s++)
        if (all->of[s].key < all->of[best].key)
            best = s;
    all->next = best;
}

/* The first frame of the next splice; beyond all frames when there is none. */
static uint64_t next_frame(const cursors *all)
{
    return all->of[all->next].key >> 1;
}

static void begin(cursors *all, const ss_merge *merge)
{
    const ss_splice *at = merge->splices;

    all->count = merge->source_count ? merge->source_count : 1;
    all->of[0] = (cursor){NULL, NULL, ENDED};
    for (uint32_t s = 0; s < merge->source_count; s++) {
        /* Without splices there may be no list. */
        const ss_splice *end = merge->splice_count ? merge->splices + merge->source_ends[s] : at;

        all->of[s] = (cursor){at, end, 0};
        set_key(&all->of[s]);
        at = end;
    }
    choose(all);
}

static const ss_splice *take(cursors *all)
{
    cursor *c = &all->of[all->next];
    const ss_splice *splice;

    if (c->key == ENDED)
        return NULL;
    splice = c->at++;
    set_key(c);
    choose(all);
    return splice;
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
    if (SS_LIKELY(!merge->special && ss_sink_has_room(sink, to - from))) {
        const stacksplice_native_frame *frame = merge->frames + from, *end = merge->frames + to;
        uintptr_t *out = sink->frames + sink->stored;

        sink->stored += to - from;
        for (; end - frame >= 4; frame += 4, out += 4) {
            out[0] = frame[0].ip;
            out[1] = frame[1].ip;
            out[2] = frame[2].ip;
            out[3] = frame[3].ip;
        }
        while (frame < end)
            *out++ = frame++->ip;
        return;
    }
    for (uint32_t i = from; i < to; i++)
        put_native_frame(merge, i, sink);
}

/*
 * SPLICE and the next ones in order claim the same native frames, and we cannot know which is
 * right.  So show everything unmerged: the native frames, then each splice's tokens.  Each claim
 * extends the disputed range:
 *
 *      native frames     3  4  5  6  7  8
 *      SPLICE            [-----]
 *      next                 [-----]
 *      next                       [--]
 *      output: gap, native 3 to 7, tokens of SPLICE, tokens of each next
 *
 * Returns one past the last disputed frame.
 */
static uint32_t put_disagreement(const ss_merge *merge, const ss_splice *splice, cursors *all,
                                 ss_sink *sink)
{
    cursors ahead = *all;
    uint32_t last = splice->first + splice->count, claims = 0;

    for (; next_frame(&ahead) < last; claims++) {
        const ss_splice *other = take(&ahead);

        if (last < other->first + other->count)
            last = other->first + other->count;
    }
    ss_sink_put(sink, ss_token_of(SS_TOKEN_DISAGREE));
    put_native(merge, splice->first, last, sink);
    put_tokens(merge, splice, sink);
    for (; claims; claims--)
        put_tokens(merge, take(all), sink);
    return last;
}

void ss_merge_run(const ss_merge *merge, ss_sink *sink)
{
    const ss_splice *splice;
    cursors all;
    uint32_t at = 0;

    begin(&all, merge);
    while ((splice = take(&all)) && splice->first < merge->frame_count) {
        uint32_t last = splice->first + splice->count;

        put_native(merge, at, splice->first, sink);
        if (next_frame(&all) < last)
            last = put_disagreement(merge, splice, &all, sink);
        else
            put_tokens(merge, splice, sink);
        at = last;
    }
    put_native(merge, at, merge->frame_count, sink);
    if (merge->end_gap)
        ss_sink_put(sink, merge->end_gap);
    for (; splice; splice = take(&all))
        put_tokens(merge, splice, sink);
}
