#include "python/items.h"

enum {
    MAX_PLACES = 1 << 16, /* that are searched for items */
    LIST_ITEMS = 24,
    SET_SIZE = 24,
    SET_MASK = 32,
    SET_TABLE = 40,
    DICT_KEYS = 32,
    DICT_VALUES = 40,
    KEYS_INDEX_BITS = 9, /* the logarithm of the bytes before the entries */
    KEYS_KIND = 10,
    KEYS_COUNT = 24,
    KEYS_INDEX = 32,
    ANY_KEYS = 0,     /* a kind: not all of them are texts */
    VALUES_VALID = 3, /* a byte of values inside of their object: no dict has taken them over */
    MAX_INSTANCE = 1 << 20
};

static bool begin_list(ssi_python_items *items, uint64_t address)
{
    items->stride = sizeof(uint64_t);
    items->count = items->size;
    return ssi_read(items->memory, address + LIST_ITEMS, &items->place, sizeof items->place);
}

static bool begin_tuple(ssi_python_items *items, const ssi_python_layout *layout, uint64_t address)
{
    items->stride = sizeof(uint64_t);
    items->count = items->size;
    items->place = address + layout->tuple_items;
    return true;
}

static bool begin_set(ssi_python_items *items, uint64_t address)
{
    items->is_set = true;
    items->stride = 2 * sizeof(uint64_t); /* the item, its hash */
    if (!ssi_read_word(items->memory, address + SET_MASK, &items->count) ||
        !ssi_read_word(items->memory, address + SET_SIZE, &items->size))
        return false;
    items->count++;
    return ssi_read_word(items->memory, address + SET_TABLE, &items->place);
}

/* Dicts that share their keys have each a byte for each item, its place, in their own order. */
static bool find_order(ssi_python_items *items, uint32_t head)
{
    uint8_t counts[2]; /* of all places, of items */

    if (head) {
        if (!ssi_read(items->memory, items->values, counts, sizeof counts))
            return false;
        items->order = items->values + head + sizeof(uint64_t) * counts[0];
        items->order_step = 1;
        items->values += head;
    } else {
        if (!ssi_read(items->memory, items->values - 2, counts + 1, 1))
            return false;
        items->order = items->values - 3;
        items->order_step = UINT64_MAX; /* downward */
    }
    items->count = counts[1];
    return true;
}

/* An entry is a key and a value, with the key's hash before them where keys are of any type. */
static bool begin_entries(ssi_python_items *items, const ssi_python_layout *layout, uint64_t keys)
{
    uint8_t bits, kind;

    if (!ssi_read(items->memory, keys + KEYS_INDEX_BITS, &bits, 1) ||
        !ssi_read(items->memory, keys + KEYS_KIND, &kind, 1) ||
        !ssi_read_word(items->memory, keys + KEYS_COUNT, &items->count) || bits > 40)
        return false;
    items->place = keys + KEYS_INDEX + ((uint64_t)1 << bits);
    items->key = kind == ANY_KEYS ? 8 : 0;
    items->value = items->key + 8;
    items->stride = items->value + 8;
    return !items->values || find_order(items, layout->dict_values);
}

static bool begin_dict(ssi_python_items *items, const ssi_python_layout *layout, uint64_t address)
{
    uint64_t keys;

    return ssi_read_word(items->memory, address + DICT_KEYS, &keys) &&
           ssi_read_word(items->memory, address + DICT_VALUES, &items->values) &&
           begin_entries(items, layout, keys);
}

bool ssi_python_items_begin(ssi_python_items *items, const ssi_memory *memory,
                            const ssi_python_layout *layout, ssi_python_kind kind, uint64_t address)
{
    *items = (ssi_python_items){.memory = memory};
    if (!ssi_read_word(memory, address + SSI_VAR_SIZE, &items->size))
        return false;
    switch (kind) {
    case SSI_PYTHON_LIST:
        return begin_list(items, address);
    case SSI_PYTHON_TUPLE:
        return begin_tuple(items, layout, address);
    case SSI_PYTHON_DICT:
        return begin_dict(items, layout, address);
    default:
        return begin_set(items, address);
    }
}

/* Where OBJECT has its values: in 3.11 and 3.12 a pointer before it says so, marked in 3.12 as one
   that is no dict's; later they are behind its members.  0: a dict has them, or it has none. */
static uint64_t values_of(const ssi_memory *memory, const ssi_python_layout *layout, uint64_t type,
                          uint64_t flags, uint64_t object)
{
    uint64_t place = 0, size = 0;
    uint8_t valid = 0;

    if (layout->minor == 11)
        return ssi_read_word(memory, object - 32, &place) ? place : 0;
    if (layout->minor == 12)
        return ssi_read_word(memory, object - 24, &place) && (place & 1) ? place + 1 : 0;
    if (!(flags & SSI_TYPE_INLINE_VALUES) ||
        !ssi_read_word(memory, type + SSI_TYPE_INSTANCE_SIZE, &size) || size > MAX_INSTANCE)
        return 0;
    (void)ssi_read(memory, object + size + VALUES_VALID, &valid, 1);
    return valid ? object + size : 0;
}

bool ssi_python_attributes_begin(ssi_python_items *items, const ssi_memory *memory,
                                 const ssi_python_layout *layout, uint64_t object)
{
    uint64_t type, flags, keys, dict;

    *items = (ssi_python_items){.memory = memory};
    if (!ssi_read_word(memory, object + SSI_OBJECT_TYPE, &type) ||
        !ssi_read_word(memory, type + SSI_TYPE_FLAGS, &flags) || !(flags & SSI_TYPE_MANAGED_DICT))
        return false;
    items->values = values_of(memory, layout, type, flags, object);
    if (items->values)
        return ssi_read_word(memory, type + layout->type_keys, &keys) &&
               begin_entries(items, layout, keys);
    return ssi_read_word(memory, object - 24, &dict) && begin_dict(items, layout, dict);
}

/* Read place number AT; *VALUE is 0 if it is free.  False if it cannot be read. */
static bool read_place(const ssi_python_items *items, uint64_t at, uint64_t *key, uint64_t *value)
{
    uint64_t hash = 0, place;
    uint8_t shared;

    if (items->values) {
        if (!ssi_read(items->memory, items->order + items->order_step * at, &shared, 1))
            return false;
        at = shared;
    }
    place = items->place + items->stride * at;
    if (items->value && !ssi_read_word(items->memory, place + items->key, key))
        return false;
    if (items->is_set && !ssi_read_word(items->memory, place + 8, &hash))
        return false;
    if (items->values)
        return ssi_read_word(items->memory, items->values + sizeof *value * at, value);
    if (!ssi_read_word(items->memory, place + items->value, value))
        return false;
    if (hash == UINT64_MAX) /* an item was here */
        *value = 0;
    return true;
}

bool ssi_python_items_next(ssi_python_items *items, uint64_t *key, uint64_t *value)
{
    *key = 0;
    while (items->at < items->count) {
        if (items->at == MAX_PLACES || !read_place(items, items->at++, key, value)) {
            items->is_damaged = true;
            return false;
        }
        if (*value)
            return true;
    }
    return false;
}
