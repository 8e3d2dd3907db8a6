#include "unwind/modules.h"
#include "unwind/unloads.h"
#include "unwind/walk.h"

#include <stdatomic.h>

static bool module_segment(const void *data, uintptr_t address, ss_bytes *bytes)
{
    return ss_module_segment(data, address, 0, &bytes->low, &bytes->high);
}

ss_module_answer ss_module_code(uintptr_t address, const uint8_t **low)
{
    ss_module module;
    ss_module_answer answer = ss_module_find(address, &module);
    const uint8_t *high;

    if (answer == SS_MODULE_FOUND && !ss_module_segment(&module, address, PF_X, low, &high))
        return SS_MODULE_NONE;
    return answer;
}

ss_verdict ss_find_fde(uintptr_t pc, ss_fde *fde)
{
    ss_module module;
    ss_eh_frame section = {{NULL, NULL}, module_segment, &module};
    ss_module_answer answer = ss_module_find(pc, &module);
    ss_bytes segment;

    if (answer == SS_MODULE_UNKNOWN)
        return SS_STEP_UNASKED;
    if (answer == SS_MODULE_NONE || !module.eh_frame_hdr ||
        !module_segment(&module, (uintptr_t)module.eh_frame_hdr, &segment))
        return SS_STEP_NO_DATA;
    section.header.low = module.eh_frame_hdr;
    section.header.high = module.eh_frame_hdr + module.eh_frame_hdr_size;
    if (section.header.high > segment.high)
        section.header.high = segment.high;
    return ss_eh_frame_find(&section, pc, fde) ? SS_STEP_ON : SS_STEP_NO_DATA;
}

/* ---- Rules by address, shared by all threads --------------------------------------------------*/

/*
 * Each entry is its own sequence lock.  The upper part of `state` counts writes and is odd during a
 * write; the lower part is the generation.  A reader that loads the same even state before and
 * after has read the words of one write.  A writer that cannot take the entry at once gives up.  So
 * no thread waits, and neither does a signal handler that interrupted a writer.
 */
typedef struct entry {
    _Atomic uint64_t pc;
    _Atomic uint64_t state;     /* sequence << SS_GENERATION_BITS | generation */
    _Atomic uint64_t start_cfa; /* start << 32 | cfa */
    _Atomic uint64_t slots[SS_SLOT_WORDS];
} entry;

#define ENTRIES_LOG2 12
#define ENTRIES (1u << ENTRIES_LOG2)
#define PAGES_LOG2 5 /* in ENTRIES */
#define PROBES 4
#define SEQUENCE_ONE (UINT64_C(1) << SS_GENERATION_BITS)

static _Alignas(4096) entry entries[ENTRIES];

/*
 * Rules for the code of one page share one page of the cache (except for overflow into the next),
 * so a starting process touches few pages.
 */
static uint32_t first_place(uintptr_t pc)
{
    uint32_t page = (uint32_t)((pc >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - PAGES_LOG2));
    uint32_t place = (uint32_t)pc * UINT32_C(0x9e3779b1) >> (32 - (ENTRIES_LOG2 - PAGES_LOG2));

    return page << (ENTRIES_LOG2 - PAGES_LOG2) | place;
}

static bool is_odd(uint64_t state)
{
    return state & SEQUENCE_ONE;
}

/*
 * The rule stored for PC under GENERATION (ss_modules_generation); false when there is none.  Never
 * mixes two rules.
 */
static bool get_cached(uintptr_t pc, uint64_t generation, ss_rule *rule)
{
    for (uint32_t i = 0, at = first_place(pc); i < PROBES; i++) {
        entry *e = &entries[(at + i) & (ENTRIES - 1)];
        uint64_t state = atomic_load_explicit(&e->state, memory_order_acquire);
        uint64_t start_cfa;

        if (atomic_load_explicit(&e->pc, memory_order_acquire) != pc || is_odd(state) ||
            (state & (SEQUENCE_ONE - 1)) != generation)
            continue;
        /* Acquiring loads keep the second load of the state after them. */
        start_cfa = atomic_load_explicit(&e->start_cfa, memory_order_acquire);
        for (int w = 0; w < SS_SLOT_WORDS; w++)
            rule->slots[w] = atomic_load_explicit(&e->slots[w], memory_order_acquire);
        if (atomic_load_explicit(&e->state, memory_order_relaxed) != state)
            continue;
        rule->start = (uint32_t)(start_cfa >> 32);
        rule->cfa = (uint32_t)start_cfa;
        return true;
    }
    return false;
}

/* The entry of PC itself or of an older generation, else the first one. */
static entry *choose(uintptr_t pc, uint64_t generation)
{
    uint32_t at = first_place(pc);

    for (uint32_t i = 0; i < PROBES; i++) {
        entry *e = &entries[(at + i) & (ENTRIES - 1)];
        uint64_t key = atomic_load_explicit(&e->pc, memory_order_relaxed);

        if (key == 0 || key == pc ||
            (atomic_load_explicit(&e->state, memory_order_relaxed) & (SEQUENCE_ONE - 1)) !=
                generation)
            return e;
    }
    return &entries[at];
}

/* Store RULE, unless another thread is writing to its entry. */
static void put_cached(uintptr_t pc, uint64_t generation, const ss_rule *rule)
{
    entry *e = choose(pc, generation);
    uint64_t state = atomic_load_explicit(&e->state, memory_order_relaxed);
    uint64_t sequence = state & ~(SEQUENCE_ONE - 1);

    if (is_odd(state) ||
        !atomic_compare_exchange_strong_explicit(&e->state, &state, state + SEQUENCE_ONE,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return;
    /* Releasing stores keep the odd state before them. */
    atomic_store_explicit(&e->pc, pc, memory_order_release);
    atomic_store_explicit(&e->start_cfa, (uint64_t)rule->start << 32 | rule->cfa,
                          memory_order_release);
    for (int w = 0; w < SS_SLOT_WORDS; w++)
        atomic_store_explicit(&e->slots[w], rule->slots[w], memory_order_release);
    atomic_store_explicit(&e->state, (sequence + 2 * SEQUENCE_ONE) | generation,
                          memory_order_release);
}

static SS_COLD ss_verdict learn_rule(uintptr_t pc, uint64_t generation, ss_rule *rule)
{
    ss_fde fde;
    ss_cfi_row row;
    ss_verdict found = ss_find_fde(pc, &fde);

    if (found != SS_STEP_ON)
        return found;
    if (!ss_cfi_row_at(&fde, pc, &row))
        return SS_STEP_BROKEN;
    *rule = ss_rule_from_row(&fde, pc, &row);
    put_cached(pc, generation, rule);
    return SS_STEP_ON;
}

ss_verdict ss_find_rule(uintptr_t pc, uint64_t generation, ss_rule *rule)
{
    if (SS_LIKELY(get_cached(pc, generation, rule)))
        return SS_STEP_ON;
    return learn_rule(pc, generation, rule);
}

SS_COLD bool ss_ends_stack(uintptr_t ip)
{
    const uint8_t *low;
    ss_fde fde;

    return ss_find_fde(ip, &fde) == SS_STEP_ON && fde.start == ip &&
           ss_module_code(ip, &low) == SS_MODULE_FOUND &&
           !ss_arch_is_after_call(low, (const uint8_t *)ip);
}

uintptr_t ss_unwind_function(uintptr_t ip)
{
    ss_fde fde;

    return ip && ss_find_fde(ip - 1, &fde) == SS_STEP_ON ? fde.start : 0;
}
