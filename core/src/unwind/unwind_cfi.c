/*
 * The walk by call frame information.
 *
 *      high addresses            frame i+1
 *      sp[i+1] = CFA of i  ----> +--------------------+
 *                                | return address     |  CFA - 8: ip[i+1]
 *                                | saved registers    |  slots
 *                                | locals             |
 *      sp[i]               ----> +--------------------+
 *      low addresses             frame i-1
 *
 * Frame i owns [sp[i], sp[i+1]).  Registers are not carried along: the value of one in frame i is
 * in the slot of the nearest frame further in that saved it, else it is still the one at the entry.
 */
#include "unwind/unwind.h"

#include "base/alloc.h"
#include "unwind/modules.h"
#include "unwind/rule_cache.h"
#include "unwind/stack.h"

#include <stdatomic.h>
#include <string.h>

#define WORD sizeof(uintptr_t)
#define FIRST_CAPACITY 128
#define KEPT_CAPACITY 2048

/* How the caller of a frame was found. */
struct ss_unwind_step {
    uint64_t slots[SS_SLOT_WORDS]; /* of ss_rule; all lost where `file` says more */
    uintptr_t base; /* slots count down from here */
    uint32_t file;  /* index of the caller's complete register set, 0: none */
};

/* The registers of one frame at its call. */
struct ss_register_file {
    uintptr_t value[SS_REGISTER_COUNT];
    uint32_t known; /* bit per register */
};

_Static_assert(SS_REGISTER_COUNT <= 32, "known is one bit a register");

/* The caller of a frame, before it is trusted. */
typedef struct caller {
    uintptr_t ip;
    uintptr_t sp;
    ss_unwind_step step;
    uint32_t flags;
    bool may_jump; /* a signal frame: the caller may be on another stack */
    bool may_stay; /* a function that has put nothing on the stack yet */
} caller;

typedef uint32_t (*classifier)(uintptr_t ip, uintptr_t function);

typedef enum verdict { STEP_ON, STEP_END, STEP_NO_DATA, STEP_BROKEN, STEP_NO_MEMORY } verdict;

static const char no_data[] = "no unwind data";
static const char broken_data[] = "unwind data not usable";
static const char off_stack[] = "next frame outside the stack";
static const char unknown_stack[] = "stack bounds unknown";

/* ---- Memory of the walk -----------------------------------------------------------------------*/

static bool grow(void **block, uint32_t *capacity, size_t size)
{
    uint32_t wanted = *capacity ? *capacity * 2 : FIRST_CAPACITY;
    void *grown = ss_realloc(*block, wanted, size);

    if (!grown)
        return false;
    *block = grown;
    *capacity = wanted;
    return true;
}

static bool room_for_frame(ss_unwind *walk)
{
    uint32_t capacity = walk->capacity;
    void *steps = walk->steps, *frames = walk->frames, *marked = walk->marked;
    bool grown;

    if (SS_LIKELY(walk->count < capacity))
        return true;
    grown = grow(&steps, &capacity, sizeof *walk->steps);
    walk->steps = steps;
    capacity = walk->capacity;
    grown = grown && grow(&frames, &capacity, sizeof *walk->frames);
    walk->frames = frames;
    capacity = walk->capacity;
    grown = grown && grow(&marked, &capacity, sizeof *walk->marked);
    walk->marked = marked;
    if (grown)
        walk->capacity = capacity;
    return grown;
}

static ss_register_file *new_file(ss_unwind *walk)
{
    void *files = walk->files;

    if (walk->file_count == walk->file_capacity &&
        !grow(&files, &walk->file_capacity, sizeof *walk->files))
        return NULL;
    walk->files = files;
    return &walk->files[walk->file_count++];
}

void ss_unwind_trim(ss_unwind *walk, bool all)
{
    if (!all && walk->capacity <= KEPT_CAPACITY && walk->file_capacity <= KEPT_CAPACITY)
        return;
    ss_free(walk->frames);
    ss_free(walk->steps);
    ss_free(walk->marked);
    ss_free(walk->files);
    memset(walk, 0, sizeof *walk);
}

/* ---- Reading the stack ------------------------------------------------------------------------*/

static bool on_stack(const ss_unwind *walk, uintptr_t address, unsigned size)
{
    for (uint32_t i = walk->stack_count; i-- > 0;)
        if (address >= walk->stacks[i].low && address < walk->stacks[i].high &&
            walk->stacks[i].high - address >= size)
            return true;
    return false;
}

/*
 * The only place that reads the stack.  Sanitizers must not look: a frame's saved registers and
 * return address lie between variables that they poison, and the owner of a poisoned variable's
 * bytes may be a frame that is long gone.
 */
__attribute__((no_sanitize("address", "thread"))) static bool read_stack(const ss_unwind *walk,
                                                                         uintptr_t address,
                                                                         unsigned size,
                                                                         uintptr_t *value)
{
    if (!on_stack(walk, address, size))
        return false;
    if (SS_LIKELY(size == WORD && address % WORD == 0)) {
        *value = *(const volatile uintptr_t *)address;
        return true;
    }
    *value = 0;
    for (unsigned i = 0; i < size; i++)
        *value |= (uintptr_t) * (const volatile uint8_t *)(address + i) << (8 * i);
    return true;
}

static bool read_word(const ss_unwind *walk, uintptr_t address, uintptr_t *value)
{
    return read_stack(walk, address, WORD, value);
}

/* ---- Registers --------------------------------------------------------------------------------*/

static bool from_file(const ss_register_file *file, uint64_t number, uintptr_t *value)
{
    if (!(file->known >> number & 1))
        return false;
    *value = file->value[number];
    return true;
}

/* Any register of frame FRAME; those that a call may change are known only behind a signal. */
static bool any_register(const ss_unwind *walk, uint32_t frame, uint64_t number, uintptr_t *value)
{
    int saved = ss_saved_index(number);

    if (number >= SS_REGISTER_COUNT)
        return false;
    if (number == SS_REGISTER_SP || (number == SS_REGISTER_RA && saved < 0)) {
        *value = number == SS_REGISTER_SP ? walk->frames[frame].sp : walk->frames[frame].ip;
        return true;
    }
    if (saved < 0)
        return frame > 0 && walk->steps[frame - 1].file &&
               from_file(&walk->files[walk->steps[frame - 1].file], number, value);
    while (frame-- > 0) {
        const ss_unwind_step *step = &walk->steps[frame];
        unsigned slot = ss_rule_slot(step->slots, saved);

        if (step->file)
            return from_file(&walk->files[step->file], number, value);
        if (slot == SS_SLOT_LOST)
            return false;
        if (slot != SS_SLOT_UNCHANGED)
            return read_word(walk, step->base - WORD * slot, value);
    }
    return from_file(&walk->files[0], number, value);
}

bool ss_unwind_register(const ss_unwind *walk, uint32_t frame, uint32_t dwarf_register,
                        uintptr_t *value)
{
    return frame < walk->count && ss_saved_index(dwarf_register) >= 0 &&
           any_register(walk, frame, dwarf_register, value);
}

/* ---- Finding the rule -------------------------------------------------------------------------*/

static bool module_segment(const void *data, uintptr_t address, ss_bytes *bytes)
{
    return ss_module_segment(data, address, 0, &bytes->low, &bytes->high);
}

/* The frame description of PC; false when no loaded module has one. */
static bool find_fde(uintptr_t pc, ss_fde *fde)
{
    ss_module module;
    ss_eh_frame section = {{NULL, NULL}, module_segment, &module};
    ss_bytes segment;

    if (!ss_module_find(pc, &module) || !module.eh_frame_hdr ||
        !module_segment(&module, (uintptr_t)module.eh_frame_hdr, &segment))
        return false;
    section.header.low = module.eh_frame_hdr;
    section.header.high = module.eh_frame_hdr + module.eh_frame_hdr_size;
    if (section.header.high > segment.high)
        section.header.high = segment.high;
    return ss_eh_frame_find(&section, pc, fde);
}

/* The address to look up: a return address belongs to the call before it, which may be the last
   instruction of its function. */
static uintptr_t lookup_address(const stacksplice_native_frame *frame)
{
    return frame->flags & STACKSPLICE_NATIVE_SIGNAL ? frame->ip : frame->ip - 1;
}

static SS_COLD verdict learn_rule(uintptr_t pc, uint32_t generation, ss_rule *rule)
{
    ss_fde fde;
    ss_cfi_row row;

    if (!find_fde(pc, &fde))
        return STEP_NO_DATA;
    if (!ss_cfi_row_at(&fde, pc, &row))
        return STEP_BROKEN;
    *rule = ss_rule_from_row(&fde, pc, &row);
    ss_rule_cache_put(pc, generation, rule);
    return STEP_ON;
}

static verdict find_rule(uintptr_t pc, uint32_t generation, ss_rule *rule)
{
    if (SS_LIKELY(ss_rule_cache_get(pc, generation, rule)))
        return STEP_ON;
    return learn_rule(pc, generation, rule);
}

uintptr_t ss_unwind_function(uintptr_t ip)
{
    ss_fde fde;

    return ip && find_fde(ip - 1, &fde) ? fde.start : 0;
}

/* ---- One step by a compact rule ---------------------------------------------------------------*/

static bool read_return(const ss_unwind *walk, const ss_rule *rule, caller *next)
{
    uintptr_t base = SS_RETURN_SAVED < 0 ? next->sp : next->step.base;
    bool found;

    if (ss_rule_kind_of(rule->cfa) == SS_RULE_LEAF)
        found = any_register(walk, walk->count - 1, SS_REGISTER_RA, &next->ip);
    else
        found = read_word(walk, base - WORD * ss_rule_return_slot(rule->slots), &next->ip);
    next->ip = ss_arch_code(next->ip);
    return found;
}

static verdict step_compact(const ss_unwind *walk, const ss_rule *rule, caller *next)
{
    uint32_t frame = walk->count - 1;
    ss_rule_kind kind = ss_rule_kind_of(rule->cfa);
    uintptr_t base = walk->frames[frame].sp;

    if ((kind == SS_RULE_SAVED || kind == SS_RULE_AT_SAVED) &&
        !any_register(walk, frame, ss_saved_registers[ss_rule_base(rule->cfa)], &base))
        return STEP_BROKEN;
    next->sp = base + ss_rule_offset(rule->cfa);
    next->may_stay = kind == SS_RULE_LEAF;
    next->step.base = next->sp;
    memcpy(next->step.slots, rule->slots, sizeof rule->slots);
    if (kind == SS_RULE_AT_SAVED) {
        next->step.base = base;
        if (!read_word(walk, next->sp, &next->sp))
            return STEP_BROKEN;
    }
    return read_return(walk, rule, next) ? STEP_ON : STEP_BROKEN;
}

/* ---- One step by a whole row ------------------------------------------------------------------*/

static bool get_register(const void *data, uint64_t number, uintptr_t *value)
{
    const ss_unwind *walk = data;

    return any_register(walk, walk->count - 1, number, value);
}

static bool get_memory(const void *data, uintptr_t address, unsigned size, uintptr_t *value)
{
    return read_stack(data, address, size, value);
}

static bool row_cfa(const ss_cfi_values *values, const ss_cfi_row *row, uintptr_t *cfa)
{
    if (row->cfa_expression.at)
        return ss_cfi_evaluate(row->cfa_expression, values, NULL, cfa);
    if (!values->get_register(values->data, row->cfa_register, cfa))
        return false;
    *cfa += (uintptr_t)row->cfa_offset;
    return true;
}

/* The caller's value of register NUMBER. */
static bool row_register(const ss_cfi_values *values, const ss_cfi_row *row, unsigned number,
                         uintptr_t cfa, uintptr_t *value)
{
    uintptr_t address = cfa + (uintptr_t)row->value[number];

    switch (row->kind[number]) {
    case SS_CFI_UNCHANGED:
        if (number == SS_REGISTER_SP) {
            *value = cfa;
            return true;
        }
        return ss_saved_index(number) >= 0 && values->get_register(values->data, number, value);
    case SS_CFI_AT_CFA:
        return values->get_memory(values->data, address, WORD, value);
    case SS_CFI_IS_CFA:
        *value = address;
        return true;
    case SS_CFI_IN_REGISTER:
        return values->get_register(values->data, (uint64_t)row->value[number], value);
    case SS_CFI_AT_EXPRESSION:
        return ss_cfi_evaluate(ss_cfi_expression(row, number), values, &cfa, &address) &&
               values->get_memory(values->data, address, WORD, value);
    case SS_CFI_IS_EXPRESSION:
        return ss_cfi_evaluate(ss_cfi_expression(row, number), values, &cfa, value);
    default:
        return false;
    }
}

static verdict evaluate_row(ss_unwind *walk, const ss_fde *fde, const ss_cfi_row *row, caller *next)
{
    ss_cfi_values values = {get_register, get_memory, walk};
    ss_register_file file = {.known = 0}, *kept;
    uintptr_t cfa;

    if (!row_cfa(&values, row, &cfa) || fde->return_register >= SS_REGISTER_COUNT)
        return STEP_BROKEN;
    for (unsigned i = 0; i < SS_REGISTER_COUNT; i++)
        if (row_register(&values, row, i, cfa, &file.value[i]))
            file.known |= UINT32_C(1) << i;
    if (!from_file(&file, fde->return_register, &next->ip) ||
        !from_file(&file, SS_REGISTER_SP, &next->sp))
        return STEP_BROKEN;
    kept = new_file(walk);
    if (!kept)
        return STEP_NO_MEMORY;
    *kept = file;
    next->step.file = walk->file_count - 1;
    next->may_jump = fde->signal_frame;
    next->flags = fde->signal_frame ? STACKSPLICE_NATIVE_SIGNAL : 0;
    return STEP_ON;
}

static SS_COLD verdict step_full(ss_unwind *walk, uintptr_t pc, caller *next)
{
    ss_fde fde;
    ss_cfi_row row;

    if (!find_fde(pc, &fde))
        return STEP_NO_DATA;
    if (!ss_cfi_row_at(&fde, pc, &row))
        return STEP_BROKEN;
    return evaluate_row(walk, &fde, &row, next);
}

/* ---- One step without unwind data -------------------------------------------------------------*/

/* Whether a call in a loaded module returns to ADDRESS. */
static bool is_return_address(uintptr_t address)
{
    const uint8_t *low;

    return ss_module_code(address - 1, &low) &&
           ss_arch_is_after_call(low, (const uint8_t *)address);
}

/*
 * By the frame pointer, if everything about it holds: it points into the stack beyond this frame,
 * and the word above it is where a call returns to.  The word at it proves nothing: the caller may
 * use the register for something else.
 */
static SS_COLD verdict step_frame_pointer(const ss_unwind *walk, caller *next)
{
    const stacksplice_native_frame *frame = &walk->frames[walk->count - 1];
    ss_rule rule = ss_rule_frame_pointer();
    uintptr_t fp;

    if (!any_register(walk, walk->count - 1, SS_REGISTER_FP, &fp) || fp % WORD || fp < frame->sp ||
        step_compact(walk, &rule, next) != STEP_ON || !is_return_address(next->ip))
        return STEP_NO_DATA;
    next->flags = STACKSPLICE_NATIVE_INFERRED;
    return STEP_ON;
}

/* ---- The walk ---------------------------------------------------------------------------------*/

static verdict find_caller(ss_unwind *walk, caller *next)
{
    stacksplice_native_frame *frame = &walk->frames[walk->count - 1];
    uintptr_t pc = lookup_address(frame);
    ss_rule rule;
    verdict found = find_rule(pc, walk->generation, &rule);

    *next = (caller){.ip = 0};
    if (found == STEP_NO_DATA)
        return step_frame_pointer(walk, next);
    if (found != STEP_ON)
        return found;
    frame->function = rule.start == UINT32_MAX ? 0 : pc - rule.start;
    switch (ss_rule_kind_of(rule.cfa)) {
    case SS_RULE_END:
        return STEP_END;
    case SS_RULE_FULL:
        return step_full(walk, pc, next);
    default:
        return step_compact(walk, &rule, next);
    }
}

/* Whether the caller lies further out on the same stack, or on another one that is known. */
static bool accept_stack(ss_unwind *walk, const caller *next)
{
    const ss_stack *stack = &walk->stacks[walk->stack_count - 1];
    ss_stack other;

    if (next->sp % WORD)
        return false;
    if (next->sp + next->may_stay > walk->frames[walk->count - 1].sp && next->sp <= stack->high)
        return true;
    if (!next->may_jump || walk->stack_count == SS_UNWIND_MAX_STACKS ||
        !ss_stack_find(next->sp, &other))
        return false;
    other.low = next->sp - SS_RED_ZONE;
    walk->stacks[walk->stack_count++] = other;
    return true;
}

static bool push_frame(ss_unwind *walk, uintptr_t ip, uintptr_t sp, uint32_t flags)
{
    if (!room_for_frame(walk))
        return false;
    walk->frames[walk->count++] = (stacksplice_native_frame){ip, sp, 0, flags, 0};
    return true;
}

/* The entry's registers and frame 0, and how far the stack may be read. */
static bool begin(ss_unwind *walk, const ss_entry_registers *entry, const void *above)
{
    uintptr_t known = (uintptr_t)above + 2 * WORD; /* the frame pointer and the return address */
    ss_register_file *file;
    ss_stack stack;

    walk->count = walk->file_count = walk->stack_count = 0;
    walk->hidden = walk->marked_count = 0;
    walk->end_reason = NULL;
    walk->bytes_left = 0;
    walk->generation = ss_modules_generation();
    file = new_file(walk);
    if (!file || !push_frame(walk, entry->ip, entry->sp, 0))
        return false;
    file->known = 0;
    for (int i = 0; i < SS_SAVED_COUNT; i++) {
        file->value[ss_saved_registers[i]] = entry->saved[i];
        file->known |= UINT32_C(1) << ss_saved_registers[i];
    }
    if (!ss_stack_find(entry->sp, &stack)) {
        stack.high = known;
        walk->end_reason = unknown_stack;
    }
    stack.low = entry->sp;
    walk->stacks[walk->stack_count++] = stack;
    return true;
}

static bool walk_on(ss_unwind *walk, uint32_t max)
{
    const char *reason = NULL;

    for (;;) {
        caller next;
        verdict found = find_caller(walk, &next);

        if (found == STEP_NO_MEMORY)
            return false;
        if (found == STEP_END || (found == STEP_ON && !next.ip)) {
            walk->end_reason = NULL;
            return true;
        }
        if (found != STEP_ON)
            reason = found == STEP_NO_DATA ? no_data : broken_data;
        else if (!accept_stack(walk, &next))
            reason = off_stack;
        if (reason)
            break;
        if (walk->count == max) {
            walk->bytes_left = walk->stacks[walk->stack_count - 1].high - next.sp;
            return true;
        }
        walk->steps[walk->count - 1] = next.step;
        if (!push_frame(walk, next.ip, next.sp, next.flags))
            return false;
    }
    /* On a stack of unknown bounds every step fails sooner or later: that is the reason. */
    if (!walk->end_reason)
        walk->end_reason = reason;
    return true;
}

static _Atomic(classifier) classify; /* (ATOMIC) */

void ss_unwind_classify(uint32_t (*flags)(uintptr_t ip, uintptr_t function))
{
    atomic_store(&classify, flags);
}

static void mark_frames(ss_unwind *walk, uintptr_t above)
{
    classifier ask = atomic_load(&classify);

    while (walk->hidden < walk->count && walk->frames[walk->hidden].sp <= above)
        walk->hidden++;
    for (uint32_t i = walk->hidden; ask && i < walk->count; i++) {
        stacksplice_native_frame *frame = &walk->frames[i];

        frame->flags |= ask(frame->ip, frame->function);
        if (frame->flags & SS_UNWIND_MARKED)
            walk->marked[walk->marked_count++] = i - walk->hidden;
    }
}

SS_NOINLINE bool ss_unwind_walk(ss_unwind *walk, const void *above, uint32_t max)
{
    ss_entry_registers entry;
    bool done;

    ss_arch_entry(&entry);
    done = begin(walk, &entry, above) && walk_on(walk, max);
    mark_frames(walk, (uintptr_t)above);
    __asm__ volatile("" ::: "memory"); /* no tail call: this frame is one of those walked */
    return done;
}
