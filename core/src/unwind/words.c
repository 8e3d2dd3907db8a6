/*
 * Which words of the stack a walk depended on.  Only for what recurring captures consist of: frames
 * that a compact rule describes, on one stack.
 */
#include "unwind/walk.h"

/*
 * Where the value of register SAVED in FRAME is: in the slot of the nearest frame further in that
 * saved it.  0 if it is not in one.
 */
static uintptr_t slot_of(const ss_unwind *walk, uint32_t frame, int saved)
{
    while (frame-- > 0) {
        const ss_rule *rule = &walk->table->rules[walk->frames[frame].rule];
        unsigned slot = ss_rule_slot(rule->slots, saved);

        if (ss_rule_kind_of(rule->cfa) > SS_RULE_SAVED || slot == SS_SLOT_LOST)
            return 0;
        if (slot != SS_SLOT_UNCHANGED)
            return walk->frames[frame + 1].sp - SS_WORD * slot;
    }
    return 0;
}

static bool report_saved(const ss_unwind *walk, uint32_t frame, int saved, ss_word_report report,
                         void *data)
{
    uintptr_t address = slot_of(walk, frame, saved), value;

    if (!address || !ss_read_word(walk, address, &value))
        return false;
    report(data, address, value);
    return true;
}

/* Report what the caller of FRAME follows from, besides its sp; *LAST: there is no caller. */
static bool report_rule(const ss_unwind *walk, uint32_t frame, bool *last, ss_word_report report,
                        void *data)
{
    const ss_rule *rule = &walk->table->rules[walk->frames[frame].rule];
    ss_rule_kind kind = ss_rule_kind_of(rule->cfa);

    *last = kind == SS_RULE_END;
    if (kind == SS_RULE_SP || kind == SS_RULE_END)
        return true;
    return kind <= SS_RULE_SAVED &&
           report_saved(walk, frame, ss_rule_base(rule->cfa), report, data);
}

/* Report the return address of 0 at which the walk ended. */
static bool report_end(const ss_unwind *walk, ss_word_report report, void *data)
{
    const ss_rule *rule = &walk->table->rules[walk->frames[walk->count - 1].rule];
    ss_caller next;

    if (ss_step_compact(walk, rule, &next) != SS_STEP_ON || next.ip)
        return false;
    report(data, next.sp - SS_WORD * SS_RETURN_SLOT, 0);
    return true;
}

/* Whether the walk used nothing but the rules and one stack. */
static bool is_plain(const ss_unwind *walk)
{
    return SS_RETURN_SAVED < 0 && walk->table && walk->stack_count == 1 && !walk->inferred &&
           !walk->forwards && !walk->end_reason && !walk->table->file_count;
}

bool ss_unwind_words(const ss_unwind *walk, uint32_t first, uint32_t count, ss_word_report report,
                     void *data)
{
    uint32_t end = first + count;
    bool last = false;

    if (!is_plain(walk) || !first || end > walk->count)
        return false;
    for (uint32_t i = first; i < end; i++) {
        const stacksplice_native_frame *frame = &walk->frames[i];

        if (frame->flags & (STACKSPLICE_NATIVE_SIGNAL | STACKSPLICE_NATIVE_INFERRED) || last)
            return false;
        report(data, frame->sp - SS_WORD * SS_RETURN_SLOT, frame->ip);
        if (!report_rule(walk, i, &last, report, data))
            return false;
    }
    if (end < walk->count)
        return true;
    return !walk->bytes_left && (last || report_end(walk, report, data));
}

bool ss_unwind_register_word(const ss_unwind *walk, uint32_t frame, uint32_t dwarf_register,
                             ss_word_report report, void *data)
{
    int saved = ss_saved_index(dwarf_register);

    return is_plain(walk) && frame < walk->count && saved >= 0 &&
           report_saved(walk, frame, saved, report, data);
}
