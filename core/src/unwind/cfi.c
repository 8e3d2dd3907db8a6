#include "unwind/cfi.h"

/* DW_CFA_... with the operand in the low six bits ... */
enum {
    OP_MASK = 0xc0,
    OP_OPERAND = 0x3f,
    OP_ADVANCE_LOC = 0x40,
    OP_OFFSET = 0x80,
    OP_RESTORE = 0xc0
};

/* ... and without.  The others of the standard are in no library of 600 that we looked through. */
enum {
    OP_NOP = 0x00,
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
    OP_GNU_ARGS_SIZE = 0x2e
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

/* Where register NUMBER is; false when OP does not say that. */
static bool run_register_op(machine *m, uint8_t op, uint64_t number)
{
    ss_cursor block;

    switch (op) {
    case OP_OFFSET_EXTENDED:
        set_rule(m, number, SS_CFI_AT_CFA, factored(m, ss_cursor_uleb(&m->code)));
        return true;
    case OP_OFFSET_EXTENDED_SF:
        set_rule(m, number, SS_CFI_AT_CFA, factored(m, (uint64_t)ss_cursor_sleb(&m->code)));
        return true;
    case OP_REGISTER:
        set_rule(m, number, SS_CFI_IN_REGISTER, (int64_t)ss_cursor_uleb(&m->code));
        return true;
    case OP_EXPRESSION:
        block = read_block(&m->code);
        set_rule(m, number, SS_CFI_AT_EXPRESSION, (intptr_t)block.at);
        if (number < SS_REGISTER_COUNT)
            m->row->size[number] = (uint32_t)ss_cursor_left(&block);
        return true;
    case OP_UNDEFINED:
        set_rule(m, number, SS_CFI_UNDEFINED, 0);
        return true;
    case OP_SAME_VALUE:
        set_rule(m, number, SS_CFI_UNCHANGED, 0);
        return true;
    case OP_RESTORE_EXTENDED:
        restore(m, number);
        return true;
    case OP_DEF_CFA:
        set_cfa(m, number, (int64_t)ss_cursor_uleb(&m->code));
        return true;
    case OP_DEF_CFA_SF:
        set_cfa(m, number, factored(m, (uint64_t)ss_cursor_sleb(&m->code)));
        return true;
    case OP_DEF_CFA_REGISTER:
        set_cfa(m, number, m->row->cfa_offset);
        return true;
    default:
        return false;
    }
}

static void run_op(machine *m)
{
    uint8_t op = ss_cursor_byte(&m->code);
    ss_cursor before = m->code;

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
    switch (op) {
    case OP_NOP:
        return;
    case OP_ADVANCE_LOC1:
    case OP_ADVANCE_LOC2:
    case OP_ADVANCE_LOC4:
        advance(m, ss_cursor_unsigned(&m->code, 1u << (op - OP_ADVANCE_LOC1)));
        return;
    case OP_REMEMBER_STATE:
        remember(m);
        return;
    case OP_RESTORE_STATE:
        recall(m);
        return;
    case OP_DEF_CFA_OFFSET:
        m->row->cfa_offset = (int64_t)ss_cursor_uleb(&m->code);
        return;
    case OP_DEF_CFA_OFFSET_SF:
        m->row->cfa_offset = factored(m, (uint64_t)ss_cursor_sleb(&m->code));
        return;
    case OP_DEF_CFA_EXPRESSION:
        m->row->cfa_expression = read_block(&m->code);
        return;
    case OP_GNU_ARGS_SIZE: /* size of outgoing arguments; no use to a walk */
        (void)ss_cursor_uleb(&m->code);
        return;
    }
    if (run_register_op(m, op, ss_cursor_uleb(&m->code)))
        return;
    m->code = before;
    m->code.failed |= op != SS_CFA_MEANINGLESS;
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

/* ---- Expressions ------------------------------------------------------------------------------*/

/*
 * The operations that stand in unwind data: of realigned frames, PLT stubs, signal frames, and
 * assembly that keeps the caller's stack pointer in memory.  No other has been seen there.
 */
enum {
    EX_DEREF = 0x06,
    EX_CONST1U = 0x08, /* then 1s, 2u, 2s, 4u ... */
    EX_CONST8S = 0x0f,
    EX_AND = 0x1a,
    EX_MINUS = 0x1c,
    EX_MUL = 0x1e,
    EX_PLUS = 0x22,
    EX_PLUS_UCONST = 0x23,
    EX_SHL = 0x24,
    EX_GE = 0x2a,
    EX_LIT0 = 0x30,
    EX_LIT31 = 0x4f,
    EX_BREG0 = 0x70,
    EX_BREG31 = 0x8f
};

typedef struct expression {
    ss_cursor code;
    const ss_cfi_values *values;
    uintptr_t stack[16];
    unsigned depth;
} expression;

static void push(expression *e, uintptr_t value)
{
    if (e->depth == SS_COUNT_OF(e->stack))
        e->code.failed = true;
    else
        e->stack[e->depth++] = value;
}

static uintptr_t pop(expression *e)
{
    if (!e->depth)
        e->code.failed = true;
    return e->depth ? e->stack[--e->depth] : 0;
}

static uintptr_t register_at(expression *e, unsigned number)
{
    uintptr_t value = 0;

    if (!e->values->get_register(e->values->data, number, &value))
        e->code.failed = true;
    return value + (uintptr_t)ss_cursor_sleb(&e->code);
}

static uintptr_t word_at(expression *e, uintptr_t address)
{
    uintptr_t value = 0;

    if (e->code.failed || !e->values->get_memory(e->values->data, address, &value))
        e->code.failed = true;
    return value;
}

/* Of the two topmost values, LEFT below RIGHT. */
static uintptr_t combine(expression *e, uint8_t op, uintptr_t left, uintptr_t right)
{
    switch (op) {
    case EX_AND:
        return left & right;
    case EX_MINUS:
        return left - right;
    case EX_MUL:
        return left * right;
    case EX_PLUS:
        return left + right;
    case EX_SHL:
        return right < 8 * sizeof left ? left << right : 0;
    case EX_GE:
        return (intptr_t)left >= (intptr_t)right;
    default:
        e->code.failed = true;
        return 0;
    }
}

static void run_expression_op(expression *e)
{
    uint8_t op = ss_cursor_byte(&e->code);

    if (op >= EX_LIT0 && op <= EX_LIT31) {
        push(e, op - EX_LIT0);
    } else if (op >= EX_CONST1U && op <= EX_CONST8S) {
        unsigned size = 1u << (op - EX_CONST1U) / 2;

        push(e, op % 2 ? (uintptr_t)ss_cursor_signed(&e->code, size)
                       : (uintptr_t)ss_cursor_unsigned(&e->code, size));
    } else if (op >= EX_BREG0 && op <= EX_BREG31) {
        push(e, register_at(e, op - EX_BREG0));
    } else if (op == EX_DEREF) {
        push(e, word_at(e, pop(e)));
    } else if (op == EX_PLUS_UCONST) {
        push(e, pop(e) + (uintptr_t)ss_cursor_uleb(&e->code));
    } else {
        uintptr_t right = pop(e);

        push(e, combine(e, op, pop(e), right));
    }
}

bool ss_cfi_evaluate(ss_cursor code, const ss_cfi_values *values, const uintptr_t *initial,
                     uintptr_t *result)
{
    expression e = {.code = code, .values = values};

    if (initial)
        push(&e, *initial);
    while (ss_cursor_left(&e.code))
        run_expression_op(&e);
    *result = pop(&e);
    return !e.code.failed;
}
