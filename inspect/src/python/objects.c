#include "python/private.h"

#include "base/base.h"
#include "shared/utf8.h"
#include "python/python.h"

#include <string.h>

/* ---- Texts ------------------------------------------------------------------------------------*/

enum {
    KIND_SHIFT = 2, /* of the state: the bytes a character has */
    KIND_MASK = 7,
    COMPACT = 0x20,
    ASCII = 0x40
};

uint32_t ssi_python_character(const ssi_python_characters *of, size_t at)
{
    uint16_t two;
    uint32_t four;

    if (of->kind == 1)
        return of->bytes[at];
    if (of->kind == 2) {
        memcpy(&two, of->bytes + 2 * at, sizeof two);
        return two;
    }
    memcpy(&four, of->bytes + 4 * at, sizeof four);
    return four;
}

void ssi_python_write_characters(const ssi_python_characters *text, ssi_written *to)
{
    ssi_write(to, "\"");
    for (size_t i = 0; i < text->count; i++)
        ssi_write_character(to, ssi_python_character(text, i));
    ssi_write(to, "\"");
}

bool ssi_python_characters_of(const sspy_layout *layout, uint64_t address,
                              ssi_python_characters *out)
{
    static unsigned char bytes[4 * SSI_SHOWN_CHARACTERS];
    uint64_t length;
    uint32_t state;
    unsigned kind;

    if (!ssi_read_word(address + SSPY_TEXT_LENGTH, &length) ||
        !ssi_read(address + SSPY_TEXT_STATE, &state, sizeof state))
        return false;
    kind = state >> KIND_SHIFT & KIND_MASK;
    if (!(state & COMPACT) || (kind != 1 && kind != 2 && kind != 4) || length >> 40)
        return false;
    if (length > SSI_SHOWN_CHARACTERS)
        length = SSI_SHOWN_CHARACTERS;
    *out = (ssi_python_characters){bytes, kind, (size_t)length};
    return ssi_read(address + (state & ASCII ? layout->text_ascii : layout->text_compact), bytes,
                    (size_t)length * kind);
}

bool ssi_python_text_is(const sspy_layout *layout, uint64_t address, const char *text)
{
    char bytes[32];
    uint64_t length;
    uint32_t state;

    return ssi_read_word(address + SSPY_TEXT_LENGTH, &length) && length == strlen(text) &&
           length <= sizeof bytes && ssi_read(address + SSPY_TEXT_STATE, &state, sizeof state) &&
           (state & ASCII) && ssi_read(address + layout->text_ascii, bytes, (size_t)length) &&
           !memcmp(bytes, text, (size_t)length);
}

const char *ssi_python_text(const sspy_layout *layout, uint64_t address)
{
    static char out[4 * SSI_SHOWN_CHARACTERS];
    ssi_python_characters characters;
    size_t used = 0;

    if (!ssi_python_characters_of(layout, address, &characters))
        return NULL;
    for (size_t i = 0; i < characters.count; i++)
        used += sspy_put_utf8(ssi_python_character(&characters, i), out + used);
    return ssi_text(out, used);
}

/* ---- Types ------------------------------------------------------------------------------------*/

enum {
    MADE_AT_RUN_TIME = 1 << 9, /* by a class statement, or by an extension */
    KNOWN = 256
};

typedef struct known_type {
    uint64_t address;
    ssi_python_kind kind;
    char name[SSI_PYTHON_TYPE_ROOM];
} known_type;

static const struct {
    const char *name;
    ssi_python_kind kind;
} kinds[] = {
    {"NoneType", SSI_PYTHON_NONE}, {"bool", SSI_PYTHON_BOOL},   {"int", SSI_PYTHON_INT},
    {"float", SSI_PYTHON_FLOAT},   {"str", SSI_PYTHON_STR},     {"bytes", SSI_PYTHON_BYTES},
    {"list", SSI_PYTHON_LIST},     {"tuple", SSI_PYTHON_TUPLE}, {"dict", SSI_PYTHON_DICT},
    {"set", SSI_PYTHON_SET},       {"cell", SSI_PYTHON_CELL},   {"frozenset", SSI_PYTHON_FROZENSET},
};

/* Up to its NUL, or cut. */
static void read_name(uint64_t address, char name[SSI_PYTHON_TYPE_ROOM])
{
    size_t i = 0;

    while (i < SSI_PYTHON_TYPE_ROOM - 1 && address && ssi_read(address + i, name + i, 1) && name[i])
        i++;
    name[i] = '\0';
}

static bool read_type(uint64_t type, known_type *out)
{
    uint64_t text, flags;

    if (!ssi_read_word(type + SSPY_TYPE_NAME, &text) ||
        !ssi_read_word(type + SSPY_TYPE_FLAGS, &flags))
        return false;
    *out = (known_type){.address = type};
    read_name(text, out->name);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !(flags & MADE_AT_RUN_TIME); i++)
        if (!strcmp(kinds[i].name, out->name))
            out->kind = kinds[i].kind;
    return true;
}

ssi_python_kind ssi_python_kind_of(uint64_t address, char name[SSI_PYTHON_TYPE_ROOM])
{
    static known_type all[KNOWN]; /* most values are of few types */
    known_type *known;
    uint64_t type;

    *name = '\0';
    if (!address || !ssi_read_word(address + SSPY_OBJECT_TYPE, &type))
        return SSI_PYTHON_OTHER;
    known = &all[type / 16 % KNOWN];
    if (known->address != type && !read_type(type, known))
        return SSI_PYTHON_OTHER;
    memcpy(name, known->name, SSI_PYTHON_TYPE_ROOM);
    return known->kind;
}

/* ---- Items of containers ----------------------------------------------------------------------*/

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
    return ssi_read(address + LIST_ITEMS, &items->place, sizeof items->place);
}

static bool begin_tuple(ssi_python_items *items, const sspy_layout *layout, uint64_t address)
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
    if (!ssi_read_word(address + SET_MASK, &items->count) ||
        !ssi_read_word(address + SET_SIZE, &items->size))
        return false;
    items->count++;
    return ssi_read_word(address + SET_TABLE, &items->place);
}

/* Dicts that share their keys have each a byte for each item, its place, in their own order. */
static bool find_order(ssi_python_items *items, uint32_t head)
{
    uint8_t counts[2]; /* of all places, of items */

    if (head) {
        if (!ssi_read(items->values, counts, sizeof counts))
            return false;
        items->order = items->values + head + sizeof(uint64_t) * counts[0];
        items->order_step = 1;
        items->values += head;
    } else {
        if (!ssi_read(items->values - 2, counts + 1, 1))
            return false;
        items->order = items->values - 3;
        items->order_step = UINT64_MAX; /* downward */
    }
    items->count = counts[1];
    return true;
}

/* An entry is a key and a value, with the key's hash before them where keys are of any type. */
static bool begin_entries(ssi_python_items *items, const sspy_layout *layout, uint64_t keys)
{
    uint8_t bits, kind;

    if (!ssi_read(keys + KEYS_INDEX_BITS, &bits, 1) || !ssi_read(keys + KEYS_KIND, &kind, 1) ||
        !ssi_read_word(keys + KEYS_COUNT, &items->count) || bits > 40)
        return false;
    items->place = keys + KEYS_INDEX + ((uint64_t)1 << bits);
    items->key = kind == ANY_KEYS ? 8 : 0;
    items->value = items->key + 8;
    items->stride = items->value + 8;
    return !items->values || find_order(items, layout->dict_values);
}

static bool begin_dict(ssi_python_items *items, const sspy_layout *layout, uint64_t address)
{
    uint64_t keys;

    return ssi_read_word(address + DICT_KEYS, &keys) &&
           ssi_read_word(address + DICT_VALUES, &items->values) &&
           begin_entries(items, layout, keys);
}

bool ssi_python_items_begin(ssi_python_items *items, const sspy_layout *layout,
                            ssi_python_kind kind, uint64_t address)
{
    *items = (ssi_python_items){.size = 0};
    if (!ssi_read_word(address + SSPY_VAR_SIZE, &items->size))
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
static uint64_t values_of(const sspy_layout *layout, uint64_t type, uint64_t flags, uint64_t object)
{
    uint64_t place = 0, size = 0;
    uint8_t valid = 0;

    if (layout->minor == 11)
        return ssi_read_word(object - 32, &place) ? place : 0;
    if (layout->minor == 12)
        return ssi_read_word(object - 24, &place) && (place & 1) ? place + 1 : 0;
    if (!(flags & SSPY_TYPE_INLINE_VALUES) ||
        !ssi_read_word(type + SSPY_TYPE_INSTANCE_SIZE, &size) || size > MAX_INSTANCE)
        return 0;
    (void)ssi_read(object + size + VALUES_VALID, &valid, 1);
    return valid ? object + size : 0;
}

bool ssi_python_attributes_begin(ssi_python_items *items, const sspy_layout *layout,
                                 uint64_t object)
{
    uint64_t type, flags, keys, dict;

    *items = (ssi_python_items){.size = 0};
    if (!ssi_read_word(object + SSPY_OBJECT_TYPE, &type) ||
        !ssi_read_word(type + SSPY_TYPE_FLAGS, &flags) || !(flags & SSPY_TYPE_MANAGED_DICT))
        return false;
    items->values = values_of(layout, type, flags, object);
    if (items->values)
        return ssi_read_word(type + layout->type_keys, &keys) && begin_entries(items, layout, keys);
    return ssi_read_word(object - 24, &dict) && begin_dict(items, layout, dict);
}

/* Read place number AT; *VALUE is 0 if it is free.  False if it cannot be read. */
static bool read_place(const ssi_python_items *items, uint64_t at, uint64_t *key, uint64_t *value)
{
    uint64_t hash = 0, place;
    uint8_t shared;

    if (items->values) {
        if (!ssi_read(items->order + items->order_step * at, &shared, 1))
            return false;
        at = shared;
    }
    place = items->place + items->stride * at;
    if (items->value && !ssi_read_word(place + items->key, key))
        return false;
    if (items->is_set && !ssi_read_word(place + 8, &hash))
        return false;
    if (items->values)
        return ssi_read_word(items->values + sizeof *value * at, value);
    if (!ssi_read_word(place + items->value, value))
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
