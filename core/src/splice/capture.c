#include "base/hash.h"
#include "splice/merge.h"
#include "splice/pool.h"
#include "splice/scratch.h"
#include "splice/source.h"
#include "splice/splice.h"
#include "unwind/stack.h"
#include "unwind/unloads.h"

#include <stacksplice/script.h>
#include <stacksplice/thrown.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sources receive a pointer to the first member. */
typedef struct ss_collection {
    stacksplice_walk walk;
    ss_scratch *scratch;
    ss_recording *recording; /* NULL: this capture is not recorded */
    uint32_t first_splice;   /* first splice of the source that is collecting */
    uintptr_t end_token;     /* why a source ended the walk; 0: none did */
    bool may_end;            /* the source that is collecting may end the walk */
    bool no_memory;
    bool out_of_order; /* a source broke the rule of stacksplice_walk_splice */
} ss_collection;

/* ---- Collecting the sources' splices for one walk ---------------------------------------------*/

static ss_collection *impl_from_walk(const stacksplice_walk *walk)
{
    return SS_CONTAINER(walk, ss_collection, walk);
}

/* The capture depends on those registers of FRAME, counted as the unwinder does. */
static SS_NOINLINE void record_registers(const ss_collection *c, uint32_t frame,
                                         const uint32_t *dwarf_registers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!ss_unwind_register_word(&c->scratch->unwind, frame, dwarf_registers[i], ss_record_word,
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
    if (count > scratch->token_capacity - scratch->token_count &&
        !ss_scratch_grow_tokens(scratch, count)) {
        c->no_memory = true;
        return 0;
    }
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

/* ---- Reports for plans -----------------------------------------------------------------------*/

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

/* ---- Asking the sources ----------------------------------------------------------------------*/

/* Collect from the sources that may end the walk, or from those that may not. */
static void collect_some(ss_collection *c, uint32_t sources, bool may_end)
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
        ss_merge_sort(scratch->splices, c->first_splice, scratch->splice_count);
    }
}

/* ---- Stacks that recur: by plans (plan/plan.h) instead of in full -----------------------------*/

bool ss_repeat_verifies;               /* (RO) */
static bool counts;                    /* (RO) says at the end how often it has verified */
static _Atomic unsigned long verified; /* (ATOMIC) */

/* Whether to look for a plan, and to record one.  In tests always, whatever it costs. */
static inline bool looks_for_plan(ss_scratch *scratch, ss_plan_kind kind)
{
    if (SS_UNLIKELY(ss_repeat_verifies))
        scratch->plans.misses[kind] = scratch->plans.debt[kind] = 0;
    return ss_plans_look(&scratch->plans, kind);
}

static __attribute__((constructor)) void begin(void)
{
    const char *wish = secure_getenv("STACKSPLICE_VERIFY_PLANS");

    ss_repeat_verifies = wish != NULL;
    counts = wish && !strcmp(wish, "count");
    ss_plan_is_blind = wish && !strcmp(wish, "blind");
}

static __attribute__((destructor)) void end(void)
{
    if (counts)
        (void)dprintf(STDERR_FILENO, "stacksplice: %lu repeated captures verified\n", verified);
}

/*
 * Begin a capture that hides what is further in than ABOVE.  ENTRY is the frame record that
 * ss_plan_enter gave; for at most LIMIT native addresses it is that of a caller.
 */
static inline void begin_case(ss_plan_case *here, ss_plan_kind kind, uintptr_t entry,
                              const void *above, uint32_t limit)
{
    here->kind = kind;
    here->entry = entry;
    here->low = kind == SS_PLAN_COMBINED ? entry - SS_PLAN_SAVED_BYTES : entry;
    here->above = (uintptr_t)above;
    here->limit = limit;
    here->world = (ss_plan_world){.modules = ss_modules_generation(false),
                                  .marks = ss_unwind_epoch(),
                                  .tokens = stacksplice_token_epoch()};
}

/* Put the whole stack into SINK, if a plan of SCRATCH fits; else a full capture has to. */
static bool put_plan(ss_scratch *scratch, ss_plan_case *here, ss_sink *sink)
{
    ss_plan plan;

    if (!ss_plan_find(&scratch->plans, here, &plan))
        return false;
    if (SS_LIKELY(!sink->behind && ss_sink_has_room(sink, plan.count))) {
        memcpy(sink->frames + sink->stored, plan.elements, plan.count * sizeof *plan.elements);
        sink->stored += plan.count;
        return true;
    }
    /* The number in the gap of a long stack depends on what the sources leave out. */
    if (sink->ends && plan.count > sink->max)
        return false;
    ss_sink_put_tokens(sink, plan.elements, plan.count);
    return true;
}

void ss_repeat_verify(const ss_sink *repeated, const ss_sink *full)
{
    static const char text[] = "stacksplice: a repeated capture differs from a full one\n";

    verified++;
    if (repeated->stored == full->stored && repeated->more == full->more &&
        !memcmp(repeated->frames, full->frames, full->stored * sizeof *full->frames))
        return;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    abort();
}

/* In the order of words; the upper half depends on each of them. */
static inline uint64_t add_word(uint64_t hash, uintptr_t word)
{
    return (hash + word) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Whether COUNT native addresses, which are all there is, are due to be recorded. */
static bool is_due(ss_scratch *scratch, const ss_plan_case *here, const uintptr_t *addresses,
                   uint32_t count)
{
    uint64_t hash = count;

    for (; count; count--)
        hash = add_word(hash, *addresses++);
    return ss_plan_is_due(&scratch->plans, here, (uint32_t)(hash >> 32));
}

static uint32_t hash_of(const ss_unwind *walk)
{
    uint64_t hash = walk->count;

    for (uint32_t i = walk->hidden; i < walk->count; i++)
        hash = add_word(hash, walk->frames[i].ip ^ walk->frames[i].sp);
    return (uint32_t)(hash >> 32);
}

/* The frame that called the function with the record ENTRY; 0 if the walk does not have it. */
static uint32_t caller_of(const ss_unwind *walk, uintptr_t entry)
{
    for (uint32_t i = 1; i < walk->count && walk->frames[i].sp <= entry + 2 * sizeof entry; i++)
        if (walk->frames[i].sp == entry + 2 * sizeof entry)
            return i;
    return 0;
}

/* Begin a recording with the frames outward of the entry. */
static ss_recording *begin_recording(ss_scratch *scratch, ss_plan_case *here)
{
    const ss_unwind *walk = &scratch->unwind;
    uint32_t first = caller_of(walk, here->entry), count = walk->count - first;
    ss_recording *recording = first ? ss_plan_record(&scratch->plans, here) : NULL;

    if (recording && !ss_unwind_words(walk, first, count < here->limit ? count : here->limit,
                                      ss_record_word, recording))
        ss_record_refuse(recording);
    return recording;
}

/*
 * Begin to record the capture whose native frames were just walked, with the reports of all
 * sources, if that pays; else NULL.
 */
static ss_recording *record(ss_scratch *scratch, ss_plan_case *here)
{
    const ss_unwind *walk = &scratch->unwind;

    if (walk->hidden == walk->count || !ss_sources_report() ||
        !ss_plan_is_due(&scratch->plans, here, hash_of(walk)))
        return NULL;
    return begin_recording(scratch, here);
}

/* Whether COUNT elements can be repeated: no gap among them reports a passing state of the core. */
static bool is_lasting(const uintptr_t *elements, uint32_t count)
{
    uintptr_t first = ss_token_of(0), end = ss_token_of(SS_TOKEN_FIXED_COUNT);

    for (uint32_t i = 0; i < count; i++)
        if ((elements[i] >= first && elements[i] < end) || ss_left_out_is(elements[i]))
            return false;
    return true;
}

/* ---- Capture ---------------------------------------------------------------------------------*/

#define OWN_BYTES 65536 /* of stack, at most, that our own functions take */

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

static uintptr_t end_gap(const ss_unwind *unwind)
{
    if (unwind->end_reason)
        return stacksplice_gap("native", unwind->end_reason, 0); /* one of the fixed ones */
    if (!unwind->has_more)
        return 0;
    return ss_token_of(unwind->count < SS_UNWIND_MAX_FRAMES ? SS_TOKEN_NO_ROOM : SS_TOKEN_TOO_DEEP);
}

/* How many tokens of either end of one run SINK can keep. */
static uint32_t run_ends(const ss_sink *sink)
{
    uint64_t most = sink->ends ? sink->max / 2 + UINT64_C(1) : (uint64_t)sink->skip + sink->max;

    return most < UINT32_MAX / 8 ? (uint32_t)most : UINT32_MAX / 8;
}

/* Ask the sources; the scratch then holds their splices, sorted. */
static INLINED bool collect(ss_collection *c, const void *above, const ss_sink *sink)
{
    const ss_unwind *unwind = &c->scratch->unwind;
    uint32_t sources = ss_source_count();

    c->walk.size = sizeof c->walk;
    c->walk.frame_count = unwind->count - unwind->hidden;
    c->walk.frames = unwind->frames ? unwind->frames + unwind->hidden : NULL;
    c->walk.marked = unwind->marked;
    c->walk.marked_count = unwind->marked_count;
    c->walk.truncated = unwind->end_reason || unwind->has_more;
    c->walk.run_ends = run_ends(sink);
    c->walk.recorded = c->recording != NULL;
    set_bounds(&c->walk, unwind, above);
    c->scratch->splice_count = c->scratch->token_count = 0;
    ss_token_looks_at(&c->walk);
    collect_some(c, sources, true);
    collect_some(c, sources, false);
    ss_token_looks_at(NULL);
    return !c->no_memory;
}

/* Make a plan of what was recorded: the whole stack, whatever part of it the caller wants. */
static SS_NOINLINE void make_plan(const ss_collection *c, const ss_merge *merge)
{
    ss_sink whole = {.max = 0};

    whole.frames = ss_record_elements(c->recording, &whole.max);
    if (!whole.frames || c->end_token || c->out_of_order)
        return;
    ss_merge_run(merge, &whole);
    if (!whole.more && is_lasting(whole.frames, whole.stored))
        ss_record_done(&c->scratch->plans, c->recording, whole.stored);
}

/* Capture in full.  HERE is NULL if the capture is not to be recorded. */
static INLINED bool run(ss_scratch *scratch, const void *above, ss_plan_case *here, ss_sink *sink)
{
    ss_collection c = {.scratch = scratch};
    const ss_unwind *unwind = &scratch->unwind;
    ss_merge merge;

    if (!ss_unwind_walk(&scratch->unwind, above, SS_UNWIND_MAX_FRAMES))
        return false;
    c.recording = here ? record(scratch, here) : NULL;
    if (!collect(&c, above, sink))
        return false;
    merge = (ss_merge){.frames = c.walk.frames,
                       .frame_count = c.walk.frame_count,
                       .special = unwind->inferred || unwind->forwards,
                       .splices = scratch->splices,
                       .splice_count = scratch->splice_count,
                       .tokens = scratch->tokens,
                       .token_count = scratch->token_count,
                       .end_gap = c.end_token ? c.end_token : end_gap(unwind)};
    ss_merge_run(&merge, sink);
    if (c.out_of_order)
        ss_sink_put(sink, ss_token_of(SS_TOKEN_OUT_OF_ORDER));
    if (SS_UNLIKELY(c.recording != NULL))
        make_plan(&c, &merge);
    return true;
}

/* Compare the capture that a plan REPEATED with a full one. */
static SS_COLD void verify(ss_scratch *scratch, const void *above, const ss_sink *asked,
                           const ss_sink *repeated)
{
    ss_sink full = *asked;

    full.frames = ss_plan_spare_elements(&scratch->plans, &full.max);
    if (run(scratch, above, NULL, &full))
        ss_repeat_verify(repeated, &full);
}

static INLINED bool repeat_or_run(ss_scratch *scratch, const void *above, uintptr_t entry,
                                  ss_sink *sink)
{
    bool looks = entry && looks_for_plan(scratch, SS_PLAN_COMBINED), done;
    ss_sink asked = *sink;
    ss_plan_case here;

    if (looks) {
        begin_case(&here, SS_PLAN_COMBINED, entry, above, UINT32_MAX);
        if (put_plan(scratch, &here, sink)) {
            if (SS_UNLIKELY(ss_repeat_verifies))
                verify(scratch, above, &asked, sink);
            return true;
        }
    }
    done = run(scratch, above, looks ? &here : NULL, sink);
    ss_scratch_trim(scratch);
    return done;
}

/* One capture, while it is entered. */
typedef struct capture {
    const void *above;
    ss_sink *sink;
    stacksplice_hresult hr;
} capture;

static void capture_from(void *data, uintptr_t entry)
{
    capture *c = data;
    ss_scratch *scratch;
    bool done;

    c->hr = S_FALSE;
    if (!ss_scratch_enter()) {
        ss_sink_put(c->sink, ss_token_of(SS_TOKEN_REENTERED));
        return;
    }
    scratch = ss_scratch_mine();
    done = scratch && repeat_or_run(scratch, c->above, entry, c->sink);
    ss_scratch_leave();
    c->hr = E_OUTOFMEMORY;
    if (!done)
        return;
    ss_sink_finish(c->sink);
    c->hr = c->sink->more ? S_FALSE : S_OK;
}

/* Inlined into what the host calls: ABOVE hides at least that function. */
static INLINED stacksplice_hresult capture_into(const void *above, ss_sink *sink,
                                                uint32_t *captured)
{
    capture c = {.above = checked_above(above, SS_HERE()), .sink = sink};

    if (!captured || (!sink->frames && sink->max))
        return E_POINTER;
    ss_plan_enter(capture_from, &c);
    *captured = c.hr < 0 ? 0 : sink->stored;
    return c.hr;
}

static INLINED stacksplice_hresult capture_inner(const void *above, ss_sink sink,
                                                 uint32_t *captured, uint32_t *hash)
{
    stacksplice_hresult hr = capture_into(above, &sink, captured);

    if (hash && hr >= 0)
        *hash = ss_hash_words(sink.frames, sink.stored);
    return hr;
}

/*
 * Store the return addresses of UNWIND's frames from FIRST on.  A list of addresses has no gap that
 * could mark a guessed frame, so it ends at the first guess: false.
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

/* How many frames to walk for that many elements, our own included. */
static uint32_t frames_for(uint64_t elements)
{
    return SS_UNWIND_OWN_FRAMES +
           (elements < SS_UNWIND_MAX_FRAMES ? (uint32_t)elements : SS_UNWIND_MAX_FRAMES);
}

/* The same for a stack that needs a full walk. */
static SS_NOINLINE uint32_t walk_native(ss_scratch *scratch, const void *above, uint32_t skip,
                                        uint32_t max, uintptr_t *frames)
{
    ss_unwind *unwind = &scratch->unwind;
    ss_sink sink = {.frames = frames, .max = max, .skip = skip};
    bool on = ss_unwind_walk(unwind, above, frames_for((uint64_t)skip + max));
    uint32_t known = unwind->hidden;

    if (on)
        ss_unwind_recurs(unwind, above);
    while (on) { /* once, but for stacks that are deeper than the room for one walk */
        on = store_native(unwind, known, &sink) && sink.stored < max && unwind->has_more;
        known = on ? ss_unwind_continue(unwind) : 0;
        on = known != 0;
    }
    ss_scratch_trim(scratch);
    return sink.stored;
}

/* Record the native frames that were just captured, which are all there is. */
static SS_NOINLINE void record_native(ss_scratch *scratch, ss_plan_case *here, const void *above)
{
    const ss_unwind *walk = &scratch->unwind;
    uintptr_t *elements = NULL;
    uint32_t room = 0, count = 0;
    ss_recording *recording;

    if (ss_unwind_walk(&scratch->unwind, above, frames_for(here->limit)) &&
        (recording = begin_recording(scratch, here)) != NULL)
        elements = ss_record_elements(recording, &room);
    for (uint32_t i = walk->hidden; elements && i < walk->count && count < here->limit; i++)
        if (count++ < room)
            elements[count - 1] = walk->frames[i].ip;
    if (elements && count <= room)
        ss_record_done(&scratch->plans, recording, count);
    ss_scratch_trim(scratch);
}

static SS_COLD void verify_native(ss_scratch *scratch, const void *above, uint32_t skip,
                                  const ss_sink *repeated)
{
    ss_sink full = {.max = repeated->max};

    full.frames = ss_plan_spare_elements(&scratch->plans, &full.max);
    full.stored = walk_native(scratch, above, skip, full.max, full.frames);
    full.more = repeated->more;
    ss_repeat_verify(repeated, &full);
}

static INLINED uint32_t capture_native(ss_scratch *scratch, const void *above, uint32_t skip,
                                       uint32_t max, uintptr_t *frames)
{
    ss_sink sink = {.frames = frames, .max = max, .skip = skip};
    bool looks = looks_for_plan(scratch, SS_PLAN_NATIVE);
    uint64_t limit = (uint64_t)skip + max;
    uint32_t stored = 0;
    ss_plan_case here;

    if (looks) {
        begin_case(&here, SS_PLAN_NATIVE, (uintptr_t)above, above,
                   limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX - 1);
        if (put_plan(scratch, &here, &sink)) {
            if (SS_UNLIKELY(ss_repeat_verifies))
                verify_native(scratch, above, skip, &sink);
            return sink.stored;
        }
    }
    if (!ss_unwind_recurring(&scratch->unwind, above, skip, max, frames, &stored))
        stored = walk_native(scratch, above, skip, max, frames);
    if (SS_UNLIKELY(looks && is_due(scratch, &here, frames, stored)))
        record_native(scratch, &here, above);
    return stored;
}

SS_NOINLINE uint32_t ss_capture_native(const void *above, uint32_t skip, uint32_t max,
                                       uintptr_t *frames, uint32_t *hash)
{
    ss_scratch *scratch;
    uint32_t stored = 0;

    if (!max || !ss_scratch_enter())
        return 0;
    scratch = ss_scratch_mine();
    if (SS_LIKELY(scratch != NULL))
        stored = capture_native(scratch, above, skip, max, frames);
    ss_scratch_leave();
    if (hash)
        *hash = 0;
    /* As callers of the Windows function expect it: the sum of the low halves. */
    for (uint32_t i = 0; hash && i < stored; i++)
        *hash += (uint32_t)frames[i];
    return stored;
}

static void *find_call(ss_scratch *scratch, const void *above, uintptr_t function)
{
    const ss_unwind *walk = &scratch->unwind;
    void *found = NULL;

    if (!ss_unwind_walk(&scratch->unwind, above, SS_UNWIND_MAX_FRAMES))
        return NULL;
    for (uint32_t i = walk->hidden; i < walk->count && !found; i++) {
        if (walk->frames[i].flags & STACKSPLICE_NATIVE_INFERRED)
            break;
        if (walk->frames[i].function == function)
            found = (void *)walk->frames[i].sp;
    }
    ss_scratch_trim(scratch);
    return found;
}

/* ---- Public ----------------------------------------------------------------------------------*/

SS_NOINLINE stacksplice_hresult stacksplice_capture(uint32_t skip, uint32_t max_frames,
                                                    uintptr_t *frames, uint32_t *captured,
                                                    uint32_t *hash)
{
    ss_sink sink = {.frames = frames, .max = max_frames, .skip = skip};

    return capture_inner(SS_HERE(), sink, captured, hash);
}

SS_NOINLINE stacksplice_hresult stacksplice_capture_above(const void *frame_address,
                                                          uint32_t max_frames, uintptr_t *frames,
                                                          uint32_t *captured, uint32_t *hash)
{
    ss_sink sink = {.frames = frames, .max = max_frames};

    return capture_inner(frame_address, sink, captured, hash);
}

SS_NOINLINE stacksplice_hresult stacksplice_capture_ends(const void *frame_address,
                                                         uintptr_t behind, uint32_t max_frames,
                                                         uintptr_t *frames, uint32_t *captured)
{
    ss_sink sink = {.frames = frames, .max = max_frames, .ends = true, .behind = behind};

    return capture_into(frame_address, &sink, captured);
}

SS_NOINLINE void *stacksplice_thrown_frame(const void *above, const void *function)
{
    ss_scratch *scratch;
    void *found = NULL;

    if (!function || !ss_scratch_enter())
        return NULL;
    scratch = ss_scratch_mine();
    if (scratch)
        found = find_call(scratch, checked_above(above, SS_HERE()), (uintptr_t)function);
    ss_scratch_leave();
    return found;
}
