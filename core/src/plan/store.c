/* Keeps plans, and finds the one that fits. */
#include "plan/plan.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

typedef struct ss_plan_word {
    uintptr_t address, value;
} ss_plan_word;

typedef struct ss_plan_guard {
    int (*holds)(const uintptr_t *data);
    uintptr_t data[SS_PLAN_GUARD_DATA];
    uintptr_t at; /* how many words are compared before */
} ss_plan_guard;

enum {
    SS_PLAN_WORDS = 3072,
    SS_PLAN_GUARDS = 128,
    SS_PLAN_ELEMENTS = 2048,
    SS_PLAN_DISTINCT = 4096 /* entries to find a word that was recorded before */
};

struct ss_recording {
    ss_plan_case here;
    bool refused;
    uint32_t word_count, guard_count;
    ss_plan_word words[SS_PLAN_WORDS];
    ss_plan_guard guards[SS_PLAN_GUARDS];
    uintptr_t elements[SS_PLAN_ELEMENTS];
    uint16_t distinct[SS_PLAN_DISTINCT]; /* the number of a word by its address, from 1 on */
};

/* A plan in the ring: this header, then its words, guards and elements. */
typedef struct ss_stored_plan {
    ss_plan_case here;
    uint32_t word_count, guard_count, element_count;
} ss_stored_plan;

/*
 * Where a plan is.  The probe is a word of the stack that differed last time: where several plans
 * begin alike, it tells soonest which of them does not fit.
 */
typedef struct ss_plan_way {
    uintptr_t entry; /* of its case; 0: none */
    uint64_t place;  /* in the ring, counted from its first use on */
    ss_plan_word probe;
} ss_plan_way;

enum { SS_PLAN_RING = 256 << 10 };

struct ss_plan_memory {
    ss_plan_world world; /* of all plans */
    uint64_t end;        /* of the newest plan, as a place */
    uint32_t next_victim;
    ss_plan_way sets[SS_PLAN_SETS][SS_PLAN_WAYS];
    ss_recording recording;
    _Alignas(64) unsigned char ring[SS_PLAN_RING];
};

/* Words of the stack lie between variables that sanitizers poison. */
#define NO_SANITIZE __attribute__((no_sanitize("address", "thread")))

bool ss_plan_is_blind; /* (RO) */

/* Forget all plans if the world is no longer the one in which they were made. */
static void ss_plan_renew(struct ss_plan_memory *memory, const ss_plan_world *world)
{
    const ss_plan_world *made = &memory->world;

    if (SS_LIKELY(made->modules == world->modules && made->marks == world->marks &&
                  made->tokens == world->tokens))
        return;
    memset(memory->sets, 0, sizeof memory->sets);
    memory->world = *world;
}

/* ---- Finding ---------------------------------------------------------------------------------*/

static inline ss_plan_way *set_of(struct ss_plan_memory *memory, uintptr_t entry)
{
    return memory->sets[ss_plan_set_of(entry)];
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
static const ss_stored_plan *plan_at(const struct ss_plan_memory *memory, const ss_plan_way *way)
{
    if (memory->end - way->place > SS_PLAN_RING)
        return NULL;
    return (const ss_stored_plan *)(const void *)&memory->ring[way->place % SS_PLAN_RING];
}

bool ss_plan_find(ss_plans *plans, ss_plan_case *here, ss_plan *found)
{
    struct ss_plan_memory *memory = plans->memory;
    uint32_t *debt = &plans->debt[here->kind];
    ss_plan_way *set;

    if (!memory || !ss_stack_find_cached(&plans->stack, here->entry, &here->stack))
        return false;
    ss_plan_renew(memory, &here->world);
    set = set_of(memory, here->entry);
    for (ss_plan_way *way = set; way < set + SS_PLAN_WAYS; way++) {
        const ss_stored_plan *plan;

        if (way->entry != here->entry || !(plan = plan_at(memory, way)) ||
            !is_same_case(&plan->here, here) || word_at(way->probe.address) != way->probe.value ||
            !fits(plan, way))
            continue;
        found->elements = (const uintptr_t *)(guards_of(plan) + plan->guard_count);
        found->count = plan->element_count;
        plans->misses[here->kind] = 0;
        *debt -= *debt < SS_PLAN_PAID_BY_HIT ? *debt : SS_PLAN_PAID_BY_HIT;
        return true;
    }
    return false;
}

/* ---- Storing ---------------------------------------------------------------------------------*/

/* SIZE contiguous bytes of the ring, as a place. */
static uint64_t take_place(struct ss_plan_memory *memory, size_t size)
{
    uint64_t place = memory->end;

    if (place % SS_PLAN_RING + size > SS_PLAN_RING)
        place += SS_PLAN_RING - place % SS_PLAN_RING;
    memory->end = place + size;
    return place;
}

static ss_plan_way *choose_way(struct ss_plan_memory *memory, uintptr_t entry)
{
    ss_plan_way *set = set_of(memory, entry);

    for (uint32_t i = 0; i < SS_PLAN_WAYS; i++)
        if (!set[i].entry || !plan_at(memory, &set[i]))
            return &set[i];
    return &set[memory->next_victim++ % SS_PLAN_WAYS];
}

/* Store what was recorded; the words are padded to a multiple of four. */
static void ss_plan_store(struct ss_plan_memory *memory, const ss_recording *recording,
                          uint32_t elements)
{
    size_t words = recording->word_count * sizeof *recording->words;
    size_t guards = recording->guard_count * sizeof *recording->guards;
    size_t stack = elements * sizeof *recording->elements;
    ss_stored_plan plan = {.here = recording->here,
                           .word_count = recording->word_count,
                           .guard_count = recording->guard_count,
                           .element_count = elements};
    uint64_t place = take_place(memory, sizeof plan + words + guards + stack);
    unsigned char *to = &memory->ring[place % SS_PLAN_RING];
    ss_plan_way *way = choose_way(memory, recording->here.entry);

    memcpy(to, &plan, sizeof plan);
    memcpy(to + sizeof plan, recording->words, words);
    memcpy(to + sizeof plan + words, recording->guards, guards);
    memcpy(to + sizeof plan + words + guards, recording->elements, stack);
    *way = (ss_plan_way){recording->here.entry, place, recording->words[0]};
}

/* ---- Recording what a capture depends on ------------------------------------------------------*/

static bool is_recent(ss_plan_recent seen, uint16_t now)
{
    return seen.tag && (uint16_t)(now - seen.when) <= SS_PLAN_WAYS;
}

/*
 * If more stacks than there are ways have the same entry, and take turns, the plan of each would be
 * gone before it is of use.  Of the stacks that share a pair of places, two have to get their plans.
 */
bool ss_plan_is_due(ss_plans *plans, const ss_plan_case *here, uint32_t hash)
{
    ss_plan_recent *seen = plans->recent[(hash >> 16) % SS_PLAN_RECENT];
    ss_plan_recent now = {(uint16_t)(hash | 1), ++plans->captured[ss_plan_set_of(here->entry)]};
    bool same, recent;

    if (seen->tag != now.tag && (seen[1].tag == now.tag || is_recent(*seen, now.when)))
        seen++;
    same = seen->tag == now.tag;
    recent = is_recent(*seen, now.when);
    if (same || !recent)
        *seen = now;
    if (!ss_plan_is_possible || !same || !recent || plans->debt[here->kind] > SS_PLAN_MOST_DEBT)
        return false;
    plans->debt[here->kind] += SS_PLAN_COST;
    return true;
}

/* Signal safe, as the memory of a walk. */
static SS_COLD struct ss_plan_memory *new_memory(void)
{
    int before = errno;
    struct ss_plan_memory *memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    errno = before;
    return memory == MAP_FAILED ? NULL : memory;
}

void ss_plans_clear(ss_plans *plans)
{
    int before = errno;

    if (plans->memory)
        (void)munmap(plans->memory, sizeof *plans->memory);
    errno = before;
    memset(plans, 0, sizeof *plans);
}

ss_recording *ss_plan_record(ss_plans *plans, ss_plan_case *here)
{
    ss_recording *recording;

    if (!plans->memory)
        plans->memory = new_memory();
    if (!plans->memory || !ss_stack_find_cached(&plans->stack, here->entry, &here->stack))
        return NULL;
    ss_plan_renew(plans->memory, &here->world);
    recording = &plans->memory->recording;
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

void ss_record_word(void *data, uintptr_t address, uintptr_t value)
{
    ss_recording *recording = data;
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

uintptr_t *ss_plan_spare_elements(const ss_plans *plans, uint32_t *max)
{
    if (*max > SS_PLAN_ELEMENTS)
        *max = SS_PLAN_ELEMENTS;
    return plans->memory->recording.elements;
}

uintptr_t *ss_record_elements(ss_recording *recording, uint32_t *max)
{
    *max = SS_PLAN_ELEMENTS;
    return recording->refused ? NULL : recording->elements;
}

void ss_record_done(ss_plans *plans, ss_recording *recording, uint32_t count)
{
    if (recording->refused || !recording->word_count || !count)
        return;
    /* The first word is one of the stack, which can be read at any time. */
    while (recording->word_count % 4)
        recording->words[recording->word_count++] = recording->words[0];
    ss_plan_store(plans->memory, recording, count);
}
