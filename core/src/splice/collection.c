#include "splice/collection.h"

#include "splice/token_private.h"

#include <string.h>

static ss_collection *impl_from_walk(const stacksplice_walk *walk)
{
    return SS_CONTAINER(walk, ss_collection, walk);
}

static void record_word(void *recording, uintptr_t address, uintptr_t value)
{
    ss_record_word(recording, address, value);
}

/* The capture depends on those registers of FRAME, counted as the unwinder does. */
static SS_NOINLINE void record_registers(const ss_collection *c, uint32_t frame,
                                         const uint32_t *dwarf_registers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!ss_unwind_register_word(&c->scratch->unwind, frame, dwarf_registers[i], record_word,
                                     c->recording))
            ss_record_refuse(c->recording);
}

int stacksplice_walk_register(const stacksplice_walk *walk, uint32_t frame, uint32_t dwarf_register,
                              uintptr_t *value)
{
    return value && stacksplice_walk_registers(walk, frame, &dwarf_register, 1, value);
}

int stacksplice_walk_registers(const stacksplice_walk *walk, uint32_t frame,
                               const uint32_t *dwarf_registers, uint32_t count, uintptr_t *values)
{
    const ss_collection *c;

    if (!walk || !dwarf_registers || !values || frame >= walk->frame_count)
        return 0;
    c = impl_from_walk(walk);
    frame += c->scratch->unwind.hidden;
    if (SS_UNLIKELY(c->recording != NULL))
        record_registers(c, frame, dwarf_registers, count);
    return ss_unwind_registers(&c->scratch->unwind, frame, dwarf_registers, count, values);
}

int stacksplice_walk_splice(stacksplice_walk *walk, uint32_t first, uint32_t count)
{
    ss_scratch *scratch;
    ss_collection *c;

    if (!walk || first > walk->frame_count || count > walk->frame_count - first)
        return 0;
    c = impl_from_walk(walk);
    scratch = c->scratch;
    if (scratch->splice_count > c->first_splice) {
        const ss_splice *last = &scratch->splices[scratch->splice_count - 1];

        if (first < last->first + last->count) {
            c->out_of_order = true;
            return 0;
        }
    }
    if (scratch->splice_count == scratch->splice_capacity && !ss_scratch_grow_splices(scratch)) {
        c->no_memory = true;
        return 0;
    }
    scratch->splices[scratch->splice_count++] = (ss_splice){first, count, scratch->token_count, 0};
    return 1;
}

/*
 * Remove what no stack keeps of the splice opened last: tokens further in than `behind`, and the
 * middle of a long run.
 */
static void shorten_splice(const ss_collection *c)
{
    ss_scratch *scratch = c->scratch;
    ss_splice *splice = &scratch->splices[scratch->splice_count - 1];
    uintptr_t *tokens = scratch->tokens + splice->token_first;
    uint32_t count = splice->token_count, begin = 0;

    if (c->recording)
        ss_record_refuse(c->recording); /* a capture that keeps other parts could not repeat it */
    while (c->behind && begin < count && tokens[begin] != c->behind)
        begin++;
    if (begin < count) {
        count -= begin;
        memmove(tokens, tokens + begin, count * sizeof *tokens);
    }
    if (count / 2 > c->walk.run_ends + 1)
        count = stacksplice_copy_ends(tokens, count, 2 * c->walk.run_ends + 2, tokens);
    scratch->token_count -= splice->token_count - count;
    splice->token_count = count;
}

/* Shorten a run this long before it gets more memory. */
static bool is_long(const ss_collection *c)
{
    const ss_scratch *scratch = c->scratch;

    return scratch->splices[scratch->splice_count - 1].token_count / 8 > c->walk.run_ends;
}

/* Make room for COUNT more tokens in the splice opened last. */
static SS_NOINLINE bool make_room(ss_collection *c, uint32_t count)
{
    ss_scratch *scratch = c->scratch;

    if (is_long(c))
        shorten_splice(c);
    if (count > scratch->token_capacity - scratch->token_count &&
        !ss_scratch_grow_tokens(scratch, count))
        c->no_memory = true;
    return !c->no_memory;
}

int stacksplice_walk_push_all(stacksplice_walk *walk, const uintptr_t *tokens, uint32_t count)
{
    ss_scratch *scratch;
    uintptr_t *out;
    ss_collection *c;

    if (!walk || (!tokens && count))
        return 0;
    c = impl_from_walk(walk);
    scratch = c->scratch;
    if (scratch->splice_count == c->first_splice)
        return 0; /* no splice was opened */
    if (count > scratch->token_capacity - scratch->token_count && !make_room(c, count))
        return 0;
    out = scratch->tokens + scratch->token_count;
    for (uint32_t i = 0; i < count; i++)
        out[i] = tokens[i];
    scratch->token_count += count;
    scratch->splices[scratch->splice_count - 1].token_count += count;
    return 1;
}

int stacksplice_walk_push(stacksplice_walk *walk, uintptr_t token)
{
    return stacksplice_walk_push_all(walk, &token, 1);
}

int stacksplice_walk_end(stacksplice_walk *walk, uint32_t first, uintptr_t token)
{
    const ss_scratch *scratch;
    ss_collection *c;

    if (!walk || first > walk->frame_count)
        return 0;
    c = impl_from_walk(walk);
    scratch = c->scratch;
    if (!c->may_end)
        return 0;
    for (uint32_t i = 0; i < scratch->splice_count; i++)
        if (scratch->splices[i].first + scratch->splices[i].count > first)
            return 0;
    while (walk->marked_count && walk->marked[walk->marked_count - 1] >= first)
        walk->marked_count--;
    walk->frame_count = first;
    walk->truncated = 1;
    c->end_token = token;
    return 1;
}

/* ---- Reports for plans ------------------------------------------------------------------------*/

void stacksplice_walk_read(stacksplice_walk *walk, uintptr_t address, uintptr_t value)
{
    if (walk && impl_from_walk(walk)->recording)
        ss_record_word(impl_from_walk(walk)->recording, address, value);
}

void stacksplice_walk_check(stacksplice_walk *walk, int (*holds)(const uintptr_t *data),
                            const uintptr_t data[STACKSPLICE_CHECK_WORDS])
{
    if (walk && impl_from_walk(walk)->recording)
        ss_record_guard(impl_from_walk(walk)->recording, holds, data);
}

void stacksplice_walk_refuse(stacksplice_walk *walk)
{
    if (!walk || !impl_from_walk(walk)->recording)
        return;
    ss_record_refuse(impl_from_walk(walk)->recording);
    walk->recorded = 0;
}

_Static_assert(STACKSPLICE_CHECK_WORDS == SS_PLAN_GUARD_DATA, "a guard keeps them all");

/* ---- Asking the sources -----------------------------------------------------------------------*/

/*
 * Collect from the sources that may end the walk, or from those that may not; DONE has collected.
 */
static uint32_t collect_some(ss_collection *c, uint32_t sources, bool may_end, uint32_t done)
{
    ss_scratch *scratch = c->scratch;

    c->may_end = may_end;
    for (uint32_t i = 0; i < sources; i++) {
        const stacksplice_source *source = ss_source_at(i);

        if ((source->ends_walks != 0) != may_end)
            continue;
        c->first_splice = scratch->splice_count;
        c->walk.source = i + 1;
        source->collect(&c->walk, source->data);
        scratch->source_ends[done++] = scratch->splice_count;
    }
    return done;
}

void ss_collect(ss_collection *c, uint32_t sources)
{
    c->scratch->splice_count = c->scratch->token_count = 0;
    ss_token_looks_at(&c->walk);
    (void)collect_some(c, sources, false, collect_some(c, sources, true, 0));
    ss_token_looks_at(NULL);
}
