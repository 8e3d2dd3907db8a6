/* Keeps plans, and finds the one that fits. */
#include "plan/room.h"

#include <string.h>

/* Words of the stack lie between variables that sanitizers poison. */
#define NO_SANITIZE __attribute__((no_sanitize("address", "thread")))

bool ss_plan_is_blind; /* (RO) */

void ss_plan_renew(struct ss_plan_room *room, const ss_plan_world *world)
{
    const ss_plan_world *made = &room->world;

    if (SS_LIKELY(made->modules == world->modules && made->marks == world->marks &&
                  made->tokens == world->tokens && made->sources == world->sources))
        return;
    memset(room->sets, 0, sizeof room->sets);
    room->world = *world;
}

/* ---- Finding ----------------------------------------------------------------------------------*/

static inline ss_plan_way *set_of(struct ss_plan_room *room, uintptr_t entry)
{
    return room->sets[ss_plan_set_of(entry)];
}

/* With the same end of the stack, all words of the plan that lie there can be read. */
static inline bool is_same_case(const ss_plan_case *plan, const ss_plan_case *here)
{
    return plan->entry == here->entry && plan->above == here->above && plan->limit == here->limit &&
           plan->stack.high == here->stack.high;
}

static NO_SANITIZE inline uintptr_t word_at(uintptr_t address)
{
    return *(const volatile uintptr_t *)address;
}

/* The first word from AT on, before END, that has changed; END when none has. */
static NO_SANITIZE inline const ss_plan_word *first_changed(const ss_plan_word *at,
                                                            const ss_plan_word *end)
{
    const ss_plan_word *fours = at + (end - at) / 4 * 4;

    for (; at < fours; at += 4) {
        if (SS_UNLIKELY(word_at(at[0].address) != at[0].value))
            return at;
        if (SS_UNLIKELY(word_at(at[1].address) != at[1].value))
            return at + 1;
        if (SS_UNLIKELY(word_at(at[2].address) != at[2].value))
            return at + 2;
        if (SS_UNLIKELY(word_at(at[3].address) != at[3].value))
            return at + 3;
    }
    while (at < end && word_at(at->address) == at->value)
        at++;
    return at;
}

static const ss_plan_word *words_of(const ss_stored_plan *plan)
{
    return (const ss_plan_word *)(plan + 1);
}

static const ss_plan_guard *guards_of(const ss_stored_plan *plan)
{
    return (const ss_plan_guard *)(words_of(plan) + plan->word_count);
}

/* WAY learns that the word AT of PLAN differs. */
static SS_NOINLINE void learn(ss_plan_way *way, const ss_stored_plan *plan, const ss_plan_word *at)
{
    if (at->address >= plan->here.low && at->address < plan->here.stack.high)
        way->probe = *at;
}

/* Compare all that PLAN depends on, in the order of its recording. */
static inline bool fits(const ss_stored_plan *plan, ss_plan_way *way)
{
    const ss_plan_word *words = words_of(plan), *at = words, *stop;
    const ss_plan_guard *guard = guards_of(plan), *end = guard + plan->guard_count;

    for (; SS_UNLIKELY(guard < end); guard++) {
        stop = words + guard->at;
        at = first_changed(at, stop);
        if (SS_UNLIKELY(at != stop)) {
            learn(way, plan, at);
            return false;
        }
        if (SS_UNLIKELY(!guard->holds(guard->data)) && !ss_plan_is_blind) {
            way->entry = 0; /* what a guard watches seldom changes back */
            return false;
        }
    }
    stop = words + plan->word_count;
    at = first_changed(at, stop);
    if (SS_LIKELY(at == stop))
        return true;
    learn(way, plan, at);
    return false;
}

/* The plan at WAY; NULL when a newer one has overwritten it. */
static const ss_stored_plan *plan_at(const struct ss_plan_room *room, const ss_plan_way *way)
{
    if (room->end - way->place > SS_PLAN_RING)
        return NULL;
    return (const ss_stored_plan *)(const void *)&room->ring[way->place % SS_PLAN_RING];
}

static inline void hit(ss_plan_luck *luck)
{
    luck->misses = 0;
    luck->is_useless = false;
    luck->debt -= luck->debt < SS_PLAN_PAID_BY_HIT ? luck->debt : SS_PLAN_PAID_BY_HIT;
}

bool ss_plan_find(ss_plans *plans, ss_plan_case *here, const ss_plan_world *world, ss_plan *found)
{
    struct ss_plan_room *room = plans->room;
    ss_plan_way *set;

    if (!room || !ss_stack_find_cached(&plans->stack, here->entry, &here->stack))
        return false;
    ss_plan_renew(room, world);
    set = set_of(room, here->entry);
    for (ss_plan_way *way = set; way < set + SS_PLAN_WAYS; way++) {
        const ss_stored_plan *plan;

        if (way->entry != here->entry || !(plan = plan_at(room, way)) ||
            !is_same_case(&plan->here, here) || word_at(way->probe.address) != way->probe.value ||
            !fits(plan, way))
            continue;
        found->elements = (const uintptr_t *)(guards_of(plan) + plan->guard_count);
        found->count = plan->element_count;
        hit(&plans->luck[here->kind]);
        return true;
    }
    return false;
}

/* ---- Storing ----------------------------------------------------------------------------------*/

/* SIZE contiguous bytes of the ring, as a place. */
static uint64_t take_place(struct ss_plan_room *room, size_t size)
{
    uint64_t place = room->end;

    if (place % SS_PLAN_RING + size > SS_PLAN_RING)
        place += SS_PLAN_RING - place % SS_PLAN_RING;
    room->end = place + size;
    return place;
}

static ss_plan_way *choose_way(struct ss_plan_room *room, uintptr_t entry)
{
    ss_plan_way *set = set_of(room, entry);

    for (uint32_t i = 0; i < SS_PLAN_WAYS; i++)
        if (!set[i].entry || !plan_at(room, &set[i]))
            return &set[i];
    return &set[room->next_victim++ % SS_PLAN_WAYS];
}

void ss_plan_store(struct ss_plan_room *room, const ss_recording *recording, uint32_t elements)
{
    size_t words = recording->word_count * sizeof *recording->words;
    size_t guards = recording->guard_count * sizeof *recording->guards;
    size_t stack = elements * sizeof *recording->elements;
    ss_stored_plan plan = {.here = recording->here,
                           .word_count = recording->word_count,
                           .guard_count = recording->guard_count,
                           .element_count = elements};
    uint64_t place = take_place(room, sizeof plan + words + guards + stack);
    unsigned char *to = &room->ring[place % SS_PLAN_RING];
    ss_plan_way *way = choose_way(room, recording->here.entry);

    memcpy(to, &plan, sizeof plan);
    memcpy(to + sizeof plan, recording->words, words);
    memcpy(to + sizeof plan + words, recording->guards, guards);
    memcpy(to + sizeof plan + words + guards, recording->elements, stack);
    *way = (ss_plan_way){recording->here.entry, place, recording->words[0]};
}
