/* The stack machine for DWARF expressions, limited to what call frame information uses. */
#include "unwind/cfi.h"

enum {
    OP_ADDR = 0x03,
    OP_DEREF = 0x06,
    OP_CONST1U = 0x08,
    OP_CONST1S = 0x09,
    OP_CONST2U = 0x0a,
    OP_CONST2S = 0x0b,
    OP_CONST4U = 0x0c,
    OP_CONST4S = 0x0d,
    OP_CONST8U = 0x0e,
    OP_CONST8S = 0x0f,
    OP_CONSTU = 0x10,
    OP_CONSTS = 0x11,
    OP_DUP = 0x12,
    OP_DROP = 0x13,
    OP_OVER = 0x14,
    OP_PICK = 0x15,
    OP_SWAP = 0x16,
    OP_ROT = 0x17,
    OP_ABS = 0x19,
    OP_AND = 0x1a,
    OP_DIV = 0x1b,
    OP_MINUS = 0x1c,
    OP_MOD = 0x1d,
    OP_MUL = 0x1e,
    OP_NEG = 0x1f,
    OP_NOT = 0x20,
    OP_OR = 0x21,
    OP_PLUS = 0x22,
    OP_PLUS_UCONST = 0x23,
    OP_SHL = 0x24,
    OP_SHR = 0x25,
    OP_SHRA = 0x26,
    OP_XOR = 0x27,
    OP_BRA = 0x28,
    OP_EQ = 0x29,
    OP_GE = 0x2a,
    OP_GT = 0x2b,
    OP_LE = 0x2c,
    OP_LT = 0x2d,
    OP_NE = 0x2e,
    OP_SKIP = 0x2f,
    OP_LIT0 = 0x30,
    OP_REG0 = 0x50,
    OP_BREG0 = 0x70,
    OP_BREG31 = 0x8f,
    OP_REGX = 0x90,
    OP_BREGX = 0x92,
    OP_DEREF_SIZE = 0x94,
    OP_NOP = 0x96
};

#define STACK_DEPTH 32
#define MAX_STEPS 1000 /* an expression may branch backward */

typedef struct machine {
    ss_cursor code;
    const uint8_t *start;
    const ss_cfi_values *values;
    uintptr_t stack[STACK_DEPTH];
    unsigned depth;
    bool failed;
} machine;

static void push(machine *m, uintptr_t value)
{
    if (m->depth == STACK_DEPTH)
        m->failed = true;
    else
        m->stack[m->depth++] = value;
}

static uintptr_t pop(machine *m)
{
    if (m->depth == 0) {
        m->failed = true;
        return 0;
    }
    return m->stack[--m->depth];
}

/* Push a copy of the value BELOW positions under the top. */
static void pick(machine *m, unsigned below)
{
    if (below >= m->depth)
        m->failed = true;
    else
        push(m, m->stack[m->depth - 1 - below]);
}

static void push_register(machine *m, uint64_t number, int64_t offset)
{
    uintptr_t value = 0;

    if (!m->values->get_register(m->values->data, number, &value))
        m->failed = true;
    push(m, value + (uintptr_t)offset);
}

static void dereference(machine *m, unsigned size)
{
    uintptr_t value = 0;

    if ((size != 1 && size != 2 && size != 4 && size != 8) ||
        !m->values->get_memory(m->values->data, pop(m), size, &value))
        m->failed = true;
    push(m, value);
}

static void jump(machine *m, int64_t by)
{
    if (by < m->start - m->code.at || by > m->code.end - m->code.at)
        m->failed = true;
    else
        m->code.at += by;
}

static intptr_t divide(machine *m, intptr_t left, intptr_t right)
{
    if (right == 0 || (left == INTPTR_MIN && right == -1)) {
        m->failed = true;
        return 0;
    }
    return left / right;
}

/* Operations on the two topmost values, LEFT below RIGHT; comparisons and division are signed. */
static uintptr_t binary(machine *m, uint8_t op, uintptr_t left, uintptr_t right)
{
    intptr_t l = (intptr_t)left, r = (intptr_t)right;
    unsigned bits = 8 * sizeof left;

    switch (op) {
    case OP_AND:
        return left & right;
    case OP_DIV:
        return (uintptr_t)divide(m, l, r);
    case OP_MINUS:
        return left - right;
    case OP_MOD:
        if (right == 0)
            m->failed = true;
        return right ? left % right : 0;
    case OP_MUL:
        return left * right;
    case OP_OR:
        return left | right;
    case OP_PLUS:
        return left + right;
    case OP_SHL:
        return right < bits ? left << right : 0;
    case OP_SHR:
        return right < bits ? left >> right : 0;
    case OP_SHRA:
        return (uintptr_t)(l >> (right < bits ? right : bits - 1));
    case OP_XOR:
        return left ^ right;
    case OP_EQ:
        return l == r;
    case OP_GE:
        return l >= r;
    case OP_GT:
        return l > r;
    case OP_LE:
        return l <= r;
    case OP_LT:
        return l < r;
    case OP_NE:
        return l != r;
    default:
        m->failed = true;
        return 0;
    }
}

/* False when OP does not push a constant. */
static bool run_constant(machine *m, uint8_t op)
{
    if (op >= OP_LIT0 && op < OP_REG0) {
        push(m, op - OP_LIT0);
        return true;
    }
    if (op >= OP_CONST1U && op <= OP_CONST8S) {
        unsigned size = 1u << ((op - OP_CONST1U) / 2);

        push(m, (op - OP_CONST1U) % 2 ? (uintptr_t)ss_cursor_signed(&m->code, size)
                                      : (uintptr_t)ss_cursor_unsigned(&m->code, size));
        return true;
    }
    switch (op) {
    case OP_ADDR:
        push(m, (uintptr_t)ss_cursor_unsigned(&m->code, sizeof(uintptr_t)));
        return true;
    case OP_CONSTU:
        push(m, (uintptr_t)ss_cursor_uleb(&m->code));
        return true;
    case OP_CONSTS:
        push(m, (uintptr_t)ss_cursor_sleb(&m->code));
        return true;
    default:
        return false;
    }
}

/* False when OP does not move or change the topmost values. */
static bool run_stack(machine *m, uint8_t op)
{
    uintptr_t top, second, third;

    switch (op) {
    case OP_DUP:
        pick(m, 0);
        return true;
    case OP_DROP:
        (void)pop(m);
        return true;
    case OP_OVER:
        pick(m, 1);
        return true;
    case OP_PICK:
        pick(m, ss_cursor_byte(&m->code));
        return true;
    case OP_SWAP:
    case OP_ROT:
        top = pop(m);
        second = pop(m);
        third = op == OP_ROT ? pop(m) : 0;
        push(m, top);
        if (op == OP_ROT)
            push(m, third);
        push(m, second);
        return true;
    case OP_ABS:
        top = pop(m);
        push(m, (intptr_t)top < 0 ? 0 - top : top);
        return true;
    case OP_NEG:
        push(m, 0 - pop(m));
        return true;
    case OP_NOT:
        push(m, ~pop(m));
        return true;
    case OP_PLUS_UCONST:
        push(m, pop(m) + (uintptr_t)ss_cursor_uleb(&m->code));
        return true;
    case OP_NOP:
        return true;
    default:
        return false;
    }
}

static void run_op(machine *m)
{
    uint8_t op = ss_cursor_byte(&m->code);
    uintptr_t right;
    int64_t by;
    uint64_t number;

    if (run_constant(m, op) || run_stack(m, op))
        return;
    if (op >= OP_BREG0 && op <= OP_BREG31) {
        push_register(m, op - OP_BREG0, ss_cursor_sleb(&m->code));
        return;
    }
    if (op >= OP_REG0 && op < OP_BREG0) {
        push_register(m, op - OP_REG0, 0); /* as libgcc reads it: the register's value */
        return;
    }
    switch (op) {
    case OP_REGX:
        push_register(m, ss_cursor_uleb(&m->code), 0);
        break;
    case OP_BREGX:
        number = ss_cursor_uleb(&m->code);
        push_register(m, number, ss_cursor_sleb(&m->code));
        break;
    case OP_DEREF:
        dereference(m, sizeof(uintptr_t));
        break;
    case OP_DEREF_SIZE:
        dereference(m, ss_cursor_byte(&m->code));
        break;
    case OP_SKIP:
    case OP_BRA:
        by = ss_cursor_signed(&m->code, 2);
        if (op == OP_SKIP || pop(m))
            jump(m, by);
        break;
    default:
        right = pop(m);
        push(m, binary(m, op, pop(m), right));
        break;
    }
}

bool ss_cfi_evaluate(ss_cursor expression, const ss_cfi_values *values, const uintptr_t *initial,
                     uintptr_t *result)
{
    machine m;

    m.code = expression;
    m.start = expression.at;
    m.values = values;
    m.depth = 0;
    m.failed = false;
    if (initial)
        push(&m, *initial);
    for (unsigned steps = 0; ss_cursor_left(&m.code) && !m.failed; steps++) {
        if (steps == MAX_STEPS)
            return false;
        run_op(&m);
    }
    *result = pop(&m);
    return !m.failed && !m.code.failed;
}
