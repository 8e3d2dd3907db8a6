#include "unwind/rule.h"

#define WORD ((int64_t)sizeof(uintptr_t))
#define OFFSET_LIMIT (INT64_C(1) << 27) /* of an offset stored with a base */

enum { OP_DEREF = 0x06, OP_BREG0 = 0x70, OP_BREG31 = 0x8f };

static bool put_cfa(ss_rule *rule, ss_rule_kind kind, int base, int64_t offset)
{
    if (offset % WORD)
        return false;
    if (kind == SS_RULE_SP) {
        rule->cfa = (uint32_t)offset;
        return offset >= WORD && offset <= INT32_MAX;
    }
    rule->cfa = (uint32_t)base << 28 | ((uint32_t)offset & (OFFSET_LIMIT * 2 - 1)) | (uint32_t)kind;
    return offset >= -OFFSET_LIMIT && offset < OFFSET_LIMIT;
}

static void put_slot(ss_rule *rule, int saved, unsigned slot)
{
    rule->slots[saved / SS_SLOTS_A_WORD] |= (uint64_t)slot
                                            << (SS_SLOT_BITS * (saved % SS_SLOTS_A_WORD));
}

/* [breg N, offset]: compilers write it for a slot in a realigned frame. */
static bool read_based(ss_cursor *c, int *base, int64_t *offset)
{
    uint8_t op = ss_cursor_byte(c);

    if (c->failed || op < OP_BREG0 || op > OP_BREG31)
        return false;
    *base = ss_saved_index((uint64_t)(op - OP_BREG0));
    *offset = ss_cursor_sleb(c);
    return !c->failed && *base >= 0;
}

static bool fit_cfa(ss_rule *rule, const ss_cfi_row *row)
{
    ss_cursor c = row->cfa_expression;
    int64_t offset;
    int base;

    if (c.at)
        return read_based(&c, &base, &offset) && ss_cursor_byte(&c) == OP_DEREF &&
               ss_cursor_left(&c) == 0 && !c.failed &&
               put_cfa(rule, SS_RULE_AT_SAVED, base, offset);
    if (row->cfa_register == SS_REGISTER_SP) {
        bool leaf = SS_RETURN_SAVED >= 0 && row->kind[SS_REGISTER_RA] == SS_CFI_UNCHANGED;

        return put_cfa(rule, leaf ? SS_RULE_LEAF : SS_RULE_SP, 0, row->cfa_offset);
    }
    base = ss_saved_index(row->cfa_register);
    return base >= 0 && put_cfa(rule, SS_RULE_SAVED, base, row->cfa_offset);
}

static bool fit_slot(ss_rule *rule, const ss_cfi_row *row, int saved)
{
    unsigned number = ss_saved_registers[saved];
    bool realigned = ss_rule_kind_of(rule->cfa) == SS_RULE_AT_SAVED;
    int64_t offset = row->value[number];
    ss_cursor c;
    int base;

    switch (row->kind[number]) {
    case SS_CFI_UNCHANGED:
        put_slot(rule, saved, SS_SLOT_UNCHANGED);
        return true;
    case SS_CFI_UNDEFINED:
        put_slot(rule, saved, SS_SLOT_LOST);
        return true;
    case SS_CFI_AT_CFA:
        if (realigned || offset >= 0)
            return false;
        break;
    case SS_CFI_AT_EXPRESSION:
        c = ss_cfi_expression(row, number);
        if (!realigned || !read_based(&c, &base, &offset) || ss_cursor_left(&c) ||
            base != ss_rule_base(rule->cfa) || offset > 0)
            return false;
        break;
    default:
        return false;
    }
    if (offset % WORD || offset < -SS_SLOT_MAX * WORD)
        return false;
    put_slot(rule, saved, (unsigned)(-offset / WORD));
    return true;
}

/* Whether the return address is where rules of RULE's kind look for it. */
static bool fit_return(const ss_rule *rule, const ss_cfi_row *row)
{
    unsigned slot;

    if (SS_RETURN_SAVED < 0)
        return row->kind[SS_REGISTER_RA] == SS_CFI_AT_CFA &&
               row->value[SS_REGISTER_RA] == -WORD * SS_RETURN_SLOT;
    slot = ss_rule_return_slot(rule->slots);
    switch (ss_rule_kind_of(rule->cfa)) {
    case SS_RULE_LEAF:
        return true;
    case SS_RULE_SP: /* within the frame, so one check of the CFA covers both */
        return slot <= SS_SLOT_MAX && slot > 0 && slot <= rule->cfa / WORD;
    default:
        return slot <= SS_SLOT_MAX;
    }
}

/* Whether ROW mentions a register that calls may change.  Rules have no slots for those. */
static bool mentions_changeable(const ss_cfi_row *row)
{
    for (unsigned i = 0; i < SS_REGISTER_COUNT; i++)
        if (row->kind[i] != SS_CFI_UNCHANGED && i != SS_REGISTER_SP && i != SS_REGISTER_RA &&
            ss_saved_index(i) < 0)
            return true;
    return false;
}

static bool fit(ss_rule *rule, const ss_fde *fde, const ss_cfi_row *row)
{
    if (fde->signal_frame || fde->return_register != SS_REGISTER_RA ||
        row->kind[SS_REGISTER_SP] != SS_CFI_UNCHANGED || mentions_changeable(row) ||
        !fit_cfa(rule, row))
        return false;
    for (int i = 0; i < SS_SAVED_COUNT; i++)
        if (!fit_slot(rule, row, i))
            return false;
    return fit_return(rule, row);
}

/* The rule that code with frame pointers has almost everywhere. */
static bool is_plain_frame(const ss_rule *rule)
{
    return SS_RETURN_SAVED < 0 && ss_rule_kind_of(rule->cfa) == SS_RULE_SAVED &&
           ss_rule_base(rule->cfa) == SS_SAVED_FP && ss_rule_offset(rule->cfa) == 2 * WORD &&
           ss_rule_slot(rule->slots, SS_SAVED_FP) == 2;
}

ss_rule ss_rule_from_row(const ss_fde *fde, uintptr_t pc, const ss_cfi_row *row)
{
    uintptr_t start = pc - fde->start;
    ss_rule rule = {start < UINT32_MAX ? (uint32_t)start : UINT32_MAX, 0, {0}};

    if (fde->return_register == SS_REGISTER_RA && row->kind[SS_REGISTER_RA] == SS_CFI_UNDEFINED) {
        rule.cfa = SS_RULE_END;
        return rule;
    }
    if (!fit(&rule, fde, row) || rule.start == UINT32_MAX)
        rule = (ss_rule){rule.start, SS_RULE_FULL, {0}};
    else if (is_plain_frame(&rule))
        (void)put_cfa(&rule, SS_RULE_FRAME, SS_SAVED_FP, 2 * WORD);
    return rule;
}

ss_rule ss_rule_frame_pointer(void)
{
    ss_rule rule = {UINT32_MAX, 0, {0}};
    int base = ss_saved_index(SS_REGISTER_FP);

    (void)put_cfa(&rule, SS_RULE_SAVED, base, 2 * WORD);
    for (int i = 0; i < SS_SAVED_COUNT; i++)
        put_slot(&rule, i, i == base ? 2 : i == SS_RETURN_SAVED ? 1 : SS_SLOT_LOST);
    return rule;
}

ss_rule ss_rule_forwarder(ss_forwarder kind)
{
    ss_rule rule = {UINT32_MAX, 0, {0}};
    int fp = ss_saved_index(SS_REGISTER_FP);
    bool record = kind == SS_FORWARDER_RECORD;

    (void)put_cfa(&rule, SS_RULE_SP, 0, 2 * WORD);
    for (int i = 0; i < SS_SAVED_COUNT; i++)
        put_slot(&rule, i, record && i == fp ? 2 : i == SS_RETURN_SAVED ? 1 : SS_SLOT_UNCHANGED);
    return rule;
}
