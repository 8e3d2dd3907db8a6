/*
 * A call's instruction says in which register the function is.  The last instruction that set this
 * register says where it came from: a variable, an upvalue, a field.  An instruction that is no
 * call ran a metamethod.
 */
#include "lua/name.h"

#include "base/texts.h"
#include "lua/instructions.h"
#include "lua/read.h"
#include "lua/variables.h"

#include <stdio.h>

enum {
    MAX_CODE = 1 << 15, /* instructions that are searched */
    MAX_MOVES = 256,
    BLOCK = 64, /* instructions read at once */
    UPVALUE_SIZE = 16
};

typedef struct code {
    const ssi_memory *memory;
    const ssi_lua_layout *layout;
    const ssi_lua_instructions *set;
    uint64_t proto, first; /* FIRST: of the instructions */
    uint32_t block[BLOCK];
    int32_t block_at; /* -1: none */
} code;

/* The instruction at PC; one that does nothing if it cannot be read. */
static uint32_t at(code *c, int32_t pc)
{
    int32_t block = pc / BLOCK * BLOCK;
    uint32_t alone = UINT32_MAX;

    if (block != c->block_at && ssi_read(c->memory, c->first + (uint64_t)block * sizeof *c->block,
                                         c->block, sizeof c->block))
        c->block_at = block;
    if (block == c->block_at)
        return c->block[pc - block];
    /* The end of the code may be that of what is readable. */
    (void)ssi_read(c->memory, c->first + (uint64_t)pc * sizeof alone, &alone, sizeof alone);
    return alone;
}

/* ---- Where a register's value came from -------------------------------------------------------*/

static bool sets(const code *c, uint32_t i, unsigned reg)
{
    unsigned a = ssi_lua_a_of(c->set, i), is = ssi_lua_operation(c->set, i);

    if (is == c->set->load_nil)
        return a <= reg && reg <= a + ssi_lua_b_of(c->set, i);
    if (is == c->set->iterate)
        return reg >= a + 2;
    if (is == c->set->call || is == c->set->tail_call)
        return reg >= a;
    for (size_t n = 0; n < sizeof c->set->setters / sizeof *c->set->setters; n++)
        if (ssi_lua_is_in(is, c->set->setters[n]))
            return a == reg;
    return false;
}

/* The instruction before PC that set REG; -1 if there may be several. */
static int32_t setter_of(code *c, int32_t pc, unsigned reg)
{
    int32_t found = -1, joined = 0; /* before JOINED, code may have been jumped over */

    if (ssi_lua_is_in(ssi_lua_operation(c->set, at(c, pc)), c->set->failed))
        pc--;
    for (int32_t n = 0; n < pc; n++) {
        uint32_t i = at(c, n);

        if (ssi_lua_operation(c->set, i) == c->set->jmp) {
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
    return ssi_lua_text(c->memory, c->layout, address);
}

/* Constant NUMBER if it is a string, else NULL. */
static const char *constant(const code *c, unsigned number)
{
    uint64_t value = ssi_lua_word(c->memory, c->proto + c->layout->proto_constants) +
                     (uint64_t)number * SSI_LUA_VALUE;
    uint8_t tag = 0;

    return ssi_read(c->memory, value + SSI_LUA_VALUE_TAG, &tag, 1) &&
                   (tag & SSI_LUA_TYPE_BITS) == SSI_LUA_TAG_SHORT
               ? text(c, ssi_lua_word(c->memory, value))
               : NULL;
}

static const char *upvalue(const code *c, unsigned number)
{
    uint64_t rows = ssi_lua_word(c->memory, c->proto + c->layout->proto_upvalues);

    return text(c, ssi_lua_word(c->memory, rows + (uint64_t)number * UPVALUE_SIZE));
}

static const char *variable(const code *c, int32_t pc, unsigned reg)
{
    ssi_lua_variables all = ssi_lua_variables_at(c->memory, c->layout, c->proto, pc);
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
        is = ssi_lua_operation(c->set, i);
        if (is == c->set->get_upvalue)
            return upvalue(c, ssi_lua_b_of(c->set, i));
        *is_constant = is == c->set->load_constant || is == c->set->load_constant_next;
        if (*is_constant)
            return constant(c, is == c->set->load_constant ? i >> c->set->wide
                                                           : at(c, *pc + 1) >> c->set->a);
        if (is != c->set->move || ssi_lua_b_of(c->set, i) >= ssi_lua_a_of(c->set, i))
            return NULL;
        reg = ssi_lua_b_of(c->set, i);
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
    unsigned key = ssi_lua_c_of(c->set, i), bit = c->set->key_constant;

    if (bit)
        is_constant = key & bit;
    return is_constant ? constant(c, key & ~bit) : name_in_register(c, pc, key);
}

static const char *function_name(code *c, int32_t pc, unsigned reg)
{
    const ssi_lua_instructions *set = c->set;
    bool is_constant;
    const char *name = simple_name(c, &pc, reg, &is_constant);
    unsigned is;
    uint32_t i;

    if (name || pc < 0)
        return name;
    i = at(c, pc);
    is = ssi_lua_operation(c->set, i);
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
    for (const ssi_lua_metamethod *m = c->set->methods; m->of.first != SSI_LUA_NONE; m++)
        if (ssi_lua_is_in(is, m->of))
            return metamethod(ssi_lua_events[m->event + (m->follow ? is - m->of.first : 0)] +
                              c->set->event_prefix);
    return NULL;
}

static const char *name_in_code(code *c, int32_t pc)
{
    uint32_t i = at(c, pc);
    unsigned is = ssi_lua_operation(c->set, i);

    if (is == c->set->call || is == c->set->tail_call)
        return function_name(c, pc, ssi_lua_a_of(c->set, i));
    if (is == c->set->iterate)
        return "for iterator";
    if (ssi_lua_is_in(is, c->set->failed))
        return ssi_lua_c_of(c->set, i) < SSI_LUA_EVENTS
                   ? metamethod(ssi_lua_events[ssi_lua_c_of(c->set, i)] + c->set->event_prefix)
                   : NULL;
    return metamethod_of(c, is);
}

/* The name in the code of CALLER, a Lua function. */
static const char *name_at(const ssi_memory *memory, const ssi_lua_layout *layout,
                           const ssi_lua_call *caller)
{
    code c = {.memory = memory, .layout = layout, .block_at = -1};

    c.set = ssi_lua_instructions_of(layout);
    c.proto = ssi_lua_word(memory, ssi_lua_word(memory, caller->function) + SSI_LUA_CLOSURE_PROTO);
    c.first = ssi_lua_word(memory, c.proto + layout->proto_code);
    if (!c.first || caller->pc <= c.first || caller->pc - c.first > MAX_CODE * sizeof *c.block)
        return NULL;
    return name_in_code(&c, (int32_t)((caller->pc - c.first) / sizeof *c.block) - 1);
}

const char *ssi_lua_call_name(const ssi_memory *memory, const ssi_lua_layout *layout,
                              ssi_lua_names *names, const ssi_lua_call *call)
{
    ssi_lua_call caller;
    size_t slot;

    if (call->is_tail || !ssi_lua_read_call(memory, layout, call->previous, &caller))
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
        names->known[slot].name = name_at(memory, layout, &caller);
    }
    return names->known[slot].name;
}
