#include "lua/lua.h"

#include "base/base.h"
#include "lua/jit.h"
#include "shared/value_text.h"
#include "target/binary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call in a Lua state. */
typedef struct lua_call {
    uint64_t address, function, previous; /* FUNCTION: its place on Lua's stack */
    uint64_t base, pc; /* of a Lua function: its variables, the next instruction */
    bool is_c;
    bool is_fresh; /* the interpreter's loop began with it */
    bool is_tail;  /* it replaced its caller */
    bool runs_hook, runs_finalizer;
    uint8_t tag;
} lua_call;

/* A value with the tag that later versions give it. */
typedef struct lua_value {
    uint8_t tag;
    uint64_t bits;
} lua_value;

/* ---- Words and strings ------------------------------------------------------------------------*/

enum { MAX_TEXT = 1024 };

/* 0 where nothing can be read. */
static int32_t lua_number(uint64_t address)
{
    int32_t value = 0;

    return ssi_read(address, &value, sizeof value) ? value : 0;
}

/* Copy the string at ADDRESS, cut to SIZE bytes.  Returns how many, or -1 if it cannot be read. */
static int64_t bytes_of(const ssi_lua_layout *layout, uint64_t address, char *out, size_t size)
{
    uint8_t type = 0, length = 0;
    uint64_t data = address + SSI_LUA_TEXT_DATA, whole;

    if (!address || !ssi_read(address + SSI_LUA_TYPE, &type, 1) ||
        !ssi_read(address + SSI_LUA_TEXT_SHORT_LENGTH, &length, 1))
        return -1;
    whole = length;
    if (layout->long_texts || type != SSI_LUA_TAG_SHORT) {
        whole = ssi_word(address + SSI_LUA_TEXT_LONG_LENGTH);
        data = layout->long_text_pointer ? ssi_word(data) : data;
    }
    if (whole < size)
        size = (size_t)whole;
    return data && ssi_read(data, out, size) ? (int64_t)size : -1;
}

/* The string at ADDRESS, cut to a thousand bytes; NULL if it cannot be read. */
static const char *lua_text(const ssi_lua_layout *layout, uint64_t address)
{
    char bytes[MAX_TEXT];
    int64_t length = bytes_of(layout, address, bytes, sizeof bytes);

    return length < 0 ? NULL : ssi_text(bytes, (size_t)length);
}

/* The value whose parts are at BITS and TAG. */
static bool lua_read_value(const ssi_lua_layout *layout, uint64_t bits, uint64_t tag,
                           lua_value *out)
{
    if (!ssi_read(bits, &out->bits, sizeof out->bits) || !ssi_read(tag, &out->tag, 1))
        return false;
    if (layout->old_tags && (out->tag == SSI_LUA_TAG_INTEGER || out->tag == SSI_LUA_TAG_FLOAT))
        out->tag ^= SSI_LUA_TAG_INTEGER ^ SSI_LUA_TAG_FLOAT;
    if (layout->old_tags && out->tag == SSI_LUA_TAG_FALSE && (int32_t)out->bits)
        out->tag = SSI_LUA_TAG_TRUE;
    return true;
}

/* In 5.1 the function says what it is, and has the tag that this had in later versions. */
static bool read_old_status(lua_call *c, uint32_t tail_calls)
{
    uint8_t is_c;

    c->is_c = true; /* the first call has no function */
    if (c->tag != SSI_LUA_OLD_FUNCTION)
        return true;
    if (!ssi_read(ssi_word(c->function) + SSI_LUA_CLOSURE_IS_C, &is_c, 1))
        return false;
    c->is_c = is_c;
    c->tag = is_c ? SSI_LUA_TAG_CLOSURE : SSI_LUA_TAG_LUA;
    c->is_tail = !is_c && tail_calls;
    return true;
}

static bool read_status(const ssi_lua_layout *layout, lua_call *c)
{
    uint32_t status = 0;

    if (!ssi_read(c->address + layout->call_status, &status, layout->status_size))
        return false;
    if (layout->status_is_tail)
        return read_old_status(c, status);
    c->is_c = (status >> layout->status_c & 1) != layout->status_c_is_lua;
    c->is_fresh = (status >> layout->status_fresh & 1) != layout->status_fresh_is_not;
    c->is_tail = status >> layout->status_tail & 1;
    c->runs_hook = status >> layout->status_hook & 1;
    c->runs_finalizer = status >> layout->status_finalizer & 1;
    return true;
}

static bool read_base(const ssi_lua_layout *layout, lua_call *c)
{
    c->base = c->function + SSI_LUA_VALUE;
    return layout->call_base == SSI_LUA_NOTHING ||
           ssi_read(c->address + layout->call_base, &c->base, sizeof c->base);
}

/* The first call of 5.1's array has no function. */
static bool read_previous(const ssi_lua_layout *layout, lua_call *c)
{
    if (!layout->call_size)
        return ssi_read(c->address + SSI_LUA_CALL_PREVIOUS, &c->previous, sizeof c->previous);
    c->previous = c->tag & SSI_LUA_TYPE_BITS ? c->address - layout->call_size : 0;
    return true;
}

/* ---- Calls ------------------------------------------------------------------------------------*/

/* False if it cannot be read. */
static bool lua_read_call(const ssi_lua_layout *layout, uint64_t address, lua_call *call)
{
    *call = (lua_call){.address = address};
    return ssi_read_word(address + layout->call_function, &call->function) &&
           ssi_read(address + layout->call_pc, &call->pc, sizeof call->pc) &&
           ssi_read(call->function + SSI_LUA_VALUE_TAG, &call->tag, 1) &&
           read_previous(layout, call) && read_base(layout, call) && read_status(layout, call);
}

/* Where the Lua function of a call is. */
typedef struct lua_place {
    uint64_t proto, code;
    int32_t pc; /* the number of an instruction; -1: not known */
} lua_place;

enum { INSTRUCTION = 4 /* bytes */, MAX_INSTRUCTIONS = 1 << 22 };

static lua_place place_of(const ssi_lua_layout *layout, const lua_call *call)
{
    uint64_t proto = ssi_word(ssi_word(call->function) + layout->closure_proto);
    uint64_t code = ssi_word(proto + layout->proto_code), behind = call->pc - code;
    bool is_known = code && behind && behind <= (uint64_t)MAX_INSTRUCTIONS * INSTRUCTION;

    return (lua_place){proto, code, is_known ? (int32_t)(behind / INSTRUCTION) - 1 : -1};
}

/* ---- Tables -----------------------------------------------------------------------------------*/

enum {
    MAX_PLACES = 1 << 16, /* that are searched for pairs */
    FLAGS = 10,
    NODE_BITS = 11,
    SIZE_IS_HINT = 0x80, /* 5.4: the array has room up to the next power of two */
    TAGS = 4             /* 5.5: behind the values, which grow downward */
};

/* Whose values are read: a Lua's, or LuaJIT's. */
typedef struct value_reader {
    const ssi_lua_layout *layout; /* of LuaJIT: JIT_LAYOUT */
    const ssi_jit *jit;           /* or NULL */
    ss_value_text *to;
} value_reader;

static const ssi_lua_layout jit_layout = {.node = 24, .node_key = 8, .only_floats = true};

/* The pairs of a Lua table of a target, in the order of `next`. */
typedef struct lua_table {
    const value_reader *reader;
    ssi_jit_table is;
    uint64_t at, end; /* AT the place END no more is read */
    bool is_damaged;
} lua_table;

static bool read_value(const value_reader *r, uint64_t address, lua_value *out)
{
    return r->jit ? ssi_jit_value(r->jit, address, &out->tag, &out->bits)
                  : lua_read_value(r->layout, address, address + SSI_LUA_VALUE_TAG, out);
}

static int64_t string_of(const value_reader *r, uint64_t address, char *out, size_t size)
{
    return r->jit ? ssi_jit_bytes(r->jit, address, out, size)
                  : bytes_of(r->layout, address, out, size);
}

static uint64_t next_power(uint64_t size)
{
    uint64_t power = 1;

    while (power < size)
        power *= 2;
    return power;
}

/* False if the table at ADDRESS cannot be read. */
static bool table_begin(lua_table *table, const value_reader *r, uint64_t address)
{
    const ssi_lua_layout *layout = r->layout;
    uint8_t flags, bits;
    uint32_t size;

    *table = (lua_table){.reader = r, .end = MAX_PLACES};
    if (r->jit)
        return ssi_jit_read_table(r->jit, address, &table->is);
    if (!ssi_read(address + FLAGS, &flags, 1) || !ssi_read(address + NODE_BITS, &bits, 1) ||
        bits > 31 || !ssi_read(address + layout->array_size, &size, sizeof size) ||
        !ssi_read(address + layout->array, &table->is.array, sizeof table->is.array) ||
        !ssi_read_word(address + layout->nodes, &table->is.nodes))
        return false;
    table->is.array_size = flags & SIZE_IS_HINT && layout->minor == 4 ? next_power(size) : size;
    table->is.node_count = (uint64_t)1 << bits;
    return true;
}

static bool read_element(const lua_table *t, uint64_t at, lua_value *value)
{
    const value_reader *r = t->reader;

    if (r->layout->array_of_tags)
        return lua_read_value(r->layout, t->is.array - (at + 1) * sizeof value->bits,
                              t->is.array + TAGS + at, value);
    return read_value(r, t->is.array + at * (r->jit ? SSI_JIT_VALUE : SSI_LUA_VALUE), value);
}

static bool read_node(const lua_table *t, uint64_t at, lua_value *key, lua_value *value)
{
    const value_reader *r = t->reader;
    uint64_t node = t->is.nodes + at * r->layout->node, place = node + r->layout->node_key;

    return read_value(r, node, value) &&
           (r->jit ? read_value(r, place, key)
                   : lua_read_value(r->layout, place, node + r->layout->node_key_tag, key));
}

/* False after the last pair, and where no more can be read: then IS_DAMAGED. */
static bool table_next(lua_table *table, lua_value *key, lua_value *value)
{
    while (table->at < table->is.array_size + table->is.node_count) {
        uint64_t at = table->at++;
        bool is_read;

        if (at < table->is.array_size) { /* LuaJIT's has a place for 0, too */
            *key = (lua_value){SSI_LUA_TAG_INTEGER, at + !table->reader->jit};
            is_read = read_element(table, at, value);
        } else {
            is_read = read_node(table, at - table->is.array_size, key, value);
        }
        if (!is_read || at >= table->end) {
            table->is_damaged = true;
            return false;
        }
        if (value->tag & SSI_LUA_TYPE_BITS)
            return true;
    }
    return false;
}

/* ---- Values -----------------------------------------------------------------------------------*/

static void put_value(const value_reader *r, lua_value value);

static bool is_string(lua_value value)
{
    int tag = value.tag & ~SSI_LUA_COLLECTED;

    return tag == SSI_LUA_TAG_SHORT || tag == SSI_LUA_TAG_LONG;
}

static bool put_string(const value_reader *r, uint64_t address)
{
    static char bytes[SSI_SHOWN_CHARACTERS];
    int64_t length = string_of(r, address, bytes, sizeof bytes);

    if (length >= 0)
        ss_value_quoted(r->to, &ss_value_of_lua, bytes, (size_t)length, (uint64_t)length);
    return length >= 0;
}

/* Write what is in front of the value of KEY; returns it if it is a string that can be read. */
static const char *put_key(const value_reader *r, lua_value key)
{
    static char bytes[SSI_SHOWN_CHARACTERS + 1];
    int64_t length = is_string(key) ? string_of(r, key.bits, bytes, sizeof bytes - 1) : -1;

    bytes[length < 0 ? 0 : length] = '\0';
    if (length >= 0 && ss_value_is_lua_name(bytes, (size_t)length)) {
        ss_value_put(r->to, bytes);
    } else {
        ss_value_put(r->to, "[");
        put_value(r, key);
        ss_value_put(r->to, "]");
    }
    ss_value_put(r->to, " = ");
    return length < 0 ? NULL : bytes;
}

static void put_pairs(const value_reader *r, lua_table *table)
{
    lua_value key, value;
    uint64_t in_sequence = 0;

    while (table_next(table, &key, &value)) {
        const char *name = NULL;

        if (!ss_value_item(r->to))
            return;
        if (key.tag == SSI_LUA_TAG_INTEGER && key.bits == in_sequence + 1)
            in_sequence++;
        else
            name = put_key(r, key);
        if (!name || !ss_value_secret(r->to, name, "\""))
            put_value(r, value);
        if (!ss_value_fits(r->to))
            return;
    }
    if (table->is_damaged)
        ss_value_leave_out(r->to);
}

static bool put_table(const value_reader *r, uint64_t address)
{
    lua_table table;

    if (!table_begin(&table, r, address))
        return false;
    ss_value_begin(r->to, "{");
    put_pairs(r, &table);
    ss_value_end(r->to, "}");
    return true;
}

/* False if nothing was written. */
static bool put_plain(const value_reader *r, lua_value value)
{
    char number[32];
    double real;

    switch (value.tag & ~SSI_LUA_COLLECTED) {
    case SSI_LUA_TAG_INTEGER:
        snprintf(number, sizeof number, "%" PRId64, (int64_t)value.bits);
        ss_value_put(r->to, number);
        return true;
    case SSI_LUA_TAG_FLOAT:
        memcpy(&real, &value.bits, sizeof real);
        if (r->layout->only_floats) {
            snprintf(number, sizeof number, "%.14g", real);
            ss_value_put(r->to, number);
        } else {
            ss_value_lua_float(r->to, real);
        }
        return true;
    case SSI_LUA_TAG_FALSE:
    case SSI_LUA_TAG_TRUE:
        ss_value_put(r->to, value.tag == SSI_LUA_TAG_TRUE ? "true" : "false");
        return true;
    case SSI_LUA_TAG_SHORT:
    case SSI_LUA_TAG_LONG:
        return put_string(r, value.bits);
    case SSI_LUA_TAG_TABLE:
        return put_table(r, value.bits);
    default:
        if (value.tag & SSI_LUA_TYPE_BITS)
            return false;
        ss_value_put(r->to, "nil");
        return true;
    }
}

static void put_value(const value_reader *r, lua_value value)
{
    /* By the number of the type. */
    static const char *const names[] = {"nil",    "boolean",    "userdata", "number",
                                        "string", "table",      "function", "userdata",
                                        "thread", "unreadable", "cdata"};
    size_t type = value.tag & SSI_LUA_TYPE_BITS;
    char object[64];

    if (put_plain(r, value))
        return;
    snprintf(object, sizeof object, "<%s: %#" PRIx64 ">",
             type < sizeof names / sizeof *names ? names[type] : "unreadable", value.bits);
    ss_value_put(r->to, object);
}

/* ---- Which variables are in scope -------------------------------------------------------------*/

enum { MAX_VARIABLES = 1 << 16 };

/* The name of variable NUMBER, from 0, of those that are in scope at instruction PC of PROTO; NULL after the
   last. */
static const char *variable_at(const ssi_lua_layout *layout, uint64_t proto, int32_t pc,
                               unsigned number)
{
    struct {
        uint64_t name;
        int32_t begin, end; /* instructions */
    } row;
    uint64_t rows = ssi_word(proto + layout->proto_variables);
    int32_t count = lua_number(proto + layout->proto_variable_count);

    for (int32_t i = 0; i < count && i < MAX_VARIABLES; i++) {
        if (!ssi_read(rows + (uint64_t)i * sizeof row, &row, sizeof row) || row.begin > pc)
            return NULL;
        if (pc < row.end && number-- == 0)
            return lua_text(layout, row.name);
    }
    return NULL;
}

/* ---- Their values -----------------------------------------------------------------------------*/

enum { MAX_REGISTERS = 255 };

/* A variable in scope: a later one of the same name hides it. */
typedef struct variable {
    const char *name;
    int place;
} variable;

/* Those that are shown, and whether there are more. */
typedef struct variables {
    variable all[SSI_SHOWN_VARIABLES];
    int count;
    bool more;
} variables;

static void remember_variable(variables *found, const char *name, int place)
{
    int i = 0;

    if (!ss_value_is_lua_name(name, strlen(name)))
        return; /* Lua's own are in parentheses */
    while (i < found->count && strcmp(found->all[i].name, name) != 0)
        i++;
    if (i == SSI_SHOWN_VARIABLES) {
        found->more = true;
        return;
    }
    found->all[i] = (variable){name, place};
    found->count += i == found->count;
}

/* Those in scope in a function, C or of LuaJIT JIT_CALL. */
static variables find_variables(const value_reader *r, const lua_call *c,
                                const ssi_jit_call *jit_call)
{
    const lua_place at = r->jit ? (lua_place){.pc = 0} : place_of(r->layout, c);
    variables found = {.count = 0};

    for (unsigned place = 0; at.pc >= 0 && place < MAX_REGISTERS; place++) {
        const char *name = r->jit ? ssi_jit_variable(r->jit, jit_call, place)
                                  : variable_at(r->layout, at.proto, at.pc, place);

        if (!name)
            break;
        remember_variable(&found, name, (int)place);
    }
    return found;
}

/* Write COUNT variables, whose places are from BASE on, as one JSON object, by the texts of reports. */
static void write_variables(value_reader r, const variables *found, uint64_t base, ssi_written *to)
{
    const uint64_t size = r.jit ? SSI_JIT_VALUE : SSI_LUA_VALUE;
    int shown = 0;

    ssi_write(to, "{");
    for (int i = 0; i < found->count; i++) {
        ss_value_text text;
        lua_value value;

        if (!read_value(&r, base + (uint64_t)found->all[i].place * size, &value))
            continue;
        ss_value_text_init(&text, to->shows_secrets);
        r.to = &text;
        put_value(&r, value);
        ssi_write(to, shown++ ? ",\"" : "\"");
        ssi_write(to, found->all[i].name);
        ssi_write(to, "\":");
        ssi_write_text(to, text.bytes, text.length);
    }
    if (found->more) {
        ssi_write(to, shown ? "," : "");
        ssi_write_remark(to, SS_VALUE_MORE);
    }
    ssi_write(to, "}");
}

/* How Lua's versions write their instructions, as far as these tell names. */

enum { NONE = 255 };

/* A row of instructions.  The first one's metamethod is EVENT, and the next ones' are the same, or FOLLOW. */
typedef struct range {
    uint8_t first, last;
} range;
typedef struct method_range {
    uint8_t first, last, event;
    bool follow;
} method_range;

/* The instructions of a version, and where they have their parts. */
typedef struct instruction_set {
    uint8_t a, b, c, wide, jump; /* the first bit of each; A has 8 bits, WIDE all that follow */
    unsigned b_mask, c_mask;
    int32_t jump_zero;        /* what stands for no jump */
    unsigned key_constant;    /* 5.3: this bit of a key's C says that it is a constant */
    unsigned event_prefix;    /* characters of a metamethod's name that are not shown */
    range setters[8];         /* those that change the register A: one includes 0 */
    method_range methods[13]; /* the rest is empty */
    uint8_t move, load_constant, load_constant_next, load_nil, get_upvalue, get_in_upvalue;
    uint8_t get, get_field, get_vararg, get_global, self, jmp, call, tail_call, iterate;
    bool nil_to;  /* 5.1: B is the last register that becomes nil, not how many follow */
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

/* What 5.1 to 5.3 have in common, and 5.2 and 5.3. */
#define OLD_PARTS                                                                           \
    .a = 6, .b = 23, .c = 14, .wide = 14, .jump = 14, .b_mask = 511, .c_mask = 511,         \
    .jump_zero = (1 << 17) - 1, .key_constant = 256, .get_field = NONE, .get_vararg = NONE, \
    .failed = {NONE, 0}
#define OLD_LOADS                                                                            \
    .move = 0, .load_constant = 1, .load_constant_next = 2, .load_nil = 4, .get_upvalue = 5, \
    .get_in_upvalue = 6, .get = 7, .get_global = NONE, .self = 12

/* Of later ones. */
#define NEW_PARTS                                                                              \
    .a = 7, .b = 16, .c = 24, .wide = 15, .jump = 7, .b_mask = 255, .c_mask = 255,             \
    .jump_zero = (1 << 24) - 1, .event_prefix = 2, .move = 0, .load_constant = 3,              \
    .load_constant_next = 4, .load_nil = 8, .get_upvalue = 9, .get_in_upvalue = 11, .get = 12, \
    .get_field = 14, .get_vararg = 81, .get_global = NONE, .self = 20
/* The metamethods of a row of instructions: one, or one each. */
#define SAME(first, last, event)  \
    {                             \
        first, last, event, false \
    }
#define EACH(first, last, event) \
    {                            \
        first, last, event, true \
    }

/* By the minor version, from 5.1 on.  5.1 knows no metamethods' names, and of an iterator that of the
   variable that holds it.  5.5 has another instruction 81, which 5.4 uses only where no function comes
   from. */
static const instruction_set instruction_sets[] = {
    {OLD_PARTS, .setters = {{0, 6}, {10, 21}, {27, 27}, {31, 32}, {36, 37}}, .load_constant = NONE,
     .load_constant_next = NONE, .load_nil = 3, .nil_to = true, .get_upvalue = 4,
     .get_in_upvalue = NONE, .get_global = 5, .get = 6, .self = 11, .jmp = 22, .call = 28,
     .tail_call = 29, .iterate = 33},
    {OLD_PARTS, OLD_LOADS, .setters = {{0, 7}, {11, 22}, {28, 28}, {32, 33}, {35, 35}, {37, 38}},
     .methods = {SAME(6, 7, 0), SAME(12, 12, 0), SAME(8, 8, 1), SAME(10, 10, 1), EACH(13, 15, 6),
                 SAME(16, 16, 11), EACH(17, 18, 9), SAME(19, 19, 18), SAME(21, 21, 4),
                 SAME(22, 22, 22), SAME(24, 24, 5), EACH(25, 26, 20)},
     .jmp = 23, .call = 29, .tail_call = 30, .iterate = 34},
    {OLD_PARTS, OLD_LOADS, .setters = {{0, 7}, {11, 29}, {35, 37}, {39, 40}, {42, 42}, {44, 45}},
     .methods = {SAME(6, 7, 0), SAME(12, 12, 0), SAME(8, 8, 1), SAME(10, 10, 1), EACH(13, 24, 6),
                 EACH(25, 26, 18), SAME(28, 28, 4), SAME(29, 29, 22), SAME(31, 31, 5),
                 EACH(32, 33, 20)},
     .jmp = 30, .call = 36, .tail_call = 37, .iterate = 41},
    {NEW_PARTS,
     .setters = {{0, 9}, {11, 14}, {19, 45}, {49, 53}, {67, 69}, {73, 74}, {77, 77}, {79, 81}},
     .methods = {SAME(11, 14, 0), SAME(20, 20, 0), SAME(15, 18, 1), EACH(49, 50, 18),
                 SAME(52, 52, 4), SAME(53, 53, 22), SAME(54, 54, 24), SAME(70, 70, 24),
                 SAME(57, 57, 5), EACH(58, 59, 20), EACH(62, 63, 20), EACH(64, 65, 20)},
     .jmp = 56, .call = 68, .tail_call = 69, .iterate = 76, .failed = {46, 48}}};

static const instruction_set *instructions_of(const ssi_lua_layout *layout)
{
    return &instruction_sets[layout->minor < 4 ? layout->minor - 1 : 3];
}

static const char *const events[EVENTS] = {
    "__index", "__newindex", "__gc",  "__mode", "__len",    "__eq",   "__add",  "__sub", "__mul",
    "__mod",   "__pow",      "__div", "__idiv", "__band",   "__bor",  "__bxor", "__shl", "__shr",
    "__unm",   "__bnot",     "__lt",  "__le",   "__concat", "__call", "__close"};

/*
 * A call's instruction says in which register the function is.  The last instruction that set this
 * register says where it came from: a variable, an upvalue, a field.  An instruction that is no
 * call ran a metamethod.
 */

enum {
    MAX_CODE = 1 << 15, /* instructions that are searched */
    MAX_MOVES = 256,
    CODE_BLOCK = 64 /* instructions read at once */
};

typedef struct lua_code {
    const ssi_lua_layout *layout;
    const instruction_set *set;
    uint64_t proto, first; /* FIRST: of the instructions */
    uint32_t block[CODE_BLOCK];
    int32_t block_at; /* -1: none */
} lua_code;

/* The instruction at PC; one that does nothing if it cannot be read. */
static uint32_t instruction_at(lua_code *c, int32_t pc)
{
    int32_t block = pc / CODE_BLOCK * CODE_BLOCK;
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

static bool sets(const lua_code *c, uint32_t i, unsigned reg)
{
    unsigned a = a_of(c->set, i), is = operation_of(c->set, i);

    if (is == c->set->load_nil)
        return a <= reg && reg <= b_of(c->set, i) + (c->set->nil_to ? 0 : a);
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
static int32_t setter_of(lua_code *c, int32_t pc, unsigned reg)
{
    int32_t found = -1, joined = 0; /* before JOINED, code may have been jumped over */

    if (is_in(operation_of(c->set, instruction_at(c, pc)), c->set->failed))
        pc--;
    for (int32_t n = 0; n < pc; n++) {
        uint32_t i = instruction_at(c, n);

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

/* Constant NUMBER if it is a string, else NULL. */
static const char *constant(const lua_code *c, unsigned number)
{
    uint64_t value =
        ssi_word(c->proto + c->layout->proto_constants) + (uint64_t)number * SSI_LUA_VALUE;
    uint8_t tag = 0;

    return ssi_read(value + SSI_LUA_VALUE_TAG, &tag, 1) &&
                   (tag & SSI_LUA_TYPE_BITS) == SSI_LUA_TAG_SHORT
               ? lua_text(c->layout, ssi_word(value))
               : NULL;
}

static const char *upvalue(const lua_code *c, unsigned number)
{
    uint64_t rows = ssi_word(c->proto + c->layout->proto_upvalues);

    return lua_text(c->layout, ssi_word(rows + (uint64_t)number * c->layout->upvalue_size));
}

/* The name of what is in REG at *PC, if it is a variable, an upvalue or a constant.  *PC is then
   the instruction that set the register, or -1. */
static const char *simple_name(lua_code *c, int32_t *pc, unsigned reg, bool *is_constant)
{
    *is_constant = false;
    for (int moves = 0; moves < MAX_MOVES; moves++) {
        const char *name = variable_at(c->layout, c->proto, *pc, reg);
        unsigned is;
        uint32_t i;

        if (name)
            return name;
        *pc = setter_of(c, *pc, reg);
        if (*pc < 0)
            return NULL;
        i = instruction_at(c, *pc);
        is = operation_of(c->set, i);
        if (is == c->set->get_upvalue)
            return upvalue(c, b_of(c->set, i));
        *is_constant = is == c->set->load_constant || is == c->set->load_constant_next;
        if (*is_constant)
            return constant(c, is == c->set->load_constant
                                   ? i >> c->set->wide
                                   : instruction_at(c, *pc + 1) >> c->set->a);
        if (is != c->set->move || b_of(c->set, i) >= a_of(c->set, i))
            return NULL;
        reg = b_of(c->set, i);
    }
    return NULL;
}

/* The name that the value of REG at PC is, if it is a constant. */
static const char *name_in_register(lua_code *c, int32_t pc, unsigned reg)
{
    bool is_constant;
    const char *name = simple_name(c, &pc, reg, &is_constant);

    return is_constant ? name : NULL;
}

/* The key in C of the instruction I at PC, which is a constant if IS_CONSTANT. */
static const char *key_name(lua_code *c, int32_t pc, uint32_t i, bool is_constant)
{
    unsigned key = c_of(c->set, i), bit = c->set->key_constant;

    if (bit)
        is_constant = key & bit;
    return is_constant ? constant(c, key & ~bit) : name_in_register(c, pc, key);
}

static const char *function_name(lua_code *c, int32_t pc, unsigned reg)
{
    const instruction_set *set = c->set;
    bool is_constant;
    const char *name = simple_name(c, &pc, reg, &is_constant);
    unsigned is;
    uint32_t i;

    if (name || pc < 0)
        return name;
    i = instruction_at(c, pc);
    is = operation_of(c->set, i);
    if (is == set->get_global)
        return constant(c, i >> set->wide);
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
static const char *metamethod_of(const lua_code *c, unsigned is)
{
    for (const method_range *m = c->set->methods; m->last; m++)
        if (is >= m->first && is <= m->last)
            return metamethod(events[m->event + (m->follow ? is - m->first : 0)] +
                              c->set->event_prefix);
    return NULL;
}

static const char *name_in_code(lua_code *c, int32_t pc)
{
    uint32_t i = instruction_at(c, pc);
    unsigned is = operation_of(c->set, i);

    if (is == c->set->call || is == c->set->tail_call)
        return function_name(c, pc, a_of(c->set, i));
    if (is == c->set->iterate)
        return c->layout->minor == 1 ? function_name(c, pc, a_of(c->set, i)) : "for iterator";
    if (is_in(is, c->set->failed))
        return c_of(c->set, i) < EVENTS ? metamethod(events[c_of(c->set, i)] + c->set->event_prefix)
                                        : NULL;
    return metamethod_of(c, is);
}

/* The name in the code of CALLER, a Lua function. */
static const char *name_at(const ssi_lua_layout *layout, const lua_call *caller)
{
    const lua_place at = place_of(layout, caller);
    lua_code c = {layout, instructions_of(layout), at.proto, at.code, {0}, -1};

    return at.pc >= 0 && at.pc < MAX_CODE ? name_in_code(&c, at.pc) : NULL;
}

enum { NAMES = 256 };

/* Recursion calls from one place again and again. */
typedef struct lua_names {
    struct {
        uint64_t pc; /* of the caller */
        const char *name;
    } known[NAMES];
} lua_names;

/* The name that CALL's caller has for its function, as lua_getinfo tells it; NULL: it has none. */
static const char *lua_call_name(const ssi_lua_layout *layout, lua_names *names,
                                 const lua_call *call)
{
    lua_call caller;
    size_t slot;

    if (call->is_tail || !lua_read_call(layout, call->previous, &caller))
        return NULL;
    if (caller.runs_hook)
        return NULL;
    if (layout->finalizer_is_called ? call->runs_finalizer : caller.runs_finalizer)
        return metamethod("__gc");
    if (caller.is_c || caller.tag != SSI_LUA_TAG_LUA)
        return NULL;
    slot = caller.pc / sizeof(uint32_t) % NAMES;
    if (names->known[slot].pc != caller.pc) {
        names->known[slot].pc = caller.pc;
        names->known[slot].name = name_at(layout, &caller);
    }
    return names->known[slot].name;
}

/* ---- Names that package.loaded has ------------------------------------------------------------*/

/*
 * What C calls has no name in a caller's code, nor has what a tail call replaced.  Its name is that under
 * which package.loaded has the function: of a global variable, or of a member of a module.  The binding names
 * functions so, too, and takes of several names the first in the alphabet, as here.
 */

enum {
    MAX_LOADED = 20000, /* pairs that are looked at */
    MAX_LOADED_NAME = 95
};

/* A function that a module has under a name; all three are addresses of objects. */
typedef struct loaded_function {
    uint64_t function, module, name; /* MODULE 0: it is what `require` returns for NAME */
} loaded_function;

typedef struct loaded_functions {
    uint64_t of;          /* what is the same for all states that share them; 0: none were read */
    loaded_function *all; /* owned, by the addresses of the functions */
    size_t count, room;
    int left; /* so many pairs may still be looked at */
} loaded_functions;

static bool is_type(lua_value value, int type)
{
    return (value.tag & SSI_LUA_TYPE_BITS) == type;
}

static bool is_text(const value_reader *r, lua_value value, const char *text)
{
    char bytes[16];
    int64_t length = is_string(value) ? string_of(r, value.bits, bytes, sizeof bytes) : -1;

    return length == (int64_t)strlen(text) && !memcmp(bytes, text, (size_t)length);
}

/* What TABLE has under the text KEY; nil if it is no table, or too large to look. */
static lua_value member_of(const value_reader *r, lua_value table, const char *key)
{
    lua_value is, value;
    lua_table pairs;

    if (!is_type(table, SSI_LUA_TAG_TABLE) || !table_begin(&pairs, r, table.bits))
        return (lua_value){0, 0};
    pairs.at = pairs.is.array_size;
    pairs.end += pairs.at;
    while (table_next(&pairs, &is, &value))
        if (is_text(r, is, key))
            return value;
    return (lua_value){0, 0};
}

/* Note the functions of TABLE, which is that of MODULE; 0: package.loaded, with all its modules. */
static bool note_functions(loaded_functions *to, const value_reader *r, uint64_t table,
                           uint64_t module)
{
    lua_value key, value;
    lua_table pairs;

    if (!table_begin(&pairs, r, table))
        return true;
    while (to->left && table_next(&pairs, &key, &value)) {
        const loaded_function found = {value.bits, module, key.bits};

        to->left--;
        if (is_string(key) && is_type(value, SSI_LUA_OLD_FUNCTION) &&
            !ssi_append(&to->all, &to->count, &to->room, &found, sizeof found))
            return false;
        if (is_string(key) && !module && is_type(value, SSI_LUA_TAG_TABLE) &&
            !note_functions(to, r, value.bits, key.bits))
            return false;
    }
    return true;
}

static int by_function(const void *left, const void *right)
{
    const loaded_function *a = left, *b = right;

    return (a->function > b->function) - (a->function < b->function);
}

/* Have FOUND be what LOADED has, a package.loaded.  OF tells it from that of other states. */
static void read_loaded(loaded_functions *found, const value_reader *r, lua_value loaded,
                        uint64_t of)
{
    found->of = of;
    found->count = 0;
    found->left = MAX_LOADED;
    if (!is_type(loaded, SSI_LUA_TAG_TABLE) || !note_functions(found, r, loaded.bits, 0))
        found->count = 0;
    if (found->count)
        qsort(found->all, found->count, sizeof *found->all, by_function);
}

/* Write the name to OUT; false if it is longer than names are, or cannot be read. */
static bool put_loaded_name(const value_reader *r, const loaded_function *is,
                            char out[MAX_LOADED_NAME + 1])
{
    char module[MAX_LOADED_NAME + 1] = "", name[MAX_LOADED_NAME + 1];
    int64_t before = is->module ? string_of(r, is->module, module, sizeof module) : 0;
    int64_t length = string_of(r, is->name, name, sizeof name);
    bool is_dotted = before && (before != 2 || memcmp(module, "_G", 2) != 0);

    if (before < 0 || length < 0 || before + is_dotted + length > MAX_LOADED_NAME)
        return false;
    snprintf(out, MAX_LOADED_NAME + 1, "%.*s%s%.*s", is_dotted ? (int)before : 0, module,
             is_dotted ? "." : "", (int)length, name);
    return true;
}

/* The name of FUNCTION among those of FOUND, or NULL. */
static const char *loaded_name(const loaded_functions *found, const value_reader *r,
                               uint64_t function)
{
    char best[MAX_LOADED_NAME + 1] = "", name[MAX_LOADED_NAME + 1];
    size_t low = 0, high = found->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (found->all[middle].function < function)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < found->count && found->all[low].function == function; low++)
        if (put_loaded_name(r, &found->all[low], name) && (!*best || strcmp(name, best) < 0))
            memcpy(best, name, sizeof best);
    return *best ? ssi_text(best, strlen(best)) : NULL;
}

/* Finds the copies of Lua in a target by the mark that its authors put into each, stripped or not. */

enum { VERSION, VERSION_OF_51, JIT, JIT_21, JIT_20, MARKS };

static const char *const marks[MARKS] = {
    [VERSION] = "$LuaVersion: Lua 5.", [VERSION_OF_51] = "$Lua: Lua 5.", [JIT] = "luaJIT_BC_%s",
    [JIT_21] = "LuaJIT 2.1",           [JIT_20] = "LuaJIT 2.0",
};
static const char rare[][3] = {": ", "JI"}; /* each mark has one of them, code has them seldom */

/* Note what follows each mark whose rare part IS_RARE is AT in PART, which ends at END. */
static void note_marks(const char *is_rare, const char *part, const char *at, const char *end,
                       const char *behind[MARKS])
{
    for (int i = 0; i < MARKS; i++) {
        const char *in_mark = strstr(marks[i], is_rare);
        size_t before = in_mark ? (size_t)(in_mark - marks[i]) : 0, length = strlen(marks[i]);

        if (in_mark && !behind[i] && before <= (size_t)(at - part) &&
            length - before < (size_t)(end - at) && !memcmp(at - before, marks[i], length))
            behind[i] = at - before + length;
    }
}

/*
 * Find what follows each mark in what of BINARY is mapped, or NULL: symbols and debug information can be
 * many times as much.  Nearly all binaries have no mark and are read to their ends, which memchr does with
 * a fraction of what memmem takes.
 */
static void find_marks(const ssi_binary *binary, const char *behind[MARKS])
{
    Elf64_Phdr program;

    memset(behind, 0, MARKS * sizeof *behind);
    for (unsigned i = 0; ssi_binary_program(binary, i, &program); i++) {
        size_t size = program.p_type == PT_LOAD ? (size_t)program.p_filesz : 0;
        const char *part = size ? ssi_binary_part(binary, program.p_offset, size) : NULL;

        for (size_t r = 0; part && r < sizeof rare / sizeof *rare; r++) {
            const char *at = part, *last = part + size - 1;

            for (; (at = memchr(at, rare[r][0], (size_t)(last - at))) != NULL; at++)
                if (at[1] == rare[r][1])
                    note_marks(rare[r], part, at, last + 1, behind);
        }
    }
}

/* The minor version of the Lua with these marks; -1 if they are of none. */
static int version_of(const char *const behind[MARKS])
{
    const char *version = behind[VERSION] ? behind[VERSION] : behind[VERSION_OF_51];

    return version ? *version - '0' : -1;
}

bool ssi_lua_add(ssi_luas *luas, const ssi_binary *binary, const ssi_mapping *mapping, uint64_t end,
                 ssi_scripts *scripts)
{
    const char *behind[MARKS], *unknown;
    const ssi_lua_layout *layout;
    bool is_jit, is_new, is_known;
    int minor;

    find_marks(binary, behind);
    minor = version_of(behind);
    layout = ssi_lua_layout_of(minor);
    is_jit = minor < 0 && behind[JIT];
    is_new = is_jit && behind[JIT_21]; /* hosts may speak of other versions */
    is_known = layout || is_new || (is_jit && behind[JIT_20]);
    unknown = is_jit && !is_known ? "this version of LuaJIT" : NULL;
    if (is_known && luas->copy_count == SSI_MAX_LUAS) {
        ssi_scripts_note(scripts,
                         "not all Lua frames are shown: the process has more than 8 copies of Lua");
        return false;
    }
    if (is_known) {
        luas->copies[luas->copy_count++] = (ssi_lua){layout, !is_new, mapping->start, end, *binary};
        return true;
    }
    if (!layout && minor >= 0 && minor <= 9)
        unknown = ssi_text_format("Lua 5.%d", minor);
    if (unknown)
        ssi_scripts_note(scripts,
                         ssi_text_format("cannot read Lua frames of %.200s: %s is not known",
                                         mapping->path, unknown));
    return false;
}

enum { MAX_LINES = 1 << 22, STORED_WHOLE = -128 };

/* The name that Lua itself shows for a chunk: of a file, as its host named it, or its first line. */
static const char *shown_source(const char *source)
{
    if (!source)
        return NULL;
    if (*source == '@' || *source == '=')
        return ssi_text(source + 1, strlen(source + 1));
    return ssi_text_format("[string \"%.*s%s\"]", (int)strcspn(source, "\n"), source,
                           strchr(source, '\n') ? "..." : "");
}

/* The last line that is stored whole for an instruction up to PC; *BASE is that instruction. */
static int32_t known_line(const ssi_lua_layout *layout, uint64_t proto, int32_t pc, int32_t *base)
{
    int32_t line = lua_number(proto + layout->proto_line), row[2];
    int32_t low = 0, high = lua_number(proto + SSI_LUA_PROTO_KNOWN_COUNT);
    uint64_t rows = ssi_word(proto + SSI_LUA_PROTO_KNOWN);

    *base = -1;
    if (high > MAX_LINES)
        return line;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;

        if (!ssi_read(rows + (uint64_t)middle * sizeof row, row, sizeof row))
            return line;
        if (row[0] <= pc) {
            *base = row[0];
            line = row[1];
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return line;
}

/* The line of instruction PC: each has its line, or the difference to the one before. */
static uint32_t line_of(const ssi_lua_layout *layout, uint64_t proto, int32_t pc)
{
    uint64_t lines = ssi_word(proto + layout->proto_lines);
    int32_t count = lua_number(proto + layout->proto_line_count), at, line;

    if (!lines || pc < 0 || pc >= count || count > MAX_LINES)
        return 0;
    if (layout->whole_lines)
        return (uint32_t)lua_number(lines + (uint64_t)pc * sizeof line);
    line = known_line(layout, proto, pc, &at);
    while (at++ < pc) {
        int8_t difference;

        if (!ssi_read(lines + (uint64_t)at, &difference, 1) || difference == STORED_WHOLE)
            return 0;
        line += difference;
    }
    return line > 0 ? (uint32_t)line : 0;
}

/* That of a function of the chunk SOURCE, defined at a line or, the main chunk, at none. */
static ssi_frame script_frame(const char *source, const char *name, uint32_t defined, uint64_t pc,
                              uint32_t line)
{
    const char *file = shown_source(source);

    if (!name)
        name = defined ? ssi_text_format("function <%s:%u>", file ? file : "?", defined)
                       : "main chunk";
    return (ssi_frame){.known = {.kind = STACKSPLICE_FRAME_SCRIPT,
                                 .trust = STACKSPLICE_TRUST_INFERRED,
                                 .language = "lua",
                                 .address = pc,
                                 .file = file,
                                 .line = line,
                                 .function = name}};
}

/* One that is LuaJIT's own code, such as pcall, is in no chunk. */
static ssi_frame jit_frame_of(const ssi_jit *jit, const ssi_jit_call *call, const char *name)
{
    const ssi_jit_place at =
        call->proto ? ssi_jit_place_of(jit, call) : (ssi_jit_place){"=[C]", 0, 0};

    return script_frame(at.source, name || call->proto ? name : "?", at.defined, call->pc, at.line);
}

static ssi_frame frame_of(const ssi_lua_layout *layout, const lua_call *call, const char *name)
{
    const lua_place at = place_of(layout, call);

    return script_frame(lua_text(layout, ssi_word(at.proto + layout->proto_source)), name,
                        (uint32_t)lua_number(at.proto + layout->proto_line), call->pc,
                        line_of(layout, at.proto, at.pc));
}

/*
 * The interpreter's loop keeps its place in a register, and writes it to memory only before what
 * may call or fail.  Of the registers that calls keep, some point into the function's code: at the
 * next instruction, at the one that runs, or where it jumps to.  Often the instruction itself is in
 * a register, too, and says which.
 */

enum { OPERATIONS = 128 };

/* Whether a register has the instruction at ADDRESS.  One without operands is any small number. */
static bool is_held(const ssi_target *target, const ssi_thread *thread, uint64_t address)
{
    uint32_t instruction;

    if (!ssi_read(address, &instruction, sizeof instruction) || instruction < OPERATIONS)
        return false;
    for (size_t i = 0; i < target->machine->registers; i++)
        if ((uint32_t)thread->registers[i] == instruction)
            return true;
    return false;
}

static void find_pc(const ssi_target *target, const ssi_lua_layout *layout,
                    const ssi_thread *thread, lua_call *call)
{
    const ssi_machine *machine = target->machine;
    const lua_place at = place_of(layout, call);
    uint64_t code = at.code, last = 0;
    uint64_t size =
        (uint32_t)lua_number(at.proto + layout->proto_code_count) * (uint64_t)INSTRUCTION;

    for (size_t i = 0; i < machine->saved_count; i++) {
        uint64_t value = thread->registers[machine->saved[i]];

        if (!code || value < code || value - code > size || value % INSTRUCTION)
            continue;
        if (value > code && is_held(target, thread, value - INSTRUCTION)) {
            call->pc = value;
            return;
        }
        if (is_held(target, thread, value)) {
            call->pc = value + INSTRUCTION;
            return;
        }
        if (value > last)
            last = value;
    }
    if (last > code)
        call->pc = last;
}

/*
 * A word on a stack is a lua_State only if it has the type of one, and its calls form one chain
 * down to the first, each with a function of the right kind further down its stack.
 */

enum {
    MAX_CALLS = 1 << 16,
    MAX_SCAN = 8 << 20,      /* bytes of a stack in a core file, as long as most can be */
    MAX_SCAN_LIVE = 1 << 20, /* of one that waits for us */
    TRIED = 1 << 14,
    EXTRA = 64 * 16 /* bytes that a stack has beyond its end */
};

typedef struct reader {
    const ssi_target *target;
    ssi_luas *luas;
    ssi_scripts *scripts;
    const ssi_lua_layout *layout;
    const ssi_thread *thread; /* whose stack is searched */
    bool has_more;            /* states than there is room for */
    uint64_t tried[TRIED];    /* by their hash; a later one replaces an earlier one */
    lua_names names;
    loaded_functions loaded; /* of the state that was read last */
    int locals_left;         /* so many frames of the thread may still show theirs */
} reader;

/* ---- Calls ------------------------------------------------------------------------------------*/

/* Whether the calls from ADDRESS outward are those of STATE. */
static bool is_chain(reader *r, uint64_t state, uint64_t address)
{
    uint64_t low = 0, high = 0, last = UINT64_MAX, base = state + r->layout->state_base_call;
    lua_call c;

    if (r->layout->call_size)
        base = ssi_word(base);
    if (!ssi_read_word(state + r->layout->state_stack, &low) ||
        !ssi_read_word(state + r->layout->state_stack_last, &high) || low >= high)
        return false;
    for (int calls = 0; calls < MAX_CALLS; calls++) {
        if (!lua_read_call(r->layout, address, &c) || c.function < low ||
            c.function >= high + EXTRA || c.function >= last)
            return false;
        if (address == base)
            return !c.previous;
        if (c.is_c ? c.tag != SSI_LUA_TAG_LIGHT && c.tag != SSI_LUA_TAG_CLOSURE
                   : c.tag != SSI_LUA_TAG_LUA)
            return false;
        last = c.function;
        address = c.previous;
    }
    return false;
}

/* ---- Runs -------------------------------------------------------------------------------------*/

static bool end_run(reader *r, ssi_lua_state *state, ssi_lua_run *run)
{
    run->count = r->scripts->frames.count - run->first;
    if (run->count || run->is_jit) {
        if (!ssi_append(&r->luas->runs, &r->luas->run_count, &r->luas->run_room, run, sizeof *run))
            return false;
        state->count++;
    }
    *run = (ssi_lua_run){.first = r->scripts->frames.count};
    return true;
}

static void end_state(reader *r, ssi_lua_state *state, ssi_lua_run *run)
{
    if (end_run(r, state, run) && state->count)
        (void)ssi_append(&r->luas->states, &r->luas->state_count, &r->luas->state_room, state,
                         sizeof *state);
}

/* The variables of a function: C, or if JIT is not NULL, JIT_CALL. */
static const char *locals_of(reader *r, const lua_call *c, const ssi_jit *jit,
                             const ssi_jit_call *jit_call)
{
    ssi_written written = {.shows_secrets = r->scripts->shows_secrets};
    value_reader values = {jit ? &jit_layout : r->layout, jit, NULL};
    variables found;

    if (!r->scripts->with_locals || !r->locals_left)
        return NULL;
    if (!--r->locals_left)
        return ssi_scripts_locals_left_out(r->scripts);
    found = find_variables(&values, c, jit_call);
    write_variables(values, &found, jit ? jit_call->base : c->base, &written);
    return ssi_scripts_keep_locals(r->scripts, &written);
}

/* Whether the interpreter's loop began with the call.  5.1 does not store that: the loop goes on to
   what its own instruction calls, and nothing else. */
static bool is_fresh(const ssi_lua_layout *layout, const lua_call *c)
{
    const instruction_set *set = instructions_of(layout);
    uint32_t instruction;
    lua_call caller;
    unsigned is;

    if (!layout->status_is_tail)
        return c->is_fresh;
    if (!lua_read_call(layout, c->previous, &caller) || caller.tag != SSI_LUA_TAG_LUA ||
        !ssi_read(caller.pc - INSTRUCTION, &instruction, sizeof instruction))
        return true;
    is = operation_of(set, instruction);
    return is != set->call && is != set->tail_call;
}

/* The code of the function that C calls. */
static uint64_t function_in_c(const ssi_lua_layout *layout, const lua_call *c)
{
    enum { OLD_CLOSURE_FUNCTION = 32 /* 5.1 */ };
    uint64_t value = ssi_word(c->function);

    return c->tag == SSI_LUA_TAG_LIGHT ? value
           : layout->status_is_tail    ? ssi_word(value + OLD_CLOSURE_FUNCTION)
                                       : ssi_word(value + SSI_LUA_CLOSURE_FUNCTION);
}

/* The name of the function of C, in STATE: in its caller's code, else in package.loaded; NULL: neither. */
static const char *name_of(reader *r, uint64_t state, const lua_call *c)
{
    const char *name = lua_call_name(r->layout, &r->names, c);
    const value_reader values = {r->layout, NULL, NULL};
    uint64_t shared = ssi_word(state + r->layout->state_shared);
    uint64_t at = shared + r->layout->shared_registry;
    lua_value registry;

    if (name ||
        !lua_number(place_of(r->layout, c).proto + r->layout->proto_line)) /* a main chunk */
        return name;
    if (r->loaded.of != shared && lua_read_value(r->layout, at, at + SSI_LUA_VALUE_TAG, &registry))
        read_loaded(&r->loaded, &values, member_of(&values, registry, "_LOADED"), shared);
    return r->loaded.of == shared ? loaded_name(&r->loaded, &values, ssi_word(c->function)) : NULL;
}

static void add_state(reader *r, uint64_t address, uint64_t innermost)
{
    ssi_lua_state state = {.address = address, .first = r->luas->run_count};
    ssi_lua_run run = {.first = r->scripts->frames.count};
    lua_call c;

    for (uint64_t at = innermost; at && lua_read_call(r->layout, at, &c); at = c.previous) {
        ssi_frame frame;

        if (c.is_c) {
            if (!end_run(r, &state, &run))
                return;
            run.called = function_in_c(r->layout, &c);
            continue;
        }
        if (at == innermost && r->layout->state_pc)
            c.pc = ssi_word(address + r->layout->state_pc);
        if (at == innermost && r->layout->pc_in_register) {
            find_pc(r->target, r->layout, r->thread, &c);
            run.is_running = true;
        }
        frame = frame_of(r->layout, &c, name_of(r, address, &c));
        frame.locals = locals_of(r, &c, NULL, NULL);
        if (!run.held)
            run.held = r->layout->loop_has_state ? address : at;
        if (!ssi_frames_add(&r->scripts->frames, &frame) ||
            (is_fresh(r->layout, &c) && !end_run(r, &state, &run)))
            return;
    }
    end_state(r, &state, &run);
}

/* Where the loop of JIT is on the stack of a thread, so that the walk goes on there: in its innermost frame
   behind what TRACE says. */
static void add_jumps(reader *r, const ssi_lua *copy, ssi_jit jit, const ssi_jit_trace *trace)
{
    enum { MAX_ENTRIES = 200 };
    ssi_native_jump jump = {.pc = ssi_jit_loop(&jit, copy->start, copy->end)};

    jump.code = ssi_binary_function(&copy->binary, jump.pc, &jump.size);
    for (size_t i = 0; jump.pc && jit.c_frame && i < MAX_ENTRIES; i++) {
        bool is_made = i < trace->count;

        jump.sp = jit.c_frame;
        jump.from = is_made ? trace->made[i].sp : 0;
        jump.made = is_made ? trace->made[i].code : 0;
        jump.made_size = is_made ? trace->made[i].size : 0;
        if (!ssi_append(&r->luas->jumps, &r->luas->jump_count, &r->luas->jump_room, &jump,
                        sizeof jump))
            return;
        if (i + 1 >= trace->count)
            jit.c_frame = ssi_jit_outer_c_frame(&jit);
    }
}

/*
 * The registers in which LuaJIT's loop has its base and its pc while it runs, and where it keeps the base while
 * it calls C that cannot fail.  Before it calls what can fail, it stores the base in the state, and x86-64's
 * keeps the state there instead.  What it had stored stays when that C has returned, so it may be old.
 */
typedef struct loop_registers {
    unsigned machine, base, kept, pc;
} loop_registers;

static const loop_registers *loop_registers_of(const ssi_machine *machine)
{
    static const loop_registers known[] = {{EM_X86_64, 1 /* rdx */, 6 /* rbp */, 3 /* rbx */},
                                           {EM_AARCH64, 19, 19, 21}};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].machine == machine->number)
            return &known[i];
    return NULL;
}

/* The thread whose stack has the loop's frame of JIT; NULL: none, it is on a suspended fiber's. */
static const ssi_thread *thread_of(const reader *r, const ssi_jit *jit)
{
    for (size_t i = 0; i < r->target->thread_count; i++) {
        const ssi_thread *thread = &r->target->threads[i];

        if (thread->has_registers && jit->c_frame < thread->stack_end &&
            jit->c_frame >= thread->registers[r->target->machine->sp])
            return thread;
    }
    return NULL;
}

/* What C that the loop called may have put onto the stack: the loop's registers, among other words. */
enum { MAX_PUSHED = 64 };
typedef struct pushed {
    uint64_t words[MAX_PUSHED + 1];
    size_t count;
} pushed;

/* The value of REGISTER, and the words inside of the loop's frame if they are few. */
static void find_pushed(const reader *r, const ssi_jit *jit, const ssi_thread *thread, unsigned at,
                        pushed *found)
{
    uint64_t sp = thread->registers[r->target->machine->sp];

    found->count = 0;
    found->words[found->count++] = thread->registers[at];
    if (jit->c_frame - sp > MAX_PUSHED * sizeof sp)
        return;
    for (; sp < jit->c_frame && found->count <= MAX_PUSHED; sp += sizeof sp)
        if (!ssi_read_word(sp, &found->words[found->count++]))
            found->count--;
}

/* Whether the loop called C with its base kept in a register, which is then *BASE. */
static bool begin_at_kept(const reader *r, ssi_jit *jit, const ssi_thread *thread, uint64_t *base,
                          uint64_t *pc)
{
    const loop_registers *at = loop_registers_of(r->target->machine);
    pushed bases, pcs;

    find_pushed(r, jit, thread, at->kept, &bases);
    find_pushed(r, jit, thread, at->pc, &pcs);
    for (size_t i = 0; i < bases.count; i++) {
        *base = bases.words[i];
        if (*base <= jit->first || *base >= jit->end || *base == ssi_jit_stored_base(jit))
            continue;
        for (size_t j = 0; j < pcs.count; j++) {
            *pc = pcs.words[j];
            if (ssi_jit_begin_at(jit, *base, pc))
                return true;
        }
    }
    return false;
}

/* Where the innermost activation of a state was found. */
typedef struct jit_start {
    bool is_found;
    bool is_running;  /* by the thread's own registers: LuaJIT itself runs, or what it compiled */
    bool is_compiled; /* which was entered at PC */
    uint64_t pc;      /* 0: its frames tell */
    uint64_t base;    /* to be compared with what the loop's frame keeps */
} jit_start;

static jit_start begin_jit(reader *r, const ssi_lua *copy, ssi_jit *jit)
{
    const ssi_machine *machine = r->target->machine;
    const loop_registers *at = loop_registers_of(machine);
    const ssi_thread *thread = thread_of(r, jit);
    const uint64_t *registers = thread ? thread->registers : NULL;
    jit_start start = {.is_found = false};
    ssi_jit_trace trace = {.count = 0};

    if (registers && machine->number == EM_X86_64) {
        start.is_compiled =
            ssi_jit_find_trace(jit, registers[machine->sp], registers[machine->pc], &trace);
        add_jumps(r, copy, *jit, &trace);
    }
    start.pc = start.is_compiled ? trace.pc : registers && at ? registers[at->pc] : 0;
    start.is_running =
        start.is_compiled ||
        (registers && at && registers[machine->pc] - copy->start < copy->end - copy->start &&
         ssi_jit_begin_at(jit, registers[at->base], &start.pc));
    start.is_found = start.is_running ||
                     (registers && at && begin_at_kept(r, jit, thread, &start.base, &start.pc));
    if (start.is_found)
        return start;
    start.pc = 0;
    start.base = ssi_jit_stored_base(jit);
    start.is_found = ssi_jit_begin_stored(jit);
    return start;
}

/* As name_of, where OUTER, NULL if there is none, is the caller.  LuaJIT's registry has another place in each
   version, so package.loaded is looked for where scripts have it. */
static const char *jit_name_of(reader *r, const ssi_jit *jit, const ssi_jit_call *c,
                               const ssi_jit_call *outer)
{
    const char *name = c->is_entered || !outer ? NULL : ssi_jit_name(jit, outer);
    const value_reader values = {&jit_layout, jit, NULL};
    lua_value globals = {SSI_LUA_TAG_TABLE, ssi_jit_globals(jit)};

    if (name || (c->proto && !ssi_jit_place_of(jit, c).defined))
        return name;
    if (r->loaded.of != globals.bits)
        read_loaded(&r->loaded, &values,
                    member_of(&values, member_of(&values, globals, "package"), "loaded"),
                    globals.bits);
    return loaded_name(&r->loaded, &values, c->object);
}

/* Add the frame of the Lua function of C to RUN, or of LuaJIT's own, with the name that the caller OUTER or
   package.loaded has for it.  Compiled code does not store variables. */
static bool add_jit_frame(reader *r, const ssi_jit *jit, ssi_lua_run *run, const ssi_jit_call *c,
                          const ssi_jit_call *outer, bool is_compiled)
{
    ssi_frame frame;

    if (!c->proto && !c->is_own && r->scripts->frames.count == run->first && !run->called)
        run->called = c->function;
    if (!c->proto && !c->is_own)
        return true;
    frame = jit_frame_of(jit, c, jit_name_of(r, jit, c, outer));
    if (c->proto && !is_compiled)
        frame.locals = locals_of(r, NULL, jit, c);
    return ssi_frames_add(&r->scripts->frames, &frame);
}

/* Each time that C enters LuaJIT it has one frame more, also if only functions in C run in it. */
static void add_jit_runs(reader *r, const jit_start *start, ssi_jit *jit, ssi_lua_state *state)
{
    ssi_lua_run run = {
        .first = r->scripts->frames.count, .base = start->base, .is_running = start->is_running};
    bool has_outer, is_compiled = start->is_compiled;
    ssi_jit_call c, outer;

    if (!ssi_jit_next(jit, &c))
        return;
    if (start->is_compiled || start->pc)
        c.pc = start->pc;
    for (bool goes_on = true; goes_on; c = outer, goes_on = has_outer, is_compiled = false) {
        has_outer = ssi_jit_next(jit, &outer);
        run.is_jit = true;
        run.held = jit->state;
        if (!add_jit_frame(r, jit, &run, &c, has_outer ? &outer : NULL, is_compiled) ||
            (c.is_entered && !end_run(r, state, &run)))
            return;
    }
    end_state(r, state, &run);
}

/* Runs of which only the loop's frames are known. */
static void add_lost_runs(reader *r, ssi_jit *jit, ssi_lua_state *state)
{
    enum { MAX_ENTRIES = 200 }; /* of C into C, which LuaJIT itself limits */
    ssi_lua_run run = {.first = r->scripts->frames.count};

    state->is_lost = true;
    for (int i = 0; jit->c_frame && i < MAX_ENTRIES; i++) {
        run.is_jit = true;
        run.held = jit->state;
        if (!end_run(r, state, &run))
            return;
        jit->c_frame = ssi_jit_outer_c_frame(jit);
    }
    end_state(r, state, &run);
}

static void add_jit_state(reader *r, const ssi_lua *copy, ssi_jit *jit)
{
    ssi_lua_state state = {
        .address = jit->state, .first = r->luas->run_count, .is_narrow = jit->is_narrow};
    jit_start start;

    jit->is_old = copy->is_old;
    jit->is_arm = r->target->machine->number == EM_AARCH64;
    start = begin_jit(r, copy, jit);
    if (start.is_found)
        add_jit_runs(r, &start, jit, &state);
    else
        add_lost_runs(r, jit, &state);
}

/* ---- Where states are found -------------------------------------------------------------------*/

/* Whether ADDRESS is to be tried.  Most words recur soon: they are not read again.  One that was
   replaced is, so a state is known by its address, too. */
static bool is_new(reader *r, uint64_t address)
{
    size_t at = (size_t)(address * 0x9E3779B97F4A7C15u >> 32) % TRIED;

    if (r->tried[at] == address)
        return false;
    r->tried[at] = address;
    for (size_t i = 0; i < r->luas->state_count; i++)
        if (r->luas->states[i].address == address)
            return false;
    return true;
}

static bool is_state(reader *r, uint64_t word, uint64_t *innermost)
{
    uint8_t type;

    return ssi_read(word + SSI_LUA_TYPE, &type, 1) && type == SSI_LUA_THREAD &&
           ssi_read_word(word + r->layout->state_call, innermost) && is_chain(r, word, *innermost);
}

/* Add the state at WORD, if it is one of COPY. */
static bool add_state_of(reader *r, const ssi_lua *copy, uint64_t word)
{
    uint64_t innermost;
    ssi_jit jit;
    bool is_jit = !copy->layout && (ssi_jit_begin(&jit, word, false) ||
                                    (!(word >> 32) && ssi_jit_begin(&jit, word, true)));

    r->layout = copy->layout;
    if (!is_jit && (!copy->layout || !is_state(r, word, &innermost)))
        return false;
    if (r->luas->state_count == SSI_MAX_LUA_STATES)
        r->has_more = true;
    else if (is_jit)
        add_jit_state(r, copy, &jit);
    else
        add_state(r, word, innermost);
    return true;
}

static void try_word(reader *r, uint64_t word)
{
    const ssi_mapping *mapping = word % 8 ? NULL : ssi_target_mapping(r->target, word);

    if (!mapping || !mapping->writable || mapping->executable || !is_new(r, word))
        return;
    for (size_t i = 0; i < r->luas->copy_count; i++)
        if (add_state_of(r, &r->luas->copies[i], word))
            return;
}

/* LuaJIT may keep a reference in half a word. */
static void try_halves(reader *r, uint64_t word)
{
    for (size_t i = 0; i < r->luas->copy_count; i++)
        if (!r->luas->copies[i].layout && word >> 32) {
            try_word(r, word & UINT32_MAX);
            try_word(r, word >> 32);
            return;
        }
}

static void scan(reader *r, const ssi_thread *thread)
{
    uint64_t sp = thread->registers[r->target->machine->sp], end, word;
    uint64_t most = r->target->is_live ? MAX_SCAN_LIVE : MAX_SCAN;

    r->thread = thread;
    r->locals_left = SSI_SHOWN_FRAMES + 1;
    for (int i = 0; i < r->target->machine->registers; i++)
        try_word(r, thread->registers[i]);
    end = thread->stack_end > sp + most ? sp + most : thread->stack_end;
    for (uint64_t at = sp & ~(uint64_t)7; at < end && !ssi_budget_is_spent(); at += sizeof word)
        if (ssi_read_word(at, &word)) {
            try_word(r, word);
            try_halves(r, word);
        }
}

void ssi_lua_read(const ssi_target *target, ssi_luas *luas, ssi_scripts *scripts)
{
    reader *r = luas->copy_count ? calloc(1, sizeof *r) : NULL;

    if (!r)
        return;
    r->target = target;
    r->luas = luas;
    r->scripts = scripts;
    for (size_t i = 0; i < target->thread_count; i++)
        if (target->threads[i].has_registers)
            scan(r, &target->threads[i]);
    if (r->has_more)
        ssi_scripts_note(scripts, "not all Lua states are shown: more than 256 are on stacks");
    free(r->loaded.all);
    free(r);
}

void ssi_lua_free(ssi_luas *luas)
{
    for (size_t i = 0; i < luas->copy_count; i++)
        ssi_binary_close(&luas->copies[i].binary);
    free(luas->states);
    free(luas->runs);
    free(luas->jumps);
}

/*
 * Which native frames are the interpreter's loop, and what each of them runs.
 *
 * The loop keeps the CallInfo of the function that it runs in a register or on its stack.  So a
 * frame of Lua's binary that holds the one of a state's next run is a frame of that run.  The loop
 * is the largest function that does; those that it called may still hold what it had in a register.
 * If two states could own a frame, or none, a gap stands there.
 *
 * If each run has its frame, and all these frames hold their CallInfo in one and the same register
 * or place, that is no chance: then the frames are exact.
 */

typedef struct placing {
    const ssi_target *target;
    ssi_luas *luas;
    const ssi_native_stack *stack;
    uint64_t places; /* where all frames of the loop hold their CallInfo: a bit each */
    uint64_t common; /* where all of them hold a state, if that is what they hold; 0: anywhere */
    size_t inside;   /* the native frames inside of the next one of the loop begin there */
} placing;

/* The start and *SIZE of the function of FRAME, if it is in a copy of Lua; else 0. */
static uint64_t function_of(const placing *p, const ssi_native_frame *frame, uint64_t *size)
{
    uint64_t pc = frame->address - 1;

    *size = 0;
    for (size_t i = 0; i < p->luas->copy_count; i++)
        if (pc >= p->luas->copies[i].start && pc < p->luas->copies[i].end)
            return ssi_binary_function(&p->luas->copies[i].binary, pc, size);
    return 0;
}

enum {
    FAR = 63, /* the place in a set that stands for all words far from the end of their frame */
    MAX_FRAME = 1 << 20 /* bytes of a frame that are searched: the loop's has some hundred */
};

/* Also in a half, as only a reference of 32 bits can be. */
static bool is_held_in(uint64_t word, uint64_t value)
{
    return word == value || (!(value >> 32) && ((uint32_t)word == value || word >> 32 == value));
}

/* Where native frame AT holds what it has to hold for RUN: registers, then words by their distance from
   its end.  LuaJIT's loop saves two registers less than a function may. */
static uint64_t places_of(const placing *p, size_t at, const ssi_lua_run *run)
{
    const ssi_machine *machine = p->target->machine;
    const ssi_native_frame *frame = &p->stack->frames[at];
    uint64_t value = run->held, saves = machine->outer_saves;
    uint64_t end = ssi_native_end(p->stack, at), word, found = 0, limit = end;

    if (end > frame->sp && end - frame->sp > MAX_FRAME) /* another stack begins there */
        limit = frame->sp + MAX_FRAME;
    if (run->is_jit && saves)
        saves -= 2 * sizeof word;
    for (unsigned i = 0; i < machine->saved_count; i++)
        if (frame->known & 1u << i && frame->saved[i] == value)
            found |= (uint64_t)1 << i;
    for (uint64_t place = frame->sp + machine->inner_saves; place + saves < limit;
         place += sizeof word) {
        uint64_t bit = machine->saved_count + (end - place - saves) / sizeof word;

        if (ssi_read_word(place, &word) && is_held_in(word, value))
            found |= (uint64_t)1 << (bit < FAR ? bit : FAR);
    }
    return found;
}

/* The first run of STATE, of the next ones, which calls the function in C that runs in native frame AT.
   Outside of Lua's binary that is the last one of these functions that begins shortly before. */
static size_t caller_of(const placing *p, const ssi_lua_state *state, size_t at)
{
    enum { SHORT_WAY = 4096, MAX_NEXT = 64 };
    uint64_t size, pc = function_of(p, &p->stack->frames[at], &size), nearest = 1;
    size_t found = state->count;

    if (!pc) {
        pc = p->stack->frames[at].address;
        nearest = SHORT_WAY;
    }
    for (size_t i = state->placed; i < state->count && i < state->placed + MAX_NEXT; i++) {
        uint64_t called = p->luas->runs[state->first + i].called;

        if (called && pc - called < nearest) {
            nearest = pc - called;
            found = i;
        }
    }
    return found;
}

/* The run of STATE for native frame AT of the loop.  Order alone is wrong where a coroutine is in use on a
   fiber that is suspended: what runs there calls nothing on this stack. */
static size_t next_run(const placing *p, const ssi_lua_state *state, size_t at)
{
    enum { NEAR = 4 /* frames from the loop to the function in C that it calls */ };
    size_t found = state->count, first = p->inside;

    if (!p->luas->runs[state->first + state->placed].called)
        return state->placed;
    if (at > first + NEAR)
        first = at - NEAR;
    for (size_t i = first; i < at && found > state->placed; i++) {
        size_t calls = caller_of(p, state, i);

        found = calls < found ? calls : found;
    }
    return found < state->count ? found : state->placed;
}

/* The one state that native frame AT holds in *PLACES, and *WHICH of its runs it has next; NULL if there
   is none, or more. */
static ssi_lua_state *owner_of(const placing *p, size_t at, uint64_t *places, size_t *which)
{
    ssi_lua_state *found = NULL;

    for (size_t i = 0; i < p->luas->state_count; i++) {
        ssi_lua_state *state = &p->luas->states[i];
        size_t next = state->placed;
        const ssi_lua_run *runs = &p->luas->runs[state->first];
        uint64_t held = 0;

        if (next < state->count)
            held = places_of(p, at, &runs[next]);
        if (next < state->count && (!held || runs->held == state->address)) {
            next = next_run(p, state, at);
            held = next == state->placed ? held : places_of(p, at, &runs[next]);
        }
        if (p->common)
            held &= p->common;
        if (!held)
            continue;
        if (found)
            return NULL;
        found = state;
        *which = next;
        *places = held;
    }
    return found;
}

/* How many frames FUNCTION has, if the states that these hold have as many runs; else 0. */
static size_t frames_of_runs(const placing *p, uint64_t function)
{
    bool is_held[SSI_MAX_LUA_STATES] = {false};
    size_t frames = 0, runs = 0;
    uint64_t size;

    for (size_t at = 0; at < p->stack->count; at++) {
        if (function_of(p, &p->stack->frames[at], &size) != function)
            continue;
        frames++;
        for (size_t i = 0; i < p->luas->state_count; i++)
            is_held[i] |= places_of(p, at, &p->luas->runs[p->luas->states[i].first]) != 0;
    }
    for (size_t i = 0; i < p->luas->state_count; i++)
        if (is_held[i])
            runs += p->luas->states[i].count;
    return frames == runs ? frames : 0;
}

/* The start of the interpreter's loop; 0 if it is not on this stack.  A host's function may hold a state,
   too, and be larger: it has not as many frames as there are runs. */
static uint64_t find_loop(const placing *p)
{
    uint64_t loop = 0, largest = 0, size, places;
    size_t most = 0, which;

    for (size_t i = 0; i < p->stack->count; i++) {
        uint64_t function = function_of(p, &p->stack->frames[i], &size);
        const ssi_lua_state *owner =
            function && function != loop ? owner_of(p, i, &places, &which) : NULL;
        size_t frames = 0;

        if (!owner)
            continue;
        if (p->luas->runs[owner->first].held == owner->address)
            frames = frames_of_runs(p, function);
        if (frames > most || (frames == most && size > largest)) {
            most = frames;
            largest = size;
            loop = function;
        }
    }
    return loop;
}

/* Where all frames of LOOP hold a state; 0 if there is no such place, or they hold their calls. */
static uint64_t find_common(const placing *p, uint64_t loop)
{
    uint64_t common = ~((uint64_t)1 << FAR), size;

    for (size_t at = 0; at < p->stack->count; at++) {
        uint64_t places = 0;

        if (function_of(p, &p->stack->frames[at], &size) != loop)
            continue;
        for (size_t i = 0; i < p->luas->state_count; i++) {
            const ssi_lua_state *state = &p->luas->states[i];
            const ssi_lua_run *run = &p->luas->runs[state->first];

            if (run->held == state->address)
                places |= places_of(p, at, run);
        }
        common &= places;
    }
    return common;
}

/* The state whose placed runs lie furthest out. */
static size_t outermost_state(const placing *p, const size_t *last)
{
    size_t found = SIZE_MAX;

    for (size_t i = 0; i < p->luas->state_count; i++)
        if (p->luas->states[i].placed && (found == SIZE_MAX || last[i] > last[found]))
            found = i;
    return found;
}

/*
 * The runs that have no native frame.  A coroutine that has yielded left its frames behind: what ran
 * in them stands outside of the runs that have some.  But where native frames are missing, those of
 * the outermost state's runs are among them, behind the gap that says so.
 */
static bool place_others(const placing *p, int thread, ssi_scripts *scripts, const size_t *last)
{
    bool is_whole = !p->stack->truncated && !p->stack->left_out;
    size_t outermost = outermost_state(p, last);

    for (size_t i = 0; i < p->luas->state_count; i++) {
        ssi_lua_state *state = &p->luas->states[i];

        if (state->is_lost)
            continue;
        for (; state->placed && state->placed < state->count; state->placed++) {
            const ssi_lua_run *run = &p->luas->runs[state->first + state->placed];
            ssi_run behind = {.thread = thread,
                              .marker = p->stack->truncated ? UINT64_MAX : p->stack->cut_sp,
                              .first = run->first,
                              .count = run->count};

            if (is_whole || i != outermost)
                scripts->runs[last[i]].count += run->count;
            else if (!ssi_scripts_add_run(scripts, &behind))
                return false;
        }
    }
    return true;
}

/* Whether native frame AT calls what RUN says: the function in C runs inside of it, or another run does. */
static bool calls(const placing *p, size_t at, const ssi_lua_run *run)
{
    enum { MAX_FUNCTION = 1 << 16 /* bytes */ };
    uint64_t size, inside = at ? p->stack->frames[at - 1].address : 0;
    uint64_t own = function_of(p, &p->stack->frames[at], &size);

    if (!at)
        return false;
    return inside - run->called < MAX_FUNCTION ||
           function_of(p, &p->stack->frames[at - 1], &size) == own;
}

/* What native frame AT has in a register; false if that is not known. */
static bool saved_at(const placing *p, size_t at, unsigned in, uint64_t *value)
{
    const ssi_machine *machine = p->target->machine;
    const ssi_native_frame *frame = &p->stack->frames[at];

    for (unsigned i = 0; i < machine->saved_count; i++)
        if (machine->saved[i] == in && frame->known >> i & 1) {
            *value = frame->saved[i];
            return true;
        }
    return false;
}

/* Whether the registers of LuaJIT's loop, BASE and PC, name an activation of STATE; *FRAME is its. */
static bool names_activation(const ssi_lua_state *state, uint64_t base, uint64_t pc,
                             uint64_t *frame)
{
    ssi_jit jit;
    bool is =
        ssi_jit_begin(&jit, state->address, state->is_narrow) && ssi_jit_begin_at(&jit, base, &pc);

    *frame = jit.frame;
    return is;
}

/*
 * Whether RUN, the innermost of a state of LuaJIT, began with the activation that native frame AT is in: what
 * the loop's frame keeps says so.
 */
static bool is_current(const placing *p, size_t at, const ssi_lua_state *state,
                       const ssi_lua_run *run)
{
    const loop_registers *in = loop_registers_of(p->target->machine);
    uint64_t kept, pc, frame, other;

    if (run->is_running)
        return true;
    if (!in || !saved_at(p, at, in->kept, &kept))
        return calls(p, at, run);
    if (kept == run->base || kept == state->address)
        return true;
    return (saved_at(p, at, in->pc, &pc) && names_activation(state, run->base, pc, &frame) &&
            !names_activation(state, kept, pc, &other)) ||
           calls(p, at, run);
}

/* A gap in the place of native frame AT. */
static bool place_unknown(const placing *p, size_t at, int thread, ssi_scripts *scripts)
{
    ssi_run placed = {thread, p->stack->frames[at].sp, scripts->frames.count, 1};

    return ssi_frames_add_gap(&scripts->frames, "Lua functions that ran here were not found") &&
           ssi_scripts_add_run(scripts, &placed);
}

/*
 * LuaJIT's own C calls the loop, too, to be protected: where it restores what a trace had, or compiles.  Such a
 * frame of the loop is of no run.  Then a frame further out calls what RUN says, and frame AT does not.
 */
static bool is_of_no_run(const placing *p, size_t at, const ssi_lua_run *run)
{
    uint64_t size, loop = function_of(p, &p->stack->frames[at], &size);

    if (!run->is_jit || !run->called || calls(p, at, run))
        return false;
    for (size_t i = at + 1; i < p->stack->count; i++)
        if (function_of(p, &p->stack->frames[i], &size) == loop && calls(p, i, run))
            return true;
    return false;
}

static bool place_frame(placing *p, size_t at, int thread, ssi_scripts *scripts, size_t *last)
{
    uint64_t places = 0;
    size_t which = 0;
    ssi_lua_state *state = owner_of(p, at, &places, &which);
    ssi_lua_run *run = state ? &p->luas->runs[state->first + which] : NULL;
    ssi_run placed = {.thread = thread, .marker = p->stack->frames[at].sp};

    p->inside = at + 1;
    if (run && which && is_of_no_run(p, at, run))
        return true;
    p->places &= state ? places : 0;
    if (!run)
        return place_unknown(p, at, thread, scripts);
    state->thread = thread;
    state->is_lost |= run->is_jit && !which && !is_current(p, at, state, run);
    last[state - p->luas->states] = scripts->run_count;
    state->placed = which + 1;
    if (state->is_lost)
        return place_unknown(p, at, thread, scripts);
    placed.first = run->first;
    placed.count = run->count;
    return !placed.count || ssi_scripts_add_run(scripts, &placed);
}

/* Whether each run of the states on this stack has its frame, beyond doubt. */
static bool are_matched(const placing *p)
{
    for (size_t i = 0; i < p->luas->state_count; i++)
        if (p->luas->states[i].placed && p->luas->states[i].placed < p->luas->states[i].count)
            return false;
    return p->places & ~((uint64_t)1 << FAR) && !p->stack->truncated && !p->stack->left_out;
}

/* The script frames of THREAD, but for that whose line was guessed. */
static void mark_exact(const placing *p, int thread, ssi_scripts *scripts)
{
    for (size_t i = 0; i < p->luas->state_count; i++)
        for (size_t at = 0; at < p->luas->states[i].placed; at++) {
            const ssi_lua_run *run = &p->luas->runs[p->luas->states[i].first + at];

            for (size_t n = run->is_running; n < run->count; n++)
                if (p->luas->states[i].thread == thread && !p->luas->states[i].is_lost)
                    scripts->frames.items[run->first + n].known.trust = STACKSPLICE_TRUST_EXACT;
        }
}

/* A gap for the compiled code of the native frame at MARKER, or for one whose callers are unknown. */
static bool place_compiled(uint64_t marker, int thread, ssi_scripts *scripts)
{
    ssi_run run = {thread, marker, scripts->frames.count, 1};

    return ssi_frames_add_gap(
               &scripts->frames,
               marker == UINT64_MAX
                   ? "Lua functions unknown: JIT-compiled code runs here, and its callers are "
                     "unknown, too; jit.off() has them shown"
                   : "Lua functions unknown: JIT-compiled code runs here; the caller's line is "
                     "where that began, and jit.off() has them shown") &&
           ssi_scripts_add_run(scripts, &run);
}

/* Whether the stack ends where code was made while the process ran, and LuaJIT is there to make it. */
static bool ends_in_made_code(const placing *p)
{
    const ssi_native_stack *stack = p->stack;
    const ssi_mapping *mapping =
        stack->truncated && stack->count
            ? ssi_target_mapping(p->target, stack->frames[stack->count - 1].address)
            : NULL;

    for (size_t i = 0; mapping && !mapping->path && i < p->luas->copy_count; i++)
        if (!p->luas->copies[i].layout)
            return mapping->executable;
    return false;
}

static bool is_compiled(const placing *p, size_t at)
{
    for (size_t i = 0; i < p->luas->jump_count; i++)
        if (ssi_native_is_made(&p->luas->jumps[i], &p->stack->frames[at]))
            return true;
    return false;
}

void ssi_lua_place(const ssi_target *target, ssi_luas *luas, const ssi_native_stack *stack,
                   int thread, ssi_scripts *scripts)
{
    placing p = {target, luas, stack, UINT64_MAX, 0, 0};
    uint64_t loop = find_loop(&p), size;
    size_t last[SSI_MAX_LUA_STATES] = {0};

    if (!loop && ends_in_made_code(&p))
        (void)place_compiled(UINT64_MAX, thread, scripts);
    if (!loop)
        return;
    p.common = find_common(&p, loop);
    for (size_t i = 0; i < stack->count; i++)
        if (function_of(&p, &stack->frames[i], &size) == loop
                ? !place_frame(&p, i, thread, scripts, last)
                : is_compiled(&p, i) && !place_compiled(stack->frames[i].sp, thread, scripts))
            return;
    if (are_matched(&p))
        mark_exact(&p, thread, scripts);
    (void)place_others(&p, thread, scripts, last);
}
