/* Records what a capture depends on. */
#include "plan/room.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_DEBT = 8 * SS_PLAN_COST };

/*
 * Whether the stack was captured not long ago.  If more stacks than there are ways have the same
 * entry, and take turns, the plan of each would be gone before it is of use.
 */
static bool recurs(ss_plans *plans, uintptr_t entry, uint32_t hash)
{
    ss_plan_sight *sight = &plans->sights[(hash >> 16) % SS_PLAN_SIGHTS];
    ss_plan_sight now = {(uint16_t)(hash | 1), ++plans->turns[ss_plan_set_of(entry)]};
    bool same = sight->tag == now.tag;
    bool recent = sight->tag && (uint16_t)(now.turn - sight->turn) <= SS_PLAN_WAYS;

    if (same || !recent) /* one of two that share the sight has to get its plan */
        *sight = now;
    return same && recent;
}

bool ss_plan_is_due(ss_plans *plans, const ss_plan_case *here, uint32_t hash)
{
    ss_plan_luck *luck = &plans->luck[here->kind];

    if (!ss_plan_is_possible || !recurs(plans, here->entry, hash) || luck->debt > MOST_DEBT)
        return false;
    /* If the last one was refused, or voided before it was of use, this one probably will be. */
    luck->debt += luck->is_useless ? 2 * SS_PLAN_COST : SS_PLAN_COST;
    luck->is_useless = true;
    return true;
}

/* Signal safe, as the memory of a walk. */
static SS_COLD struct ss_plan_room *new_room(void)
{
    int before = errno;
    struct ss_plan_room *room = mmap(NULL, sizeof *room, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    errno = before;
    return room == MAP_FAILED ? NULL : room;
}

void ss_plans_clear(ss_plans *plans)
{
    int before = errno;

    if (plans->room)
        (void)munmap(plans->room, sizeof *plans->room);
    errno = before;
    memset(plans, 0, sizeof *plans);
}

ss_recording *ss_plan_record(ss_plans *plans, ss_plan_case *here, const ss_plan_world *world)
{
    ss_recording *recording;

    if (!plans->room)
        plans->room = new_room();
    if (!plans->room || !ss_stack_find_cached(&plans->stack, here->entry, &here->stack))
        return NULL;
    ss_plan_renew(plans->room, world);
    recording = &plans->room->recording;
    recording->here = *here;
    recording->refused = false;
    recording->word_count = recording->guard_count = 0;
    memset(recording->distinct, 0, sizeof recording->distinct);
    return recording;
}

void ss_record_refuse(ss_recording *recording)
{
    recording->refused = true;
}

/* Whether the word was recorded before.  If not, the next word gets its entry. */
static bool is_known(ss_recording *recording, uintptr_t address, uintptr_t value)
{
    uint64_t mixed = (address >> 3) * UINT64_C(0x9e3779b97f4a7c15);
    uint16_t *number = &recording->distinct[mixed >> 52];

    if (*number && recording->words[*number - 1].address == address) {
        recording->refused |= recording->words[*number - 1].value != value; /* it changes now */
        return true;
    }
    *number = (uint16_t)(recording->word_count + 1);
    return false;
}

_Static_assert(SS_PLAN_DISTINCT == 1 << 12, "an entry is found by twelve bits");

void ss_record_word(ss_recording *recording, uintptr_t address, uintptr_t value)
{
    const ss_plan_case *here = &recording->here;

    /* What lies further in on this stack is not the callers'. */
    if (recording->word_count == SS_PLAN_WORDS || address % sizeof(uintptr_t) ||
        (address < here->low && address >= here->stack.low))
        recording->refused = true;
    if (recording->refused || is_known(recording, address, value))
        return;
    recording->words[recording->word_count++] = (ss_plan_word){address, value};
}

/* Whether the same guard was recorded before. */
static bool is_guarded(const ss_recording *recording, int (*holds)(const uintptr_t *data),
                       const uintptr_t *data)
{
    const ss_plan_guard *guard = recording->guards, *end = guard + recording->guard_count;

    for (; guard < end; guard++)
        if (guard->holds == holds && !memcmp(guard->data, data, sizeof guard->data))
            return true;
    return false;
}

void ss_record_guard(ss_recording *recording, int (*holds)(const uintptr_t *data),
                     const uintptr_t *data)
{
    ss_plan_guard *guard = &recording->guards[recording->guard_count];

    if (is_guarded(recording, holds, data))
        return;
    if (recording->guard_count == SS_PLAN_GUARDS || !holds(data))
        recording->refused = true;
    if (recording->refused)
        return;
    guard->holds = holds;
    guard->at = recording->word_count;
    memcpy(guard->data, data, sizeof guard->data);
    recording->guard_count++;
}

static void record_word(void *recording, uintptr_t address, uintptr_t value)
{
    ss_record_word(recording, address, value);
}

void ss_record_native(ss_recording *recording, const ss_unwind *walk, uint32_t first,
                      uint32_t limit)
{
    uint32_t count = walk->count - first;

    if (count > limit)
        count = limit;
    if (!ss_unwind_words(walk, first, count, record_word, recording))
        recording->refused = true;
}

uintptr_t *ss_plan_spare_elements(const ss_plans *plans, uint32_t *max)
{
    if (*max > SS_PLAN_ELEMENTS)
        *max = SS_PLAN_ELEMENTS;
    return plans->room->recording.elements;
}

uintptr_t *ss_record_elements(ss_recording *recording, uint32_t *room)
{
    *room = SS_PLAN_ELEMENTS;
    return recording->refused ? NULL : recording->elements;
}

void ss_record_done(ss_plans *plans, ss_recording *recording, uint32_t count)
{
    if (recording->refused || !recording->word_count || !count)
        return;
    /* The first word is one of the stack, which can be read at any time. */
    while (recording->word_count % 4)
        recording->words[recording->word_count++] = recording->words[0];
    ss_plan_store(plans->room, recording, count);
}
