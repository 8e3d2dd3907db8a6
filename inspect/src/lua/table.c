#include "lua/table.h"

#include "lua/layout.h"

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

static uint64_t next_power(uint64_t size)
{
    uint64_t power = 1;

    while (power < size)
        power *= 2;
    return power;
}

bool ssi_lua_table_begin(ssi_lua_table *table, const ssi_memory *memory,
                         const ssi_lua_layout *layout, uint64_t address)
{
    uint8_t flags, bits;
    uint32_t size;

    *table = (ssi_lua_table){.memory = memory, .layout = layout};
    if (!ssi_read(memory, address + FLAGS, &flags, 1) ||
        !ssi_read(memory, address + NODE_BITS, &bits, 1) || bits > 31 ||
        !ssi_read(memory, address + ARRAY_SIZE, &size, sizeof size) ||
        !ssi_read(memory, address + ARRAY, &table->array, sizeof table->array) ||
        !ssi_read_word(memory, address + NODES, &table->nodes))
        return false;
    table->array_size = flags & SIZE_IS_HINT && layout->minor == 4 ? next_power(size) : size;
    table->node_count = (uint64_t)1 << bits;
    return true;
}

static bool read_element(const ssi_lua_table *t, uint64_t at, ssi_lua_value *value)
{
    uint64_t place = t->array + at * SSI_LUA_VALUE;

    if (t->layout->array_of_tags)
        return ssi_lua_read_value(t->memory, t->layout, t->array - (at + 1) * sizeof value->bits,
                                  t->array + TAGS + at, value);
    return ssi_lua_read_value(t->memory, t->layout, place, place + SSI_LUA_VALUE_TAG, value);
}

static bool read_node(const ssi_lua_table *t, uint64_t at, ssi_lua_value *key, ssi_lua_value *value)
{
    uint64_t node = t->nodes + at * t->layout->node;

    return ssi_lua_read_value(t->memory, t->layout, node, node + SSI_LUA_VALUE_TAG, value) &&
           ssi_lua_read_value(t->memory, t->layout, node + t->layout->node_key,
                              node + t->layout->node_key_tag, key);
}

bool ssi_lua_table_next(ssi_lua_table *table, ssi_lua_value *key, ssi_lua_value *value)
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
