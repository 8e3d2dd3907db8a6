#include "unwind/cfi.h"

/* DW_CFA_... with the operand in the low six bits ... */
enum {
    OP_MASK = 0xc0,
    OP_OPERAND = 0x3f,
    OP_ADVANCE_LOC = 0x40,
    OP_OFFSET = 0x80,
    OP_RESTORE = 0xc0
};

/* ... and without. */
enum {
    OP_NOP = 0x00,
    OP_SET_LOC = 0x01,
    OP_ADVANCE_LOC1 = 0x02,
    OP_ADVANCE_LOC2 = 0x03,
    OP_ADVANCE_LOC4 = 0x04,
    OP_OFFSET_EXTENDED = 0x05,
    OP_RESTORE_EXTENDED = 0x06,
    OP_UNDEFINED = 0x07,
    OP_SAME_VALUE = 0x08,
    OP_REGISTER = 0x09,
    OP_REMEMBER_STATE = 0x0a,
    OP_RESTORE_STATE = 0x0b,
    OP_DEF_CFA = 0x0c,
    OP_DEF_CFA_REGISTER = 0x0d,
    OP_DEF_CFA_OFFSET = 0x0e,
    OP_DEF_CFA_EXPRESSION = 0x0f,
    OP_EXPRESSION = 0x10,
    OP_OFFSET_EXTENDED_SF = 0x11,
    OP_DEF_CFA_SF = 0x12,
    OP_DEF_CFA_OFFSET_SF = 0x13,
    OP_VAL_OFFSET = 0x14,
    OP_VAL_OFFSET_SF = 0x15,
    OP_VAL_EXPRESSION = 0x16,
    OP_GNU_ARGS_SIZE = 0x2e,
    OP_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f
};

/* Compilers nest "remember" at most twice. */
#define REMEMBERED 4

typedef struct machine {
    const ss_fde *fde;
    uintptr_t location;
    ss_cursor code;
    ss_cfi_row *row;
    const ss_cfi_row *initial; /* the row that "restore" returns to; NULL while it is built */
    ss_cfi_row remembered[REMEMBERED];
    unsigned depth;
} machine;

static ss_cursor read_block(ss_cursor *c)
{
    uint64_t size = ss_cursor_uleb(c);
    const uint8_t *at = ss_cursor_skip(c, size);

    return ss_cursor_over(at, at ? at + size : NULL);
}

static int64_t factored(const machine *m, uint64_t offset)
{
    return (int64_t)(offset * (uint64_t)m->fde->data_align);
}

/* Read and drop the rules of registers that we do not track (vector registers). */
static void set_rule(machine *m, uint64_t number, ss_cfi_kind kind, int64_t value)
{
    if (number >= SS_REGISTER_COUNT)
        return;
    m->row->kind[number] = (uint8_t)kind;
    m->row->value[number] = value;
}

static void set_expression(machine *m, uint64_t number, ss_cfi_kind kind)
{
    ss_cursor block = read_block(&m->code);
    size_t size = ss_cursor_left(&block);

    set_rule(m, number, kind, (intptr_t)block.at);
    if (size > UINT32_MAX)
        m->code.failed = true;
    else if (number < SS_REGISTER_COUNT)
        m->row->size[number] = (uint32_t)size;
}

static void restore(machine *m, uint64_t number)
{
    if (!m->initial) {
        m->code.failed = true; /* meaningless in the common entry */
        return;
    }
    if (number >= SS_REGISTER_COUNT)
        return;
    m->row->kind[number] = m->initial->kind[number];
    m->row->value[number] = m->initial->value[number];
    m->row->size[number] = m->initial->size[number];
}

static void set_cfa(machine *m, uint64_t number, int64_t offset)
{
    m->row->cfa_register = number;
    m->row->cfa_offset = offset;
    m->row->cfa_expression.at = NULL;
}

static void remember(machine *m)
{
    if (m->depth == REMEMBERED)
        m->code.failed = true;
    else
        m->remembered[m->depth++] = *m->row;
}

static void recall(machine *m)
{
    if (m->depth == 0)
        m->code.failed = true;
    else
        *m->row = m->remembered[--m->depth];
}

static void advance(machine *m, uint64_t by)
{
    m->location += (uintptr_t)(by * m->fde->code_align);
}

/* Run an instruction that sets the rule of one register. */
static void run_register_op(machine *m, uint8_t op)
{
    uint64_t number = ss_cursor_uleb(&m->code);

    switch (op) {
    case OP_OFFSET_EXTENDED:
        set_rule(m, number, SS_CFI_AT_CFA, factored(m, ss_cursor_uleb(&m->code)));
        break;
    case OP_OFFSET_EXTENDED_SF:
        set_rule(m, number, SS_CFI_AT_CFA, factored(m, (uint64_t)ss_cursor_sleb(&m->code)));
        break;
    case OP_GNU_NEGATIVE_OFFSET_EXTENDED:
        set_rule(m, number, SS_CFI_AT_CFA, factored(m, 0 - ss_cursor_uleb(&m->code)));
        break;
    case OP_VAL_OFFSET:
        set_rule(m, number, SS_CFI_IS_CFA, factored(m, ss_cursor_uleb(&m->code)));
        break;
    case OP_VAL_OFFSET_SF:
        set_rule(m, number, SS_CFI_IS_CFA, factored(m, (uint64_t)ss_cursor_sleb(&m->code)));
        break;
    case OP_REGISTER:
        set_rule(m, number, SS_CFI_IN_REGISTER, (int64_t)ss_cursor_uleb(&m->code));
        break;
    case OP_EXPRESSION:
        set_expression(m, number, SS_CFI_AT_EXPRESSION);
        break;
    case OP_VAL_EXPRESSION:
        set_expression(m, number, SS_CFI_IS_EXPRESSION);
        break;
    case OP_UNDEFINED:
        set_rule(m, number, SS_CFI_UNDEFINED, 0);
        break;
    case OP_SAME_VALUE:
        set_rule(m, number, SS_CFI_UNCHANGED, 0);
        break;
    default: /* OP_RESTORE_EXTENDED */
        restore(m, number);
        break;
    }
}

/* Run an instruction that defines the CFA; false when OP is none. */
static bool run_cfa_op(machine *m, uint8_t op)
{
    uint64_t number;

    switch (op) {
    case OP_DEF_CFA:
        number = ss_cursor_uleb(&m->code);
        set_cfa(m, number, (int64_t)ss_cursor_uleb(&m->code));
        return true;
    case OP_DEF_CFA_SF:
        number = ss_cursor_uleb(&m->code);
        set_cfa(m, number, factored(m, (uint64_t)ss_cursor_sleb(&m->code)));
        return true;
    case OP_DEF_CFA_REGISTER:
        set_cfa(m, ss_cursor_uleb(&m->code), m->row->cfa_offset);
        return true;
    case OP_DEF_CFA_OFFSET:
        m->row->cfa_offset = (int64_t)ss_cursor_uleb(&m->code);
        return true;
    case OP_DEF_CFA_OFFSET_SF:
        m->row->cfa_offset = factored(m, (uint64_t)ss_cursor_sleb(&m->code));
        return true;
    case OP_DEF_CFA_EXPRESSION:
        m->row->cfa_expression = read_block(&m->code);
        return true;
    default:
        return false;
    }
}

static void run_op(machine *m)
{
    uint8_t op = ss_cursor_byte(&m->code);

    switch (op & OP_MASK) {
    case OP_ADVANCE_LOC:
        advance(m, op & OP_OPERAND);
        return;
    case OP_OFFSET:
        set_rule(m, op & OP_OPERAND, SS_CFI_AT_CFA, factored(m, ss_cursor_uleb(&m->code)));
        return;
    case OP_RESTORE:
        restore(m, op & OP_OPERAND);
        return;
    }
    if ((op >= OP_OFFSET_EXTENDED && op <= OP_REGISTER) || op == OP_EXPRESSION ||
        op == OP_OFFSET_EXTENDED_SF || (op >= OP_VAL_OFFSET && op <= OP_VAL_EXPRESSION) ||
        op == OP_GNU_NEGATIVE_OFFSET_EXTENDED) {
        run_register_op(m, op);
        return;
    }
    if (run_cfa_op(m, op))
        return;
    switch (op) {
    case OP_NOP:
        break;
    case OP_ADVANCE_LOC1:
        advance(m, ss_cursor_unsigned(&m->code, 1));
        break;
    case OP_ADVANCE_LOC2:
        advance(m, ss_cursor_unsigned(&m->code, 2));
        break;
    case OP_ADVANCE_LOC4:
        advance(m, ss_cursor_unsigned(&m->code, 4));
        break;
    case OP_REMEMBER_STATE:
        remember(m);
        break;
    case OP_RESTORE_STATE:
        recall(m);
        break;
    case OP_GNU_ARGS_SIZE: /* size of outgoing arguments; no use to a walk */
        (void)ss_cursor_uleb(&m->code);
        break;
    default: /* also OP_SET_LOC: no compiler writes it */
        if (op != SS_CFA_MEANINGLESS)
            m->code.failed = true;
        break;
    }
}

/* Run CODE for as long as its rows apply to addresses up to PC. */
static bool run(machine *m, ss_cursor code, uintptr_t pc)
{
    m->code = code;
    while (ss_cursor_left(&m->code) && m->location <= pc)
        run_op(m);
    return !m->code.failed;
}

bool ss_cfi_row_at(const ss_fde *fde, uintptr_t pc, ss_cfi_row *row)
{
    machine m;
    ss_cfi_row initial;

    memset(row, 0, sizeof *row);
    row->cfa_register = UINT64_MAX; /* none yet */
    m.fde = fde;
    m.location = fde->start;
    m.row = row;
    m.initial = NULL;
    m.depth = 0;
    if (!run(&m, fde->initial, UINTPTR_MAX))
        return false;
    initial = *row;
    m.initial = &initial;
    m.location = fde->start;
    return run(&m, fde->program, pc) &&
           (row->cfa_expression.at || row->cfa_register < SS_REGISTER_COUNT);
}
