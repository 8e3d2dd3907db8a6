#include "python/objects.h"

#include "base/base.h"
#include "shared/utf8.h"

#include <string.h>

enum { MAX_BASES = 16 };

uint32_t ssi_object_head;

/* ---- Texts ------------------------------------------------------------------------------------*/

enum {
    KIND_SHIFT = 2, /* of the state: the bytes a character has */
    KIND_MASK = 7,
    COMPACT = 0x20,
    ASCII = 0x40
};

static size_t put_character(const unsigned char *characters, unsigned kind, size_t at, char *out)
{
    uint32_t c = 0;
    size_t length;

    memcpy(&c, characters + kind * at, kind);
    length = sspy_put_utf8(c, out);
    if (c >= 0xD800 && c < 0xE000) {
        out[0] = (char)0xED;
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
    }
    return length;
}

bool ssi_object_read_text(const sspy_layout *layout, uint64_t address, ssi_python_text *out)
{
    static unsigned char characters[4 * SSI_SHOWN_CHARACTERS];
    static char bytes[4 * SSI_SHOWN_CHARACTERS + 1];
    uint64_t count;
    uint32_t state;
    unsigned kind;

    if (!ssi_read_word(ssi_members(address) + SSPY_TEXT_LENGTH, &count) ||
        !ssi_read(ssi_members(address) + SSPY_TEXT_STATE, &state, sizeof state))
        return false;
    state >>= layout->text_shift;
    kind = state >> KIND_SHIFT & KIND_MASK;
    if (!(state & COMPACT) || (kind != 1 && kind != 2 && kind != 4) || count >> 40)
        return false;
    if (count > SSI_SHOWN_CHARACTERS)
        count = SSI_SHOWN_CHARACTERS;
    if (!ssi_read(ssi_members(address) +
                      (state & ASCII ? layout->text_ascii : layout->text_compact),
                  characters, (size_t)count * kind))
        return false;
    *out = (ssi_python_text){bytes, 0, (size_t)count};
    for (size_t i = 0; i < count; i++)
        out->length += put_character(characters, kind, i, bytes + out->length);
    bytes[out->length] = '\0';
    return true;
}

bool ssi_object_is(const sspy_layout *layout, uint64_t address, const char *text)
{
    ssi_python_text read;

    return ssi_object_read_text(layout, address, &read) && !strcmp(read.bytes, text);
}

const char *ssi_object_text(const sspy_layout *layout, uint64_t address)
{
    ssi_python_text text;

    return ssi_object_read_text(layout, address, &text) ? ssi_text(text.bytes, text.length) : NULL;
}

/* ---- Types ------------------------------------------------------------------------------------*/

enum {
    MADE_AT_RUN_TIME = 1 << 9, /* by a class statement, or by an extension */
    KNOWN = 256
};

typedef struct known_type {
    uint64_t address;
    ssi_kind kind;
    char name[SSI_TYPE_ROOM];
} known_type;

static const struct {
    const char *name;
    ssi_kind kind;
} builtin_kinds[] = {
    {"NoneType", KIND_NONE}, {"bool", KIND_BOOL},   {"int", KIND_INT},
    {"float", KIND_FLOAT},   {"str", KIND_STR},     {"bytes", KIND_BYTES},
    {"list", KIND_LIST},     {"tuple", KIND_TUPLE}, {"dict", KIND_DICT},
    {"set", KIND_SET},       {"cell", KIND_CELL},   {"frozenset", KIND_FROZENSET},
};

/* Up to its NUL, or cut. */
static void read_name(uint64_t address, char name[SSI_TYPE_ROOM])
{
    size_t i = 0;

    while (i < SSI_TYPE_ROOM - 1 && address && ssi_read(address + i, name + i, 1) && name[i])
        i++;
    name[i] = '\0';
}

static bool read_type(uint64_t type, known_type *out)
{
    uint64_t text, flags;

    if (!ssi_read_word(ssi_members(type) + SSPY_TYPE_NAME, &text) ||
        !ssi_read_word(ssi_members(type) + SSPY_TYPE_FLAGS, &flags))
        return false;
    *out = (known_type){.address = type};
    read_name(text, out->name);
    for (size_t i = 0;
         i < sizeof builtin_kinds / sizeof *builtin_kinds && !(flags & MADE_AT_RUN_TIME); i++)
        if (!strcmp(builtin_kinds[i].name, out->name))
            out->kind = builtin_kinds[i].kind;
    return true;
}

/* The type at ADDRESS, until another one is asked for; without a name if it cannot be read. */
static const known_type *type_at(uint64_t address)
{
    static known_type all[KNOWN]; /* most values are of few types */
    static const known_type unreadable;
    known_type *known = &all[address / 16 % KNOWN];

    return address && (known->address == address || read_type(address, known)) ? known
                                                                               : &unreadable;
}

static const known_type *type_of(uint64_t address)
{
    return type_at(address ? ssi_word(ssi_members(address) + SSPY_OBJECT_TYPE) : 0);
}

ssi_kind ssi_object_kind(uint64_t address)
{
    return type_of(address)->kind;
}

const char *ssi_object_type(uint64_t address)
{
    return type_of(address)->name;
}

bool ssi_object_is_a(uint64_t address, const char *name)
{
    uint64_t type = address ? ssi_word(ssi_members(address) + SSPY_OBJECT_TYPE) : 0;

    for (int i = 0; type && i < MAX_BASES; i++, type = ssi_word(ssi_members(type) + SSPY_TYPE_BASE))
        if (!strcmp(type_at(type)->name, name))
            return true;
    return false;
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

static bool begin_list(ssi_items *items, uint64_t address)
{
    items->stride = sizeof(uint64_t);
    items->count = items->size;
    return ssi_read(ssi_members(address) + LIST_ITEMS, &items->place, sizeof items->place);
}

static bool begin_tuple(ssi_items *items, const sspy_layout *layout, uint64_t address)
{
    items->stride = sizeof(uint64_t);
    items->count = items->size;
    items->place = ssi_members(address) + layout->tuple_items;
    return true;
}

static bool begin_set(ssi_items *items, uint64_t address)
{
    items->is_set = true;
    items->stride = 2 * sizeof(uint64_t); /* the item, its hash */
    if (!ssi_read_word(ssi_members(address) + SET_MASK, &items->count) ||
        !ssi_read_word(ssi_members(address) + SET_SIZE, &items->size))
        return false;
    items->count++;
    return ssi_read_word(ssi_members(address) + SET_TABLE, &items->place);
}

/* Dicts that share their keys have each a byte for each item, its place, in their own order. */
static bool find_order(ssi_items *items, uint32_t head)
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
static bool begin_entries(ssi_items *items, const sspy_layout *layout, uint64_t keys)
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

static bool begin_dict(ssi_items *items, const sspy_layout *layout, uint64_t address)
{
    uint64_t keys;

    return ssi_read_word(ssi_members(address) + DICT_KEYS, &keys) &&
           ssi_read_word(ssi_members(address) + DICT_VALUES, &items->values) &&
           begin_entries(items, layout, keys);
}

bool ssi_items_begin(ssi_items *items, const sspy_layout *layout, ssi_kind kind, uint64_t address)
{
    *items = (ssi_items){.size = 0};
    if (ssi_object_kind(address) != kind ||
        !ssi_read_word(ssi_members(address) + SSPY_VAR_SIZE, &items->size))
        return false;
    switch (kind) {
    case KIND_LIST:
        return begin_list(items, address);
    case KIND_TUPLE:
        return begin_tuple(items, layout, address);
    case KIND_DICT:
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
        !ssi_read_word(ssi_members(type) + SSPY_TYPE_INSTANCE_SIZE, &size) || size > MAX_INSTANCE)
        return 0;
    (void)ssi_read(object + size + VALUES_VALID, &valid, 1);
    return valid ? object + size : 0;
}

/* Begin the attributes of OBJECT, an instance of a class of Python; false if they cannot be read. */
static bool attributes_begin(ssi_items *items, const sspy_layout *layout, uint64_t object)
{
    uint64_t type, flags, keys, dict;

    *items = (ssi_items){.size = 0};
    if (!ssi_read_word(ssi_members(object) + SSPY_OBJECT_TYPE, &type) ||
        !ssi_read_word(ssi_members(type) + SSPY_TYPE_FLAGS, &flags) ||
        !(flags & SSPY_TYPE_MANAGED_DICT))
        return false;
    items->values = values_of(layout, type, flags, object);
    if (items->values)
        return ssi_read_word(ssi_members(type) + layout->type_keys, &keys) &&
               begin_entries(items, layout, keys);
    return ssi_read_word(object - (layout->is_free_threaded ? 8 : 24), &dict) &&
           begin_dict(items, layout, dict);
}

/* Read place number AT; *VALUE is 0 if it is free.  False if it cannot be read. */
static bool read_place(const ssi_items *items, uint64_t at, uint64_t *key, uint64_t *value)
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

bool ssi_items_next(ssi_items *items, uint64_t *key, uint64_t *value)
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

enum { INT_DIGITS = 24 };

/* ---- Numbers ----------------------------------------------------------------------------------*/

bool ssi_object_digits(const sspy_layout *layout, uint64_t address, uint32_t *digits,
                       uint64_t *count, bool *negative)
{
    uint64_t tag;

    if (!ssi_read_word(ssi_members(address) + SSPY_VAR_SIZE, &tag))
        return false;
    if (layout->int_tag) {
        *negative = (tag & 3) == 2;
        *count = tag >> 3;
    } else {
        *negative = (int64_t)tag < 0;
        *count = *negative ? -tag : tag;
    }
    return *count > SSI_MAX_DIGITS ||
           ssi_read(ssi_members(address) + INT_DIGITS, digits, (size_t)*count * sizeof *digits);
}

bool ssi_object_number(const sspy_layout *layout, uint64_t address, uint64_t *out)
{
    ssi_kind kind = ssi_object_kind(address);
    uint32_t digits[SSI_MAX_DIGITS] = {0};
    uint64_t count;
    bool negative;

    if ((kind != KIND_INT && kind != KIND_BOOL) ||
        !ssi_object_digits(layout, address, digits, &count, &negative) || count > 2 || negative)
        return false;
    *out = digits[0] + ((uint64_t)digits[1] << SSI_DIGIT_BITS);
    return true;
}

/* ---- Names ------------------------------------------------------------------------------------*/

enum { MAX_NAME = 255 /* characters */, MAX_ATTRIBUTES = 1 << 10 };

const char *ssi_object_name(const sspy_layout *layout, uint64_t address)
{
    ssi_python_text text;

    return ssi_object_kind(address) == KIND_STR && ssi_object_read_text(layout, address, &text) &&
                   text.count <= MAX_NAME
               ? ssi_text(text.bytes, text.length)
               : NULL;
}

static uint64_t find(ssi_items *items, const sspy_layout *layout, const char *name)
{
    uint64_t key, value;

    while (ssi_items_next(items, &key, &value))
        if (ssi_object_is(layout, key, name))
            return value;
    return 0;
}

uint64_t ssi_dict_find(const sspy_layout *layout, uint64_t address, const char *name)
{
    ssi_items items;

    return ssi_items_begin(&items, layout, KIND_DICT, address) ? find(&items, layout, name) : 0;
}

uint64_t ssi_object_attribute(const sspy_layout *layout, uint64_t object, const char *name)
{
    ssi_items items;

    if (!attributes_begin(&items, layout, object))
        return 0;
    if (items.count > MAX_ATTRIBUTES)
        items.count = MAX_ATTRIBUTES;
    return find(&items, layout, name);
}

uint64_t ssi_module_members(const sspy_layout *layout, uint64_t interpreter, const char *name)
{
    uint64_t modules = ssi_word(interpreter + layout->interpreter_modules);
    uint64_t module = ssi_dict_find(layout, modules, name);

    return module ? ssi_word(ssi_members(module) + SSPY_MODULE_DICT) : 0;
}
