#include "lua/private.h"

#include "base/base.h"

#include <stdio.h>

/* How Lua's versions write their instructions, as far as these tell names. */

enum { NONE = 255 };

/* A row of instructions: from FIRST to LAST.  The first one's metamethod is EVENT, and the next
   ones' are the same, or follow. */
typedef struct range {
    uint8_t first, last;
} range;
typedef struct method_range {
    range of;
    uint8_t event;
    bool follow;
} method_range;

/* The instructions of a version, and where they have their parts. */
typedef struct instruction_set {
    uint8_t a, b, c, wide, jump; /* the first bit of each; A has 8 bits, WIDE all that follow */
    unsigned b_mask, c_mask;
    int32_t jump_zero;        /* what stands for no jump */
    unsigned key_constant;    /* 5.3: this bit of a key's C says that it is a constant */
    unsigned event_prefix;    /* characters of a metamethod's name that are not shown */
    range setters[8];         /* those that change the register A */
    method_range methods[14]; /* the rest is empty */
    uint8_t move, load_constant, load_constant_next, load_nil, get_upvalue, get_in_upvalue;
    uint8_t get, get_field, get_vararg, self, jmp, call, tail_call, iterate;
    range failed; /* the operation before it did not happen; C is the event */
} instruction_set;

/* The names of metamethods, in the order of their numbers in instructions. */
enum { EVENTS = 25 };

static unsigned operation_of(const instruction_set *set, uint32_t i)
{
    return i & ((1u << set->a) - 1);
}

static unsigned a_of(const instruction_set *set, uint32_t i)
{
    return i >> set->a & 255;
}

static unsigned b_of(const instruction_set *set, uint32_t i)
{
    return i >> set->b & set->b_mask;
}

static unsigned c_of(const instruction_set *set, uint32_t i)
{
    return i >> set->c & set->c_mask;
}

static bool is_in(unsigned operation, range r)
{
    return operation >= r.first && operation <= r.last;
}

static const instruction_set instructions_3 = {
    .a = 6,
    .b = 23,
    .c = 14,
    .wide = 14,
    .jump = 14,
    .b_mask = 511,
    .c_mask = 511,
    .jump_zero = (1 << 17) - 1,
    .key_constant = 256,
    .setters = {{0, 7}, {11, 29}, {35, 37}, {39, 40}, {42, 42}, {44, 45}, {NONE, 0}, {NONE, 0}},
    .methods = {{{6, 7}, 0, false},
                {{12, 12}, 0, false},
                {{8, 8}, 1, false},
                {{10, 10}, 1, false},
                {{13, 24}, 6, true},
                {{25, 26}, 18, true},
                {{28, 28}, 4, false},
                {{29, 29}, 22, false},
                {{31, 31}, 5, false},
                {{32, 33}, 20, true},
                {{NONE, 0}, 0, false}},
    .move = 0,
    .load_constant = 1,
    .load_constant_next = 2,
    .load_nil = 4,
    .get_upvalue = 5,
    .get_in_upvalue = 6,
    .get = 7,
    .get_field = NONE,
    .get_vararg = NONE,
    .self = 12,
    .jmp = 30,
    .call = 36,
    .tail_call = 37,
    .iterate = 41,
    .failed = {NONE, 0}};

/* 5.5 has another instruction 81, which 5.4 uses only where no function comes from. */
static const instruction_set instructions_4 = {
    .a = 7,
    .b = 16,
    .c = 24,
    .wide = 15,
    .jump = 7,
    .b_mask = 255,
    .c_mask = 255,
    .jump_zero = (1 << 24) - 1,
    .event_prefix = 2,
    .setters = {{0, 9}, {11, 14}, {19, 45}, {49, 53}, {67, 69}, {73, 74}, {77, 77}, {79, 81}},
    .methods = {{{11, 14}, 0, false},
                {{20, 20}, 0, false},
                {{15, 18}, 1, false},
                {{49, 50}, 18, true},
                {{52, 52}, 4, false},
                {{53, 53}, 22, false},
                {{54, 54}, 24, false},
                {{70, 70}, 24, false},
                {{57, 57}, 5, false},
                {{58, 59}, 20, true},
                {{62, 63}, 20, true},
                {{64, 65}, 20, true},
                {{NONE, 0}, 0, false}},
    .move = 0,
    .load_constant = 3,
    .load_constant_next = 4,
    .load_nil = 8,
    .get_upvalue = 9,
    .get_in_upvalue = 11,
    .get = 12,
    .get_field = 14,
    .get_vararg = 81,
    .self = 20,
    .jmp = 56,
    .call = 68,
    .tail_call = 69,
    .iterate = 76,
    .failed = {46, 48}};

static const char *const events[EVENTS] = {
    "__index", "__newindex", "__gc",  "__mode", "__len",    "__eq",   "__add",  "__sub", "__mul",
    "__mod",   "__pow",      "__div", "__idiv", "__band",   "__bor",  "__bxor", "__shl", "__shr",
    "__unm",   "__bnot",     "__lt",  "__le",   "__concat", "__call", "__close"};

static const instruction_set *instructions_of(const ssi_lua_layout *layout)
{
    return layout->minor == 3 ? &instructions_3 : &instructions_4;
}

/*
 * A call's instruction says in which register the function is.  The last instruction that set this
 * register says where it came from: a variable, an upvalue, a field.  An instruction that is no
 * call ran a metamethod.
 */

enum {
    MAX_CODE = 1 << 15, /* instructions that are searched */
    MAX_MOVES = 256,
    BLOCK = 64, /* instructions read at once */
    UPVALUE_SIZE = 16
};

typedef struct code {
    const ssi_lua_layout *layout;
    const instruction_set *set;
    uint64_t proto, first; /* FIRST: of the instructions */
    uint32_t block[BLOCK];
    int32_t block_at; /* -1: none */
} code;

/* The instruction at PC; one that does nothing if it cannot be read. */
static uint32_t at(code *c, int32_t pc)
{
    int32_t block = pc / BLOCK * BLOCK;
    uint32_t alone = UINT32_MAX;

    if (block != c->block_at &&
        ssi_read(c->first + (uint64_t)block * sizeof *c->block, c->block, sizeof c->block))
        c->block_at = block;
    if (block == c->block_at)
        return c->block[pc - block];
    /* The end of the code may be that of what is readable. */
    (void)ssi_read(c->first + (uint64_t)pc * sizeof alone, &alone, sizeof alone);
    return alone;
}

/* ---- Where a register's value came from -------------------------------------------------------*/

static bool sets(const code *c, uint32_t i, unsigned reg)
{
    unsigned a = a_of(c->set, i), is = operation_of(c->set, i);

    if (is == c->set->load_nil)
        return a <= reg && reg <= a + b_of(c->set, i);
    if (is == c->set->iterate)
        return reg >= a + 2;
    if (is == c->set->call || is == c->set->tail_call)
        return reg >= a;
    for (size_t n = 0; n < sizeof c->set->setters / sizeof *c->set->setters; n++)
        if (is_in(is, c->set->setters[n]))
            return a == reg;
    return false;
}

/* The instruction before PC that set REG; -1 if there may be several. */
static int32_t setter_of(code *c, int32_t pc, unsigned reg)
{
    int32_t found = -1, joined = 0; /* before JOINED, code may have been jumped over */

    if (is_in(operation_of(c->set, at(c, pc)), c->set->failed))
        pc--;
    for (int32_t n = 0; n < pc; n++) {
        uint32_t i = at(c, n);

        if (operation_of(c->set, i) == c->set->jmp) {
            int32_t target = n + 1 + (int32_t)(i >> c->set->jump) - c->set->jump_zero;

            if (target <= pc && target > joined)
                joined = target;
        } else if (sets(c, i, reg)) {
            found = n < joined ? -1 : n;
        }
    }
    return found;
}

/* ---- Names ------------------------------------------------------------------------------------*/

static const char *text(const code *c, uint64_t address)
{
    return ssi_lua_text(c->layout, address);
}

/* Constant NUMBER if it is a string, else NULL. */
static const char *constant(const code *c, unsigned number)
{
    uint64_t value =
        ssi_word(c->proto + c->layout->proto_constants) + (uint64_t)number * SSI_LUA_VALUE;
    uint8_t tag = 0;

    return ssi_read(value + SSI_LUA_VALUE_TAG, &tag, 1) &&
                   (tag & SSI_LUA_TYPE_BITS) == SSI_LUA_TAG_SHORT
               ? text(c, ssi_word(value))
               : NULL;
}

static const char *upvalue(const code *c, unsigned number)
{
    uint64_t rows = ssi_word(c->proto + c->layout->proto_upvalues);

    return text(c, ssi_word(rows + (uint64_t)number * UPVALUE_SIZE));
}

static const char *variable(const code *c, int32_t pc, unsigned reg)
{
    ssi_lua_variables all = ssi_lua_variables_at(c->layout, c->proto, pc);
    uint64_t name = ssi_lua_next_variable(&all);

    for (; name && reg; reg--)
        name = ssi_lua_next_variable(&all);
    return name ? text(c, name) : NULL;
}

/* The name of what is in REG at *PC, if it is a variable, an upvalue or a constant.  *PC is then
   the instruction that set the register, or -1. */
static const char *simple_name(code *c, int32_t *pc, unsigned reg, bool *is_constant)
{
    *is_constant = false;
    for (int moves = 0; moves < MAX_MOVES; moves++) {
        const char *name = variable(c, *pc, reg);
        unsigned is;
        uint32_t i;

        if (name)
            return name;
        *pc = setter_of(c, *pc, reg);
        if (*pc < 0)
            return NULL;
        i = at(c, *pc);
        is = operation_of(c->set, i);
        if (is == c->set->get_upvalue)
            return upvalue(c, b_of(c->set, i));
        *is_constant = is == c->set->load_constant || is == c->set->load_constant_next;
        if (*is_constant)
            return constant(c, is == c->set->load_constant ? i >> c->set->wide
                                                           : at(c, *pc + 1) >> c->set->a);
        if (is != c->set->move || b_of(c->set, i) >= a_of(c->set, i))
            return NULL;
        reg = b_of(c->set, i);
    }
    return NULL;
}

/* The name that the value of REG at PC is, if it is a constant. */
static const char *name_in_register(code *c, int32_t pc, unsigned reg)
{
    bool is_constant;
    const char *name = simple_name(c, &pc, reg, &is_constant);

    return is_constant ? name : NULL;
}

/* The key in C of the instruction I at PC, which is a constant if IS_CONSTANT. */
static const char *key_name(code *c, int32_t pc, uint32_t i, bool is_constant)
{
    unsigned key = c_of(c->set, i), bit = c->set->key_constant;

    if (bit)
        is_constant = key & bit;
    return is_constant ? constant(c, key & ~bit) : name_in_register(c, pc, key);
}

static const char *function_name(code *c, int32_t pc, unsigned reg)
{
    const instruction_set *set = c->set;
    bool is_constant;
    const char *name = simple_name(c, &pc, reg, &is_constant);
    unsigned is;
    uint32_t i;

    if (name || pc < 0)
        return name;
    i = at(c, pc);
    is = operation_of(c->set, i);
    if (is == set->get_in_upvalue || is == set->get_field)
        return key_name(c, pc, i, true);
    if (is == set->get)
        return key_name(c, pc, i, false);
    if (is == set->self)
        return key_name(c, pc, i, c->layout->minor >= 5 || i >> 15 & 1);
    if (is == set->get_vararg && c->layout->minor >= 5)
        return key_name(c, pc, i, false);
    return NULL;
}

static const char *metamethod(const char *event)
{
    char name[40];

    return ssi_text(name, (size_t)snprintf(name, sizeof name, "metamethod '%s'", event));
}

/* The metamethod that the operation IS calls. */
static const char *metamethod_of(const code *c, unsigned is)
{
    for (const method_range *m = c->set->methods; m->of.first != NONE; m++)
        if (is_in(is, m->of))
            return metamethod(events[m->event + (m->follow ? is - m->of.first : 0)] +
                              c->set->event_prefix);
    return NULL;
}

static const char *name_in_code(code *c, int32_t pc)
{
    uint32_t i = at(c, pc);
    unsigned is = operation_of(c->set, i);

    if (is == c->set->call || is == c->set->tail_call)
        return function_name(c, pc, a_of(c->set, i));
    if (is == c->set->iterate)
        return "for iterator";
    if (is_in(is, c->set->failed))
        return c_of(c->set, i) < EVENTS ? metamethod(events[c_of(c->set, i)] + c->set->event_prefix)
                                        : NULL;
    return metamethod_of(c, is);
}

/* The name in the code of CALLER, a Lua function. */
static const char *name_at(const ssi_lua_layout *layout, const ssi_lua_call *caller)
{
    code c = {.layout = layout, .block_at = -1};

    c.set = instructions_of(layout);
    c.proto = ssi_word(ssi_word(caller->function) + SSI_LUA_CLOSURE_PROTO);
    c.first = ssi_word(c.proto + layout->proto_code);
    if (!c.first || caller->pc <= c.first || caller->pc - c.first > MAX_CODE * sizeof *c.block)
        return NULL;
    return name_in_code(&c, (int32_t)((caller->pc - c.first) / sizeof *c.block) - 1);
}

const char *ssi_lua_call_name(const ssi_lua_layout *layout, ssi_lua_names *names,
                              const ssi_lua_call *call)
{
    ssi_lua_call caller;
    size_t slot;

    if (call->is_tail || !ssi_lua_read_call(layout, call->previous, &caller))
        return NULL;
    if (caller.runs_hook)
        return NULL;
    if (layout->finalizer_is_called ? call->runs_finalizer : caller.runs_finalizer)
        return metamethod("__gc");
    if (caller.is_c || caller.tag != SSI_LUA_TAG_LUA)
        return NULL;
    slot = caller.pc / sizeof(uint32_t) % SSI_LUA_NAMES;
    if (names->known[slot].pc != caller.pc) {
        names->known[slot].pc = caller.pc;
        names->known[slot].name = name_at(layout, &caller);
    }
    return names->known[slot].name;
}
