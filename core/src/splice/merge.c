#include "splice/merge.h"

#include "splice/source.h"
#include "splice/token.h"

void ss_sink_put(ss_sink *sink, uintptr_t element)
{
    if (sink->skip)
        sink->skip--;
    else if (sink->stored < sink->max)
        sink->frames[sink->stored++] = element;
    else
        sink->more = true;
}

/* Innermost first; an insertion comes before what is replaced at the same place. */
static bool is_before(const ss_splice *a, const ss_splice *b)
{
    return a->first < b->first || (a->first == b->first && !a->count && b->count);
}

/* The source whose next splice comes first; among equals the one registered first. */
static uint32_t first_source(const ss_merge *merge, const uint32_t *next)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t s = 0; s < merge->source_count; s++)
        if (next[s] < merge->source_ends[s] &&
            (best == UINT32_MAX ||
             is_before(&merge->splices[next[s]], &merge->splices[next[best]])))
            best = s;
    return best;
}

/* Every source's list is sorted already. */
static void sort(const ss_merge *merge)
{
    uint32_t next[SS_MAX_SOURCES], s;
    ss_splice *sorted = merge->sorted;

    for (s = 0; s < merge->source_count; s++)
        next[s] = s ? merge->source_ends[s - 1] : 0;
    while ((s = first_source(merge, next)) < merge->source_count)
        *sorted++ = merge->splices[next[s]++];
}

static void put_tokens(const ss_merge *merge, const ss_splice *splice, ss_sink *sink)
{
    for (uint32_t i = 0; i < splice->token_count; i++)
        ss_sink_put(sink, merge->tokens[splice->token_first + i]);
}

/* One gap says it for a whole run of frames that were found by their frame pointers. */
static uintptr_t inferred_gap(void)
{
    static const stacksplice_token_info info = {
        .size = sizeof info,
        .kind = STACKSPLICE_FRAME_GAP,
        .trust = STACKSPLICE_TRUST_INFERRED,
        .language = "native",
        .reason = "no unwind data: what follows was found by frame pointers"};
    uintptr_t token;

    (void)stacksplice_intern(&info, &token); /* when it fails, the token says why */
    return token;
}

static void put_native(const ss_merge *merge, uint32_t from, uint32_t to, ss_sink *sink)
{
    for (uint32_t i = from; i < to; i++) {
        bool inferred = merge->frames[i].flags & STACKSPLICE_NATIVE_INFERRED;
        bool before = i > 0 && (merge->frames[i - 1].flags & STACKSPLICE_NATIVE_INFERRED);

        if (inferred && !before)
            ss_sink_put(sink, inferred_gap());
        ss_sink_put(sink, merge->frames[i].ip);
    }
}

/*
 * The splices [i, end) claim the same native frames, [first, last): nobody can know who is right,
 * so all is shown, unmerged: the native frames, then each splice's frames.
 */
static void put_disagreement(const ss_merge *merge, uint32_t i, uint32_t end, uint32_t last,
                             ss_sink *sink)
{
    ss_sink_put(sink, ss_token_gap("native", "frame sources disagree"));
    put_native(merge, merge->sorted[i].first, last, sink);
    for (; i < end; i++)
        put_tokens(merge, &merge->sorted[i], sink);
}

void ss_merge_run(const ss_merge *merge, ss_sink *sink)
{
    uint32_t at = 0, i = 0;

    sort(merge);
    while (i < merge->splice_count && merge->sorted[i].first < merge->frame_count) {
        const ss_splice *splice = &merge->sorted[i];
        uint32_t last = splice->first + splice->count, end = i + 1;

        put_native(merge, at, splice->first, sink);
        for (; end < merge->splice_count && merge->sorted[end].first < last; end++)
            if (last < merge->sorted[end].first + merge->sorted[end].count)
                last = merge->sorted[end].first + merge->sorted[end].count;
        if (end - i > 1)
            put_disagreement(merge, i, end, last, sink);
        else
            put_tokens(merge, splice, sink);
        at = last;
        i = end;
    }
    put_native(merge, at, merge->frame_count, sink);
    if (merge->end_gap)
        ss_sink_put(sink, merge->end_gap);
    for (; i < merge->splice_count; i++)
        put_tokens(merge, &merge->sorted[i], sink);
}
