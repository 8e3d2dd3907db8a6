#include "unwind/walk.h"

/*
 * Sanitizers must not check this: a frame's saved registers and return address lie between
 * variables that they poison.  The poison may also be left from a frame that has already returned.
 */
__attribute__((no_sanitize("address", "thread"))) bool ss_read_word(const ss_unwind *walk,
                                                                    uintptr_t address,
                                                                    uintptr_t *value)
{
    for (uint32_t i = walk->stack_count; address % SS_WORD == 0 && i-- > 0;)
        if (address >= walk->stacks[i].low && address < walk->stacks[i].high &&
            walk->stacks[i].high - address >= SS_WORD) {
            *value = *(const volatile uintptr_t *)address;
            return true;
        }
    return false;
}

/* The file of FRAME or of the nearest frame further in; NULL without any. */
static const ss_register_file *file_within(const ss_table *table, uint32_t frame)
{
    uint32_t low = 0, high = table->file_count;

    while (low < high) { /* they are in frame order */
        uint32_t middle = (low + high) / 2;

        if (table->files[middle].frame <= frame)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &table->files[low - 1] : NULL;
}

/* The file with the registers of FRAME's caller; FRAME has a full rule. */
static const ss_register_file *file_of(const ss_table *table, uint32_t frame)
{
    const ss_register_file *file = file_within(table, frame);

    return file && file->frame == frame ? file : NULL;
}

static bool from_file(const ss_register_file *file, uint64_t number, uintptr_t *value)
{
    if (!file || !(file->known >> number & 1))
        return false;
    *value = file->value[number];
    return true;
}

static const ss_rule *rule_of(const ss_unwind *walk, uint32_t frame)
{
    return &walk->table->rules[walk->frames[frame].rule];
}

/* A callee-saved register. */
static bool saved_register(const ss_unwind *walk, uint32_t frame, int saved, uintptr_t *value)
{
    while (frame-- > 0) {
        const ss_rule *rule = rule_of(walk, frame);
        uintptr_t base = walk->frames[frame + 1].sp;
        unsigned slot;

        /* Code without unwind data gets the frame pointer rule, unless a file holds more. */
        if (SS_UNLIKELY(ss_rule_kind_of(rule->cfa) == SS_RULE_FULL ||
                        (walk->frames[frame].rule == 0 && file_of(walk->table, frame))))
            return from_file(file_of(walk->table, frame), ss_saved_registers[saved], value);
        slot = ss_rule_slot(rule->slots, saved);
        if (slot == SS_SLOT_UNCHANGED)
            continue;
        if (slot == SS_SLOT_LOST)
            return false;
        if (SS_UNLIKELY(ss_rule_kind_of(rule->cfa) == SS_RULE_AT_SAVED) &&
            !saved_register(walk, frame, ss_rule_base(rule->cfa), &base))
            return false;
        return ss_read_word(walk, base - SS_WORD * slot, value);
    }
    *value = walk->table->entry[saved];
    return true;
}

/*
 * A register that calls may change.  Libraries in assembly count a CFA from one across calls of
 * their own functions, which keep it.  So the value that a signal left holds further out, as long
 * as the frames in between have descriptions, and those do not mention it.
 */
static bool changeable_register(const ss_unwind *walk, uint32_t frame, uint64_t number,
                                uintptr_t *value)
{
    const ss_register_file *file = frame ? file_within(walk->table, frame - 1) : NULL;

    for (uint32_t i = file ? file->frame + 1 : frame; i < frame; i++)
        if (!walk->frames[i].rule)
            return false;
    return from_file(file, number, value);
}

bool ss_any_register(const ss_unwind *walk, uint32_t frame, uint64_t number, uintptr_t *value)
{
    int saved = ss_saved_index(number);

    if (saved >= 0)
        return saved_register(walk, frame, saved, value);
    if (number >= SS_REGISTER_COUNT)
        return false;
    if (number == SS_REGISTER_SP || number == SS_REGISTER_RA) {
        const stacksplice_native_frame *f = &walk->frames[frame];

        /*
         * Where a signal interrupted the frame, `ip` is one more than the address of the
         * instruction.
         */
        *value = number == SS_REGISTER_SP ? f->sp : f->ip - (f->flags & STACKSPLICE_NATIVE_SIGNAL);
        return true;
    }
    return changeable_register(walk, frame, number, value);
}

bool ss_unwind_registers(const ss_unwind *walk, uint32_t frame, const uint32_t *dwarf_registers,
                         uint32_t count, uintptr_t *values)
{
    for (uint32_t i = 0; i < count; i++)
        if (frame >= walk->count || ss_saved_index(dwarf_registers[i]) < 0 ||
            !ss_any_register(walk, frame, dwarf_registers[i], &values[i]))
            return false;
    return true;
}
