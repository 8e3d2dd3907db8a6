#include "unwind/modules.h"
#include "unwind/walk.h"

#include <string.h>

/* ---- By a compact rule ------------------------------------------------------------------------*/

static bool read_return(const ss_unwind *walk, const ss_rule *rule, uintptr_t slots_base,
                        ss_caller *next)
{
    uintptr_t base = SS_RETURN_SAVED < 0 ? next->sp : slots_base;
    bool found;

    if (ss_rule_kind_of(rule->cfa) == SS_RULE_LEAF)
        found = ss_any_register(walk, walk->count - 1, SS_REGISTER_RA, &next->ip);
    else
        found = ss_read_word(walk, base - SS_WORD * ss_rule_return_slot(rule->slots), &next->ip);
    next->ip = ss_arch_code(next->ip);
    return found;
}

ss_verdict ss_step_compact(const ss_unwind *walk, const ss_rule *rule, ss_caller *next)
{
    uint32_t frame = walk->count - 1;
    ss_rule_kind kind = ss_rule_kind_of(rule->cfa);
    uintptr_t base = walk->frames[frame].sp;

    *next = (ss_caller){.may_stay = kind == SS_RULE_LEAF};
    if ((kind == SS_RULE_SAVED || kind == SS_RULE_AT_SAVED) &&
        !ss_any_register(walk, frame, ss_saved_registers[ss_rule_base(rule->cfa)], &base))
        return SS_STEP_BROKEN;
    next->sp = base + ss_rule_offset(rule->cfa);
    if (kind != SS_RULE_AT_SAVED)
        base = next->sp;
    else if (!ss_read_word(walk, next->sp, &next->sp))
        return SS_STEP_BROKEN;
    return read_return(walk, rule, base, next) ? SS_STEP_ON : SS_STEP_BROKEN;
}

/* ---- By a whole row ---------------------------------------------------------------------------*/

static bool get_register(const void *data, uint64_t number, uintptr_t *value)
{
    const ss_unwind *walk = data;

    return ss_any_register(walk, walk->count - 1, number, value);
}

static bool get_memory(const void *data, uintptr_t address, unsigned size, uintptr_t *value)
{
    return ss_read_stack(data, address, size, value);
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
        return values->get_memory(values->data, address, SS_WORD, value);
    case SS_CFI_IS_CFA:
        *value = address;
        return true;
    case SS_CFI_IN_REGISTER:
        return values->get_register(values->data, (uint64_t)row->value[number], value);
    case SS_CFI_AT_EXPRESSION:
        return ss_cfi_evaluate(ss_cfi_expression(row, number), values, &cfa, &address) &&
               values->get_memory(values->data, address, SS_WORD, value);
    case SS_CFI_IS_EXPRESSION:
        return ss_cfi_evaluate(ss_cfi_expression(row, number), values, &cfa, value);
    default:
        return false;
    }
}

ss_verdict ss_step_row(ss_unwind *walk, const ss_fde *fde, const ss_cfi_row *row, ss_caller *next)
{
    ss_cfi_values values = {get_register, get_memory, walk};
    ss_tree *tree = walk->tree;
    ss_register_file *file = &tree->files[tree->file_count];
    uintptr_t cfa;

    if (tree->file_count == SS_TREE_FILES)
        return SS_STEP_NO_ROOM;
    *next = (ss_caller){.may_jump = fde->signal_frame};
    file->frame = walk->count - 1;
    file->known = 0;
    if (!row_cfa(&values, row, &cfa) || fde->return_register >= SS_REGISTER_COUNT)
        return SS_STEP_BROKEN;
    for (unsigned i = 0; i < SS_REGISTER_COUNT; i++)
        if (row_register(&values, row, i, cfa, &file->value[i]))
            file->known |= UINT32_C(1) << i;
    if (!(file->known >> fde->return_register & 1) || !(file->known >> SS_REGISTER_SP & 1))
        return SS_STEP_BROKEN;
    next->ip = ss_arch_code(file->value[fde->return_register]);
    next->sp = file->value[SS_REGISTER_SP];
    if (fde->signal_frame && next->ip) {
        next->ip++;
        next->flags = STACKSPLICE_NATIVE_SIGNAL;
    }
    tree->file_count++;
    return SS_STEP_ON;
}

static SS_COLD ss_verdict step_full(ss_unwind *walk, uintptr_t pc, ss_caller *next)
{
    ss_fde fde;
    ss_cfi_row row;

    if (!ss_find_fde(pc, &fde))
        return SS_STEP_NO_DATA;
    if (!ss_cfi_row_at(&fde, pc, &row))
        return SS_STEP_BROKEN;
    return ss_step_row(walk, &fde, &row, next);
}

ss_verdict ss_step(ss_unwind *walk, const ss_rule *rule, ss_caller *next)
{
    switch (ss_rule_kind_of(rule->cfa)) {
    case SS_RULE_END:
        return SS_STEP_END;
    case SS_RULE_FULL:
        return step_full(walk, walk->frames[walk->count - 1].ip - 1, next);
    default:
        return ss_step_compact(walk, rule, next);
    }
}

/* ---- Without unwind data ----------------------------------------------------------------------*/

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
SS_COLD ss_verdict ss_step_frame_pointer(const ss_unwind *walk, ss_caller *next)
{
    const stacksplice_native_frame *frame = &walk->frames[walk->count - 1];
    uintptr_t fp;

    if (!ss_any_register(walk, walk->count - 1, SS_REGISTER_FP, &fp) || fp % SS_WORD ||
        fp < frame->sp || ss_step_compact(walk, &walk->tree->rules[0], next) != SS_STEP_ON ||
        !is_return_address(next->ip))
        return SS_STEP_NO_DATA;
    next->flags = STACKSPLICE_NATIVE_INFERRED;
    return SS_STEP_ON;
}
