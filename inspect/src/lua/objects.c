#include "lua/private.h"

#include "base/base.h"
#include "shared/value_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Words and strings ------------------------------------------------------------------------*/

enum { MAX_TEXT = 1024 };

int32_t ssi_lua_number(uint64_t address)
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
    if (type != SSI_LUA_TAG_SHORT) {
        whole = ssi_word(address + SSI_LUA_TEXT_LONG_LENGTH);
        data = layout->long_text_pointer ? ssi_word(data) : data;
    }
    if (whole < size)
        size = (size_t)whole;
    return data && ssi_read(data, out, size) ? (int64_t)size : -1;
}

const char *ssi_lua_text(const ssi_lua_layout *layout, uint64_t address)
{
    char bytes[MAX_TEXT];
    int64_t length = bytes_of(layout, address, bytes, sizeof bytes);

    return length < 0 ? NULL : ssi_text(bytes, (size_t)length);
}

bool ssi_lua_read_value(const ssi_lua_layout *layout, uint64_t bits, uint64_t tag,
                        ssi_lua_value *out)
{
    if (!ssi_read(bits, &out->bits, sizeof out->bits) || !ssi_read(tag, &out->tag, 1))
        return false;
    if (layout->old_tags && (out->tag == SSI_LUA_TAG_INTEGER || out->tag == SSI_LUA_TAG_FLOAT))
        out->tag ^= SSI_LUA_TAG_INTEGER ^ SSI_LUA_TAG_FLOAT;
    if (layout->old_tags && out->tag == SSI_LUA_TAG_FALSE && (int32_t)out->bits)
        out->tag = SSI_LUA_TAG_TRUE;
    return true;
}

static bool read_status(const ssi_lua_layout *layout, ssi_lua_call *c)
{
    uint32_t status = 0;

    if (!ssi_read(c->address + layout->call_status, &status, layout->status_size))
        return false;
    c->is_c = (status >> layout->status_c & 1) != layout->status_c_is_lua;
    c->is_fresh = status >> layout->status_fresh & 1;
    c->is_tail = status >> layout->status_tail & 1;
    c->runs_hook = status >> layout->status_hook & 1;
    c->runs_finalizer = status >> layout->status_finalizer & 1;
    return true;
}

static bool read_base(const ssi_lua_layout *layout, ssi_lua_call *c)
{
    c->base = c->function + SSI_LUA_VALUE;
    return !layout->call_base || ssi_read(c->address + layout->call_base, &c->base, sizeof c->base);
}

/* ---- Calls ------------------------------------------------------------------------------------*/

bool ssi_lua_read_call(const ssi_lua_layout *layout, uint64_t address, ssi_lua_call *call)
{
    *call = (ssi_lua_call){.address = address};
    return ssi_read_word(address + SSI_LUA_CALL_FUNCTION, &call->function) &&
           ssi_read(address + SSI_LUA_CALL_PREVIOUS, &call->previous, sizeof call->previous) &&
           ssi_read(address + layout->call_pc, &call->pc, sizeof call->pc) &&
           read_base(layout, call) && read_status(layout, call) &&
           ssi_read(call->function + SSI_LUA_VALUE_TAG, &call->tag, 1);
}

/* ---- Tables -----------------------------------------------------------------------------------*/

enum {
    MAX_PLACES = 1 << 16, /* that are searched for pairs */
    FLAGS = 10,
    NODE_BITS = 11,
    ARRAY_SIZE = 12,
    ARRAY = 16,
    NODES = 24,
    SIZE_IS_HINT = 0x80, /* 5.4: the array has room up to the next power of two */
    TAGS = 4             /* 5.5: behind the values, which grow downward */
};

/* The pairs of a Lua table of a target, in the order of `next`. */
typedef struct lua_table {
    const ssi_lua_layout *layout;
    uint64_t array, nodes;
    uint64_t at, array_size, node_count;
    bool is_damaged;
} lua_table;

static uint64_t next_power(uint64_t size)
{
    uint64_t power = 1;

    while (power < size)
        power *= 2;
    return power;
}

/* False if the table at ADDRESS cannot be read. */
static bool table_begin(lua_table *table, const ssi_lua_layout *layout, uint64_t address)
{
    uint8_t flags, bits;
    uint32_t size;

    *table = (lua_table){.layout = layout};
    if (!ssi_read(address + FLAGS, &flags, 1) || !ssi_read(address + NODE_BITS, &bits, 1) ||
        bits > 31 || !ssi_read(address + ARRAY_SIZE, &size, sizeof size) ||
        !ssi_read(address + ARRAY, &table->array, sizeof table->array) ||
        !ssi_read_word(address + NODES, &table->nodes))
        return false;
    table->array_size = flags & SIZE_IS_HINT && layout->minor == 4 ? next_power(size) : size;
    table->node_count = (uint64_t)1 << bits;
    return true;
}

static bool read_element(const lua_table *t, uint64_t at, ssi_lua_value *value)
{
    uint64_t place = t->array + at * SSI_LUA_VALUE;

    if (t->layout->array_of_tags)
        return ssi_lua_read_value(t->layout, t->array - (at + 1) * sizeof value->bits,
                                  t->array + TAGS + at, value);
    return ssi_lua_read_value(t->layout, place, place + SSI_LUA_VALUE_TAG, value);
}

static bool read_node(const lua_table *t, uint64_t at, ssi_lua_value *key, ssi_lua_value *value)
{
    uint64_t node = t->nodes + at * t->layout->node;

    return ssi_lua_read_value(t->layout, node, node + SSI_LUA_VALUE_TAG, value) &&
           ssi_lua_read_value(t->layout, node + t->layout->node_key, node + t->layout->node_key_tag,
                              key);
}

/* False after the last pair, and where no more can be read: then IS_DAMAGED. */
static bool table_next(lua_table *table, ssi_lua_value *key, ssi_lua_value *value)
{
    while (table->at < table->array_size + table->node_count) {
        uint64_t at = table->at++;
        bool is_read;

        if (at < table->array_size) {
            *key = (ssi_lua_value){SSI_LUA_TAG_INTEGER, at + 1};
            is_read = read_element(table, at, value);
        } else {
            is_read = read_node(table, at - table->array_size, key, value);
        }
        if (!is_read || at == MAX_PLACES) {
            table->is_damaged = true;
            return false;
        }
        if (value->tag & SSI_LUA_TYPE_BITS)
            return true;
    }
    return false;
}

/* ---- Values -----------------------------------------------------------------------------------*/

typedef struct reader {
    const ssi_lua_layout *layout;
    ss_value_text *to;
} reader;

static void put_value(const reader *r, ssi_lua_value value);

static bool is_string(ssi_lua_value value)
{
    int tag = value.tag & ~SSI_LUA_COLLECTED;

    return tag == SSI_LUA_TAG_SHORT || tag == SSI_LUA_TAG_LONG;
}

static bool put_string(const reader *r, uint64_t address)
{
    static char bytes[SSI_SHOWN_CHARACTERS];
    int64_t length = bytes_of(r->layout, address, bytes, sizeof bytes);

    if (length >= 0)
        ss_value_quoted(r->to, &ss_value_of_lua, bytes, (size_t)length, (uint64_t)length);
    return length >= 0;
}

/* Write what is in front of the value of KEY; returns it if it is a string that can be read. */
static const char *put_key(const reader *r, ssi_lua_value key)
{
    static char bytes[SSI_SHOWN_CHARACTERS + 1];
    int64_t length = is_string(key) ? bytes_of(r->layout, key.bits, bytes, sizeof bytes - 1) : -1;

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

static void put_pairs(const reader *r, lua_table *table)
{
    ssi_lua_value key, value;
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

static bool put_table(const reader *r, uint64_t address)
{
    lua_table table;

    if (!table_begin(&table, r->layout, address))
        return false;
    ss_value_begin(r->to, "{");
    put_pairs(r, &table);
    ss_value_end(r->to, "}");
    return true;
}

/* False if nothing was written. */
static bool put_plain(const reader *r, ssi_lua_value value)
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
        ss_value_lua_float(r->to, real);
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

static void put_value(const reader *r, ssi_lua_value value)
{
    /* By the number of the type. */
    static const char *const names[] = {"nil",   "boolean",  "userdata", "number", "string",
                                        "table", "function", "userdata", "thread"};
    size_t type = value.tag & SSI_LUA_TYPE_BITS;
    char object[64];

    if (put_plain(r, value))
        return;
    snprintf(object, sizeof object, "<%s: %#" PRIx64 ">",
             type < sizeof names / sizeof *names ? names[type] : "unreadable", value.bits);
    ss_value_put(r->to, object);
}

void ssi_lua_value_write(const ssi_lua_layout *layout, ssi_lua_value value, ssi_written *to)
{
    ss_value_text text;
    const reader r = {layout, &text};

    ss_value_text_init(&text, to->shows_secrets);
    put_value(&r, value);
    ssi_write_text(to, text.bytes, text.length);
}
