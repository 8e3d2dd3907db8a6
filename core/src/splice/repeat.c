#include "splice/repeat.h"

#include "splice/pool.h"
#include "splice/source.h"
#include "unwind/unloads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool ss_repeat_verifies;               /* (RO) */
static bool counts;                    /* (RO) says at the end how often it has verified */
static _Atomic unsigned long verified; /* (ATOMIC) */

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

static void look(ss_plan_world *world)
{
    *world = (ss_plan_world){.modules = ss_modules_generation(false),
                             .marks = ss_unwind_epoch(),
                             .tokens = stacksplice_token_epoch(),
                             .sources = ss_source_count()};
}

void ss_repeat_begin(ss_repeat *repeat, uintptr_t entry, const void *above)
{
    repeat->here.kind = SS_PLAN_COMBINED;
    repeat->here.entry = entry;
    repeat->here.low = entry - SS_PLAN_SAVED_BYTES;
    repeat->here.above = (uintptr_t)above;
    repeat->here.limit = UINT32_MAX;
    look(&repeat->world);
}

void ss_repeat_begin_native(ss_repeat *repeat, const void *above, uint64_t limit)
{
    repeat->here.kind = SS_PLAN_NATIVE;
    repeat->here.entry = repeat->here.low = repeat->here.above = (uintptr_t)above;
    repeat->here.limit = limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX - 1;
    look(&repeat->world);
}

/* ---- Repeating -------------------------------------------------------------------------------*/

bool ss_repeat_put(ss_scratch *scratch, ss_repeat *repeat, ss_sink *sink)
{
    ss_plan plan;

    if (!ss_plan_find(&scratch->plans, &repeat->here, &repeat->world, &plan))
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

/* ---- Recording -------------------------------------------------------------------------------*/

/* In the order of words; the upper half depends on each of them. */
static inline uint64_t add_word(uint64_t hash, uintptr_t word)
{
    return (hash + word) * UINT64_C(0x9e3779b97f4a7c15);
}

bool ss_repeat_is_due(ss_scratch *scratch, const ss_repeat *repeat, const uintptr_t *addresses,
                      uint32_t count)
{
    uint64_t hash = count;

    for (; count; count--)
        hash = add_word(hash, *addresses++);
    return ss_plan_is_due(&scratch->plans, &repeat->here, (uint32_t)(hash >> 32));
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

/* Begin a recording with the frames outward of the entry, at most COUNT. */
static ss_recording *begin_recording(ss_scratch *scratch, ss_repeat *repeat)
{
    uint32_t first = caller_of(&scratch->unwind, repeat->here.entry);
    ss_recording *recording =
        first ? ss_plan_record(&scratch->plans, &repeat->here, &repeat->world) : NULL;

    if (recording)
        ss_record_native(recording, &scratch->unwind, first, repeat->here.limit);
    return recording;
}

ss_recording *ss_repeat_record(ss_scratch *scratch, ss_repeat *repeat)
{
    const ss_unwind *walk = &scratch->unwind;

    if (!repeat->here.entry || walk->hidden == walk->count || !ss_sources_report() ||
        !ss_plan_is_due(&scratch->plans, &repeat->here, hash_of(walk)))
        return NULL;
    return begin_recording(scratch, repeat);
}

void ss_repeat_record_native(ss_scratch *scratch, ss_repeat *repeat)
{
    const ss_unwind *walk = &scratch->unwind;
    ss_recording *recording = begin_recording(scratch, repeat);
    uint32_t room, count = walk->count - walk->hidden;
    uintptr_t *elements = recording ? ss_record_elements(recording, &room) : NULL;

    if (count > repeat->here.limit)
        count = repeat->here.limit;
    if (!elements || count > room)
        return;
    for (uint32_t i = 0; i < count; i++)
        elements[i] = walk->frames[walk->hidden + i].ip;
    ss_record_done(&scratch->plans, recording, count);
}

bool ss_repeat_is_lasting(const uintptr_t *elements, uint32_t count)
{
    uintptr_t first = ss_token_of(0), end = ss_token_of(SS_TOKEN_FIXED_COUNT);

    for (uint32_t i = 0; i < count; i++)
        if ((elements[i] >= first && elements[i] < end) || ss_left_out_is(elements[i]))
            return false;
    return true;
}
