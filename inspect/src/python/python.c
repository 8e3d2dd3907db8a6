#include "python/python.h"

#include "base/base.h"
#include "shared/utf8.h"
#include "shared/value_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which of the builtin types a value of a target has. */
typedef enum python_kind {
    KIND_OTHER, /* also values of subclasses */
    KIND_NONE,
    KIND_BOOL,
    KIND_INT,
    KIND_FLOAT,
    KIND_STR,
    KIND_BYTES,
    KIND_LIST,
    KIND_TUPLE,
    KIND_DICT,
    KIND_SET,
    KIND_FROZENSET,
    KIND_CELL
} python_kind;

enum { TYPE_ROOM = 101 };

/* ---- Texts ------------------------------------------------------------------------------------*/

enum {
    KIND_SHIFT = 2, /* of the state: the bytes a character has */
    KIND_MASK = 7,
    COMPACT = 0x20,
    ASCII = 0x40
};

/* The beginning of a str in UTF-8, with a NUL, until the next one is read.  Half of a pair stays one. */
typedef struct python_text {
    const char *bytes;
    size_t length, count; /* of bytes, of characters */
} python_text;

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

/* False if there is no str at ADDRESS. */
static bool read_text(const sspy_layout *layout, uint64_t address, python_text *out)
{
    static unsigned char characters[4 * SSI_SHOWN_CHARACTERS];
    static char bytes[4 * SSI_SHOWN_CHARACTERS + 1];
    uint64_t count;
    uint32_t state;
    unsigned kind;

    if (!ssi_read_word(address + SSPY_TEXT_LENGTH, &count) ||
        !ssi_read(address + SSPY_TEXT_STATE, &state, sizeof state))
        return false;
    kind = state >> KIND_SHIFT & KIND_MASK;
    if (!(state & COMPACT) || (kind != 1 && kind != 2 && kind != 4) || count >> 40)
        return false;
    if (count > SSI_SHOWN_CHARACTERS)
        count = SSI_SHOWN_CHARACTERS;
    if (!ssi_read(address + (state & ASCII ? layout->text_ascii : layout->text_compact), characters,
                  (size_t)count * kind))
        return false;
    *out = (python_text){bytes, 0, (size_t)count};
    for (size_t i = 0; i < count; i++)
        out->length += put_character(characters, kind, i, bytes + out->length);
    bytes[out->length] = '\0';
    return true;
}

/* Whether the str at ADDRESS is TEXT. */
static bool text_is(const sspy_layout *layout, uint64_t address, const char *text)
{
    python_text read;

    return read_text(layout, address, &read) && !strcmp(read.bytes, text);
}

/* The text of the str at ADDRESS; NULL if it is none, or without memory. */
static const char *text_of(const sspy_layout *layout, uint64_t address)
{
    python_text text;

    return read_text(layout, address, &text) ? ssi_text(text.bytes, text.length) : NULL;
}

/* ---- Types ------------------------------------------------------------------------------------*/

enum {
    MADE_AT_RUN_TIME = 1 << 9, /* by a class statement, or by an extension */
    KNOWN = 256
};

typedef struct known_type {
    uint64_t address;
    python_kind kind;
    char name[TYPE_ROOM];
} known_type;

static const struct {
    const char *name;
    python_kind kind;
} builtin_kinds[] = {
    {"NoneType", KIND_NONE}, {"bool", KIND_BOOL},   {"int", KIND_INT},
    {"float", KIND_FLOAT},   {"str", KIND_STR},     {"bytes", KIND_BYTES},
    {"list", KIND_LIST},     {"tuple", KIND_TUPLE}, {"dict", KIND_DICT},
    {"set", KIND_SET},       {"cell", KIND_CELL},   {"frozenset", KIND_FROZENSET},
};

/* Up to its NUL, or cut. */
static void read_name(uint64_t address, char name[TYPE_ROOM])
{
    size_t i = 0;

    while (i < TYPE_ROOM - 1 && address && ssi_read(address + i, name + i, 1) && name[i])
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
    for (size_t i = 0;
         i < sizeof builtin_kinds / sizeof *builtin_kinds && !(flags & MADE_AT_RUN_TIME); i++)
        if (!strcmp(builtin_kinds[i].name, out->name))
            out->kind = builtin_kinds[i].kind;
    return true;
}

/* The type of the value at ADDRESS, until another value is asked for; without a name if it cannot be
   read. */
static const known_type *type_of(uint64_t address)
{
    static known_type all[KNOWN]; /* most values are of few types */
    static const known_type unreadable;
    known_type *known;
    uint64_t type;

    if (!address || !ssi_read_word(address + SSPY_OBJECT_TYPE, &type))
        return &unreadable;
    known = &all[type / 16 % KNOWN];
    return known->address == type || read_type(type, known) ? known : &unreadable;
}

static python_kind kind_of(uint64_t address)
{
    return type_of(address)->kind;
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

/* The items of a list, tuple, dict or set, or an object's attributes, one after the other. */
typedef struct items_reader {
    uint64_t size;      /* as the container itself says */
    uint64_t at, count; /* of places, of which some may be free */
    uint64_t place, stride;
    uint32_t key, value;        /* in a place */
    uint64_t values;            /* of a dict that shares its keys; else 0 */
    uint64_t order, order_step; /* of such a dict */
    bool is_set, is_damaged;
} items_reader;

static bool begin_list(items_reader *items, uint64_t address)
{
    items->stride = sizeof(uint64_t);
    items->count = items->size;
    return ssi_read(address + LIST_ITEMS, &items->place, sizeof items->place);
}

static bool begin_tuple(items_reader *items, const sspy_layout *layout, uint64_t address)
{
    items->stride = sizeof(uint64_t);
    items->count = items->size;
    items->place = address + layout->tuple_items;
    return true;
}

static bool begin_set(items_reader *items, uint64_t address)
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
static bool find_order(items_reader *items, uint32_t head)
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
static bool begin_entries(items_reader *items, const sspy_layout *layout, uint64_t keys)
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

static bool begin_dict(items_reader *items, const sspy_layout *layout, uint64_t address)
{
    uint64_t keys;

    return ssi_read_word(address + DICT_KEYS, &keys) &&
           ssi_read_word(address + DICT_VALUES, &items->values) &&
           begin_entries(items, layout, keys);
}

/* False if the container at ADDRESS cannot be read. */
static bool items_begin(items_reader *items, const sspy_layout *layout, python_kind kind,
                        uint64_t address)
{
    *items = (items_reader){.size = 0};
    if (!ssi_read_word(address + SSPY_VAR_SIZE, &items->size))
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
        !ssi_read_word(type + SSPY_TYPE_INSTANCE_SIZE, &size) || size > MAX_INSTANCE)
        return 0;
    (void)ssi_read(object + size + VALUES_VALID, &valid, 1);
    return valid ? object + size : 0;
}

/* Begin the attributes of OBJECT, an instance of a class of Python; false if they cannot be read. */
static bool attributes_begin(items_reader *items, const sspy_layout *layout, uint64_t object)
{
    uint64_t type, flags, keys, dict;

    *items = (items_reader){.size = 0};
    if (!ssi_read_word(object + SSPY_OBJECT_TYPE, &type) ||
        !ssi_read_word(type + SSPY_TYPE_FLAGS, &flags) || !(flags & SSPY_TYPE_MANAGED_DICT))
        return false;
    items->values = values_of(layout, type, flags, object);
    if (items->values)
        return ssi_read_word(type + layout->type_keys, &keys) && begin_entries(items, layout, keys);
    return ssi_read_word(object - 24, &dict) && begin_dict(items, layout, dict);
}

/* Read place number AT; *VALUE is 0 if it is free.  False if it cannot be read. */
static bool read_place(const items_reader *items, uint64_t at, uint64_t *key, uint64_t *value)
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

/* The next item; *KEY is that of a dict, else 0.  False after the last one, and where no more can
   be read: then IS_DAMAGED. */
static bool items_next(items_reader *items, uint64_t *key, uint64_t *value)
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

enum {
    DIGIT_BITS = 30,
    MAX_DIGITS = 12,    /* larger numbers are not shown */
    MAX_DECIMALS = 100, /* nor is one with more */
    INT_DIGITS = 24,
    FLOAT_VALUE = 16
};

typedef struct value_reader {
    const sspy_layout *layout;
    ss_value_text *to;
} value_reader;

/* ---- Numbers ----------------------------------------------------------------------------------*/

/* The digits of the int at ADDRESS; false if it cannot be read. */
static bool read_digits(const sspy_layout *layout, uint64_t address, uint32_t *digits,
                        uint64_t *count, bool *negative)
{
    uint64_t tag;

    if (!ssi_read_word(address + SSPY_VAR_SIZE, &tag))
        return false;
    if (layout->int_tag) {
        *negative = (tag & 3) == 2;
        *count = tag >> 3;
    } else {
        *negative = (int64_t)tag < 0;
        *count = *negative ? -tag : tag;
    }
    return *count > MAX_DIGITS ||
           ssi_read(address + INT_DIGITS, digits, (size_t)*count * sizeof *digits);
}

/* The int at ADDRESS, if it is one of at most 60 bits and not negative. */
static bool number_of(const sspy_layout *layout, uint64_t address, uint64_t *out)
{
    uint32_t digits[MAX_DIGITS] = {0};
    uint64_t count;
    bool negative;

    if (!read_digits(layout, address, digits, &count, &negative) || count > 2 || negative)
        return false;
    *out = digits[0] + ((uint64_t)digits[1] << DIGIT_BITS);
    return true;
}

/* Divide the number of COUNT digits by ten; returns the rest. */
static unsigned divide(uint32_t *digits, size_t count)
{
    uint64_t rest = 0;

    while (count--) {
        rest = rest << DIGIT_BITS | (digits[count] & ((1u << DIGIT_BITS) - 1));
        digits[count] = (uint32_t)(rest / 10);
        rest %= 10;
    }
    return (unsigned)rest;
}

static bool put_int(const value_reader *r, uint64_t address)
{
    uint32_t digits[MAX_DIGITS] = {0};
    char text[MAX_DECIMALS + 1], *at = text + sizeof text;
    uint64_t count;
    bool negative;

    if (!read_digits(r->layout, address, digits, &count, &negative))
        return false;
    if (count <= MAX_DIGITS) {
        do {
            *--at = (char)('0' + divide(digits, (size_t)count));
            while (count && !digits[count - 1])
                count--;
        } while (count && at > text);
    }
    if (count || at == text) {
        ss_value_put(r->to, "<int, very large>");
        return true;
    }
    ss_value_put(r->to, negative ? "-" : "");
    ss_value_put_bytes(r->to, at, (size_t)(text + sizeof text - at));
    return true;
}

static bool put_bool(const value_reader *r, uint64_t address)
{
    uint64_t number;

    if (!number_of(r->layout, address, &number))
        return false;
    ss_value_put(r->to, number ? "True" : "False");
    return true;
}

/* As few digits as tell it from all other numbers, with an exponent where Python has one. */
static bool put_float(const value_reader *r, uint64_t address)
{
    char text[40];
    int digits = 1, exponent;
    double value;

    if (!ssi_read(address + FLOAT_VALUE, &value, sizeof value))
        return false;
    if (!isfinite(value)) {
        ss_value_put(r->to, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return true;
    }
    do {
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
    } while (strtod(text, NULL) != value && digits++ < 17);
    exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    if (exponent >= -4 && exponent < 16)
        snprintf(text, sizeof text, "%.*f", digits - 1 > exponent ? digits - 1 - exponent : 1,
                 value);
    ss_value_put(r->to, text);
    return true;
}

/* ---- Texts ------------------------------------------------------------------------------------*/

/* What Python does not print: controls, marks of direction, blanks, private characters.  Python
   also knows the characters that its version of Unicode has not. */
static bool is_printable(uint32_t c)
{
    static const uint32_t others[][2] = {
        {0x80, 0xA0},     {0xAD, 0xAD},          {0x61C, 0x61C},   {0x1680, 0x1680},
        {0x180E, 0x180E}, {0x2000, 0x200F},      {0x2028, 0x202F}, {0x205F, 0x206F},
        {0x3000, 0x3000}, {0xD800, 0xF8FF},      {0xFEFF, 0xFEFF}, {0xFFF0, 0xFFFB},
        {0xFFFE, 0xFFFF}, {0xE0000, UINT32_MAX},
    };

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (c >= others[i][0] && c <= others[i][1])
            return false;
    return true;
}

static size_t escape(uint32_t c, char out[SS_VALUE_ESCAPED])
{
    return c >= 0x80 && is_printable(c) ? 0 : ss_value_python_escape(c, out);
}

static const ss_value_quoting quoting = {
    .before = "", .quote = '\'', .other = '"', .escape = escape};

static bool put_str(const value_reader *r, uint64_t address)
{
    python_text text;
    bool is_read = read_text(r->layout, address, &text);

    if (is_read)
        ss_value_quoted(r->to, &quoting, text.bytes, text.length, text.count);
    return is_read;
}

static bool put_bytes(const value_reader *r, uint64_t address)
{
    static char bytes[SSI_SHOWN_CHARACTERS];
    uint64_t size;
    size_t shown;

    if (!ssi_read_word(address + SSPY_VAR_SIZE, &size))
        return false;
    shown = size < sizeof bytes ? (size_t)size : sizeof bytes;
    if (!ssi_read(address + SSPY_BYTES_DATA, bytes, shown))
        return false;
    ss_value_quoted(r->to, &ss_value_of_python_bytes, bytes, shown, size);
    return true;
}

/* ---- Containers -------------------------------------------------------------------------------*/

static void put_value(const value_reader *r, uint64_t address);

/* Whether KEY is a name that says that its value is a secret: then that is written. */
static bool put_secret(const value_reader *r, uint64_t key)
{
    python_text name;

    return kind_of(key) == KIND_STR && read_text(r->layout, key, &name) &&
           ss_value_secret(r->to, name.bytes, "'");
}

static void put_items(const value_reader *r, items_reader *items, bool is_dict)
{
    uint64_t key, value;

    while (items_next(items, &key, &value)) {
        if (!ss_value_item(r->to))
            return;
        if (is_dict) {
            put_value(r, key);
            ss_value_put(r->to, ": ");
        }
        if (!is_dict || !put_secret(r, key))
            put_value(r, value);
        if (!ss_value_fits(r->to))
            return;
    }
    if (items->is_damaged)
        ss_value_leave_out(r->to);
}

static bool put_container(const value_reader *r, python_kind kind, uint64_t address)
{
    static const char *const ends[][2] = {
        [KIND_LIST] = {"[", "]"},
        [KIND_TUPLE] = {"(", ")"},
        [KIND_DICT] = {"{", "}"},
        [KIND_SET] = {"{", "}"},
        [KIND_FROZENSET] = {"frozenset({", "})"},
    };
    bool is_frozen = kind == KIND_FROZENSET;
    items_reader items;

    if (!items_begin(&items, r->layout, kind, address))
        return false;
    if (!items.size && (is_frozen || kind == KIND_SET)) {
        ss_value_put(r->to, is_frozen ? "frozenset()" : "set()");
        return true;
    }
    ss_value_begin(r->to, ends[kind][0]);
    put_items(r, &items, kind == KIND_DICT);
    if (kind == KIND_TUPLE && items.size == 1 && ss_value_count(r->to))
        ss_value_put(r->to, ",");
    ss_value_end(r->to, ends[kind][1]);
    return true;
}

/* ---- Values -----------------------------------------------------------------------------------*/

/* False if nothing was written. */
static bool put_plain(const value_reader *r, python_kind kind, uint64_t address)
{
    switch (kind) {
    case KIND_NONE:
        ss_value_put(r->to, "None");
        return true;
    case KIND_BOOL:
        return put_bool(r, address);
    case KIND_INT:
        return put_int(r, address);
    case KIND_FLOAT:
        return put_float(r, address);
    case KIND_STR:
        return put_str(r, address);
    case KIND_BYTES:
        return put_bytes(r, address);
    case KIND_OTHER:
    case KIND_CELL:
        return false;
    default:
        return put_container(r, kind, address);
    }
}

static void put_value(const value_reader *r, uint64_t address)
{
    char object[TYPE_ROOM + 32];
    const known_type *type = type_of(address);

    if (put_plain(r, type->kind, address))
        return;
    snprintf(object, sizeof object, "<%s object at %#" PRIx64 ">",
             *type->name ? type->name : "unreadable", address);
    ss_value_put(r->to, object);
}

/* Write the text that reports have of a value, as JSON. */
static void write_value(const sspy_layout *layout, uint64_t address, ssi_written *to)
{
    ss_value_text text;
    const value_reader r = {layout, &text};

    ss_value_text_init(&text, to->shows_secrets);
    put_value(&r, address);
    ssi_write_text(to, text.bytes, text.length);
}

/*
 * Functions keep their variables in their frame, some of them in cells; modules and classes in a
 * dict, of which reports show only what has a value of a plain type.
 */

enum {
    OPTIMIZED = 1, /* a flag of code: its variables are in the frame */
    IN_CELL = 0x40 | 0x80,
    MAX_NAME = 255,
    MAX_VARIABLES = 4096, /* that are searched for those which are shown */
    CELL_VALUE = 16
};
static const uint64_t STACK_TAG = 3; /* bits of a word that are no part of the pointer */

typedef struct writing {
    const sspy_layout *layout;
    ssi_written *to;
    int count;
} writing;

static bool is_letter(unsigned char c)
{
    return c == '_' || c >= 0x80 || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* Whether a program gave that name: not ".0" of a comprehension, nor "__class__". */
static bool is_name(const python_text *name)
{
    if (!name->count || name->count > MAX_NAME || !is_letter((unsigned char)*name->bytes))
        return false;
    for (const char *c = name->bytes; *c; c++)
        if (!is_letter((unsigned char)*c) && !(*c >= '0' && *c <= '9'))
            return false;
    return strncmp(name->bytes, "__", 2) != 0;
}

static void add_variable(writing *w, uint64_t name, uint64_t value)
{
    python_text text;

    if (!read_text(w->layout, name, &text) || !is_name(&text))
        return;
    ssi_write(w->to, w->count++ ? "," : "");
    ssi_write_characters(w->to, text.bytes, text.length);
    ssi_write(w->to, ":");
    write_value(w->layout, value, w->to);
}

/* The value of the variable in the word at PLACE, which may stand in a cell; 0: it has none. */
static uint64_t value_of(uint64_t place, bool in_cell)
{
    uint64_t value;

    if (!ssi_read_word(place, &value))
        return 0;
    value &= ~STACK_TAG;
    if (in_cell && kind_of(value) == KIND_CELL && !ssi_read_word(value + CELL_VALUE, &value))
        return 0;
    return value;
}

static void add_of_function(writing *w, uint64_t frame, uint64_t code)
{
    uint64_t names, kinds, count, name, value;
    uint8_t kind;

    if (!ssi_read_word(code + SSPY_CODE_VARIABLES, &names) ||
        !ssi_read_word(code + SSPY_CODE_KINDS, &kinds) ||
        !ssi_read_word(kinds + SSPY_VAR_SIZE, &count))
        return;
    for (uint64_t i = 0; i < count && i < MAX_VARIABLES && w->count < SSI_SHOWN_VARIABLES; i++) {
        if (!ssi_read(kinds + SSPY_BYTES_DATA + i, &kind, 1) ||
            !ssi_read_word(names + w->layout->tuple_items + 8 * i, &name))
            return;
        value = value_of(frame + w->layout->frame_variables + 8 * i, kind & IN_CELL);
        if (value)
            add_variable(w, name, value);
    }
}

static void add_of_module(writing *w, uint64_t names)
{
    items_reader items;
    uint64_t name, value;

    if (kind_of(names) != KIND_DICT || !items_begin(&items, w->layout, KIND_DICT, names))
        return;
    while (w->count < SSI_SHOWN_VARIABLES && items.at < MAX_VARIABLES &&
           items_next(&items, &name, &value))
        if (kind_of(name) == KIND_STR && kind_of(value) != KIND_OTHER)
            add_variable(w, name, value);
}

/* Write the variables of the frame at FRAME, which runs the code object at CODE, as one JSON object.
   What cannot be read is left out. */
static void write_locals(const sspy_layout *layout, uint64_t frame, uint64_t code, ssi_written *to)
{
    writing w = {layout, to, 0};
    uint64_t names;
    uint32_t flags;

    ssi_write(to, "{");
    if (ssi_read(code + SSPY_CODE_FLAGS, &flags, sizeof flags)) {
        if (flags & OPTIMIZED)
            add_of_function(&w, frame, code);
        else if (ssi_read_word(frame + layout->frame_names, &names))
            add_of_module(&w, names);
    }
    ssi_write(to, "}");
}

enum {
    MAX_TABLE = 1 << 22,
    MAX_TABLES = 256 << 20, /* bytes of all */
    MAX_WALKED = 1 << 30    /* bytes, on the ways to all places */
};

/* What a code object says: names, and the place of an instruction. */
typedef struct code_object {
    uint64_t address;
    const char *file, *function; /* NULL: cannot be read */
    int first_line;
    int first_traceable; /* code units */
    unsigned char *table;
    size_t table_size;
} code_object;

/* Those that were read, by address. */
typedef struct code_objects {
    const sspy_layout *layout;
    uint64_t type; /* that of all code objects; 0 until one was found */
    code_object *items;
    size_t count, room;
    ssi_map numbers;      /* of the items, by address */
    uint64_t table_bytes; /* of all tables */
    uint64_t walked;      /* bytes of tables, on the ways to places */
} code_objects;

/* ---- One code object --------------------------------------------------------------------------*/

static bool is_last_part(const char *name, const char *whole)
{
    size_t length = strlen(name), of = strlen(whole);

    return length <= of && !strcmp(whole + of - length, name) &&
           (length == of || whole[of - length - 1] == '.');
}

/* A qualified name is more precise, but renamed code keeps that of something else. */
static const char *shown_name(const code_objects *codes, uint64_t address)
{
    uint64_t name = ssi_word(address + SSPY_CODE_NAME);
    uint64_t whole = ssi_word(address + SSPY_CODE_QUALNAME);
    const char *short_name = text_of(codes->layout, name);
    const char *long_name = text_of(codes->layout, whole);

    return short_name && long_name && is_last_part(short_name, long_name) ? long_name : short_name;
}

static void read_table(code_objects *codes, code_object *code)
{
    uint64_t table = 0, size = 0;

    if (!ssi_read_word(code->address + SSPY_CODE_TABLE, &table) ||
        !ssi_read_word(table + SSPY_VAR_SIZE, &size) || size > MAX_TABLE ||
        codes->table_bytes + size > MAX_TABLES)
        return;
    code->table = malloc(size ? (size_t)size : 1);
    if (!code->table)
        return;
    if (ssi_read(table + SSPY_BYTES_DATA, code->table, (size_t)size)) {
        code->table_size = (size_t)size;
        codes->table_bytes += size;
        return;
    }
    free(code->table);
    code->table = NULL;
}

/* All code objects have one type.  The first that has a name and a file says which. */
static bool read_code(code_objects *codes, code_object *code)
{
    const sspy_layout *layout = codes->layout;
    uint64_t type, file = 0;

    if (!ssi_read_word(code->address + SSPY_OBJECT_TYPE, &type) ||
        (codes->type && type != codes->type))
        return false;
    if (!ssi_read(code->address + layout->code_first_line, &code->first_line,
                  sizeof code->first_line) ||
        !ssi_read(code->address + layout->code_first_traceable, &code->first_traceable,
                  sizeof code->first_traceable))
        return false;
    (void)ssi_read_word(code->address + SSPY_CODE_FILE, &file);
    code->file = text_of(layout, file);
    code->function = shown_name(codes, code->address);
    if (!codes->type && (!code->file || !code->function))
        return false;
    codes->type = type;
    read_table(codes, code);
    return true;
}

static const code_object *code_at(code_objects *codes, uint64_t address)
{
    code_object code = {.address = address};
    const uint64_t *known = ssi_map_find(&codes->numbers, address);

    if (known)
        return &codes->items[*known];
    if (!address || !read_code(codes, &code))
        return NULL;
    if (!ssi_append(&codes->items, &codes->count, &codes->room, &code, sizeof code)) {
        free(code.table);
        return NULL;
    }
    (void)ssi_map_put(&codes->numbers, address, codes->count - 1); /* or it is read again */
    return &codes->items[codes->count - 1];
}

static void free_codes(code_objects *codes)
{
    for (size_t i = 0; i < codes->count; i++)
        free(codes->items[i].table);
    free(codes->items);
    free(codes->numbers.entries);
}

/* Set the lines and columns of FRAME, which is at the byte OFFSET of the instructions of CODE; not
   when that took too long for those before it. */
static void place_in_code(code_objects *codes, const code_object *code, int64_t offset,
                          stacksplice_frame *frame)
{
    sspy_position position;

    if (!code->table || offset < INT32_MIN || offset > INT32_MAX || codes->walked > MAX_WALKED)
        return;
    position = sspy_position_in(code->table, code->table_size, code->first_line, (int)offset);
    codes->walked += position.prefix;
    frame->line = position.line;
    if (!position.column)
        return;
    frame->end_line = position.end_line;
    frame->column = position.column;
    frame->end_column = position.end_column;
}

/* Values are recognised as exceptions by the flags of their types before more of them is believed.
 */

enum {
    MAX_HANDLED = 64, /* steps from one handler to the one around it */
    MAX_SHOWN = 8,    /* of them */
    MAX_CHAIN = 16,
    MAX_TRACEBACK = 1 << 12
};

typedef struct exception_reader {
    ssi_scripts *scripts;
    code_objects *codes;
    int thread;
} exception_reader;

static bool is_exception(uint64_t address)
{
    uint64_t type = address ? ssi_word(address + SSPY_OBJECT_TYPE) : 0;

    return type && (ssi_word(type + SSPY_TYPE_FLAGS) & SSPY_TYPE_IS_EXCEPTION);
}

/* ---- One exception ----------------------------------------------------------------------------*/

static void add_frame(const exception_reader *r, uint64_t entry)
{
    const sspy_layout *layout = r->codes->layout;
    uint64_t object = ssi_word(entry + SSPY_TRACEBACK_FRAME);
    uint64_t frame = object ? ssi_word(object + SSPY_FRAME_OBJECT_FRAME) : 0;
    uint64_t code = frame ? ssi_word(frame + layout->frame_code) & ~(uint64_t)SSPY_CODE_TAG : 0;
    const code_object *known = code_at(r->codes, code);
    ssi_frame shown = {.known = {.kind = STACKSPLICE_FRAME_SCRIPT,
                                 .language = "python",
                                 .trust = STACKSPLICE_TRUST_TRACEBACK}};
    int32_t instruction = 0;

    if (!known) {
        (void)ssi_frames_add_gap(&r->scripts->frames, "a Python frame cannot be read");
        return;
    }
    (void)ssi_read(entry + SSPY_TRACEBACK_INSTRUCTION, &instruction, sizeof instruction);
    shown.known.function = known->function;
    shown.known.file = known->file;
    shown.known.address = sspy_code_start(layout, code) + (uint64_t)(int64_t)instruction;
    place_in_code(r->codes, known, instruction, &shown.known);
    (void)ssi_frames_add(&r->scripts->frames, &shown);
}

/* A traceback begins with its outermost frame. */
static void add_traceback(const exception_reader *r, uint64_t entry)
{
    static uint64_t entries[MAX_TRACEBACK];
    uint64_t type;
    size_t count = 0;

    if (strcmp(type_of(entry)->name, "traceback") != 0)
        return; /* 3.11 has None for none */
    type = ssi_word(entry + SSPY_OBJECT_TYPE);
    for (; entry && count < MAX_TRACEBACK && ssi_word(entry + SSPY_OBJECT_TYPE) == type;
         entry = ssi_word(entry + SSPY_TRACEBACK_NEXT))
        entries[count++] = entry;
    if (entry)
        (void)ssi_frames_add_gap(&r->scripts->frames, "the rest of this traceback is too long");
    while (count)
        add_frame(r, entries[--count]);
}

/* As str() has the argument at ADDRESS. */
static void write_argument(const exception_reader *r, uint64_t address, ssi_written *to)
{
    python_text text;

    if (kind_of(address) == KIND_STR && read_text(r->codes->layout, address, &text))
        ssi_write_characters(to, text.bytes, text.length);
    else
        write_value(r->codes->layout, address, to);
}

/* What decides the message: the arguments' number, the first two, and the text of the only one, or
   of all. */
static const char *arguments_of(const exception_reader *r, uint64_t exception)
{
    ssi_written written = {.shows_secrets = r->scripts->shows_secrets};
    uint64_t all = ssi_word(exception + SSPY_EXCEPTION_ARGS), key, value, first = 0;
    items_reader items;

    if (kind_of(all) != KIND_TUPLE || !items_begin(&items, r->codes->layout, KIND_TUPLE, all))
        return NULL;
    ssi_write_format(&written, "{\"count\":%" PRIu64 ",\"each\":[", items.count);
    while (items.at < 2 && items_next(&items, &key, &value)) {
        ssi_write(&written, first ? "," : "");
        write_argument(r, value, &written);
        first = first ? first : value;
    }
    ssi_write(&written, "],\"value\":");
    write_value(r->codes->layout, items.count == 1 ? first : all, &written);
    ssi_write(&written, "}");
    return ssi_scripts_keep_locals(r->scripts, &written);
}

static void add_exception(const exception_reader *r, uint64_t address, const char *state,
                          const char *relation)
{
    const char *name = type_of(address)->name;
    ssi_exception e = {.thread = r->thread,
                       .state = state,
                       .relation = relation,
                       .language = "python",
                       .type = ssi_text(name, strlen(name)),
                       .first = r->scripts->frames.count};

    e.arguments = arguments_of(r, address);
    add_traceback(r, ssi_word(address + SSPY_EXCEPTION_TRACEBACK));
    e.count = r->scripts->frames.count - e.first;
    (void)ssi_append(&r->scripts->exceptions, &r->scripts->exception_count,
                     &r->scripts->exception_room, &e, sizeof e);
}

/* ---- What it was made from --------------------------------------------------------------------*/

/* What is behind the exception at ADDRESS, as Python shows it; 0 if there is nothing. */
static uint64_t behind(uint64_t address, const char **relation)
{
    uint64_t cause = ssi_word(address + SSPY_EXCEPTION_CAUSE);
    uint8_t suppresses = 0;

    *relation = cause ? "cause" : "context";
    (void)ssi_read(address + SSPY_EXCEPTION_SUPPRESSES, &suppresses, 1);
    return cause || suppresses ? cause : ssi_word(address + SSPY_EXCEPTION_CONTEXT);
}

static bool has(const uint64_t *list, size_t count, uint64_t address)
{
    while (count--)
        if (list[count] == address)
            return true;
    return false;
}

static void add_chain(const exception_reader *r, uint64_t address, const char *state)
{
    uint64_t shown[MAX_CHAIN];
    const char *relation = NULL;

    for (size_t count = 0;
         count < MAX_CHAIN && is_exception(address) && !has(shown, count, address);) {
        shown[count++] = address;
        add_exception(r, address, state, relation);
        state = NULL;
        address = behind(address, &relation);
    }
}

/* Add those of the thread state at THREAD, whose number is ID, with what they were made from: one on
   its way, and those that are being handled. */
static void add_exceptions(ssi_scripts *scripts, code_objects *codes, uint64_t thread, int id)
{
    exception_reader r = {scripts, codes, id};
    uint64_t shown[MAX_SHOWN], item;
    size_t count = 0;

    if (!codes->layout->thread_handled)
        return;
    add_chain(&r, ssi_word(thread + codes->layout->thread_raised), "raised");
    item = ssi_word(thread + codes->layout->thread_handled);
    for (int steps = 0; item && steps < MAX_HANDLED && count < MAX_SHOWN; steps++) {
        uint64_t value = ssi_word(item + SSPY_HANDLED_VALUE);

        if (is_exception(value) && !has(shown, count, value)) {
            shown[count++] = value;
            add_chain(&r, value, "handled");
        }
        item = ssi_word(item + SSPY_HANDLED_PREVIOUS);
    }
}

/* Finds the copies of CPython in a target: in programs and libraries, stripped or not. */

/* ---- Names of threads -------------------------------------------------------------------------*/

/* threading._active is a dict from numbers of threads to objects with their names. */

enum { MAX_NAMES = 1 << 14, MAX_THREAD_NAME = 255 /* characters */, MAX_ATTRIBUTES = 1 << 10 };

/* False if there is no dict at ADDRESS. */
static bool begin_dict_at(items_reader *items, const sspy_layout *layout, uint64_t address)
{
    return kind_of(address) == KIND_DICT && items_begin(items, layout, KIND_DICT, address);
}

/* The value of NAME in the dict at ADDRESS, or 0. */
static uint64_t look_up(const sspy_layout *layout, uint64_t address, const char *name)
{
    items_reader items;
    uint64_t key, value;

    if (!begin_dict_at(&items, layout, address))
        return 0;
    while (items_next(&items, &key, &value))
        if (text_is(layout, key, name))
            return value;
    return 0;
}

/* The dict of threads of the interpreter at INTERPRETER, or 0. */
static uint64_t threads_of(const sspy_layout *layout, uint64_t interpreter)
{
    uint64_t modules, module, members;

    if (!ssi_read_word(interpreter + layout->interpreter_modules, &modules))
        return 0;
    module = look_up(layout, modules, "threading");
    if (!module || !ssi_read_word(module + SSPY_MODULE_DICT, &members))
        return 0;
    return look_up(layout, members, "_active");
}

static const char *short_text(const sspy_layout *layout, uint64_t address)
{
    python_text text;

    return kind_of(address) == KIND_STR && read_text(layout, address, &text) &&
                   text.count <= MAX_THREAD_NAME
               ? ssi_text(text.bytes, text.length)
               : NULL;
}

static bool read_int(const sspy_layout *layout, uint64_t address, uint64_t *out)
{
    return kind_of(address) == KIND_INT && number_of(layout, address, out);
}

/* Fill in what the object THREAD says of itself. */
static void read_thread_object(const sspy_layout *layout, uint64_t thread, ssi_python_name *name)
{
    items_reader items;
    uint64_t key, value;

    if (!attributes_begin(&items, layout, thread))
        return;
    while (items.at < MAX_ATTRIBUTES && items_next(&items, &key, &value)) {
        if (text_is(layout, key, "_name"))
            name->text = short_text(layout, value);
        else if (text_is(layout, key, "_native_id"))
            (void)read_int(layout, value, &name->id);
    }
}

/* Add those of the threads of the interpreter at INTERPRETER. */
static void add_names(ssi_python_names *names, const sspy_layout *layout, uint64_t interpreter)
{
    uint64_t threads = threads_of(layout, interpreter), key, value;
    items_reader items;

    if (!threads || !begin_dict_at(&items, layout, threads))
        return;
    while (names->count < MAX_NAMES && items_next(&items, &key, &value)) {
        ssi_python_name name = {.interpreter = interpreter};

        if (!read_int(layout, key, &name.ident))
            continue;
        read_thread_object(layout, value, &name);
        if (!ssi_append(&names->items, &names->count, &names->room, &name, sizeof name))
            return;
    }
}

/* The name of the thread IDENT, or NULL.  Its number ID tells it from one that ended meanwhile; the
   OLDEST thread of an interpreter has no such predecessor, and another number after a fork.
   The youngest thread is the last here, and the first in the interpreter's list. */
static const char *name_of(ssi_python_names *names, uint64_t interpreter, uint64_t ident,
                           uint64_t id, bool oldest)
{
    for (size_t steps = 0; steps < names->count; steps++) {
        const ssi_python_name *name;

        names->at = names->at ? names->at - 1 : names->count - 1;
        name = &names->items[names->at];
        if (name->ident == ident && name->interpreter == interpreter)
            return name->id == id || oldest ? name->text : NULL;
    }
    return NULL;
}

/* ---- Copies -----------------------------------------------------------------------------------*/

size_t ssi_python_add(ssi_python *pythons, size_t count, const ssi_binary *binary,
                      const ssi_mapping *mapping)
{
    ssi_python found = {.runtime = ssi_binary_symbol(binary, "_PyRuntime")};

    if (!found.runtime)
        found.runtime = ssi_binary_section(binary, ".PyRuntime");
    if (!found.runtime || count == SSI_MAX_PYTHONS)
        return count;
    for (size_t i = 0; i < count; i++)
        if (pythons[i].runtime == found.runtime)
            return count;
    found.version_at = ssi_binary_symbol(binary, "Py_Version");
    found.path = ssi_text(mapping->path, strlen(mapping->path));
    pythons[count] = found;
    return count + 1;
}

/* NUMBER of Py_Version as Python writes it, such as "3.15.0rc1". */
static const char *version_text(uint64_t number)
{
    static const char *const kinds[16] = {[0xA] = "a", [0xB] = "b", [0xC] = "rc"};
    const char *kind = kinds[number >> 4 & 15];
    char pre[16] = "";

    if (kind)
        snprintf(pre, sizeof pre, "%s%u", kind, (unsigned)(number & 15));
    return number
               ? ssi_text_format("%u.%u.%u%s", (unsigned)(number >> 24 & 255),
                                 (unsigned)(number >> 16 & 255), (unsigned)(number >> 8 & 255), pre)
               : NULL;
}

/* The runtime says its version itself where it begins with a table of offsets.  *NUMBER is that as
   Py_Version has it, or 0.  NULL, or why FOUND cannot be read. */
static const char *find_layout(ssi_python *found, uint64_t *number)
{
    uint64_t words[SSPY_TABLE_WORDS];

    if (!ssi_read(found->runtime, words, sizeof words))
        return "its runtime cannot be read";
    if (!memcmp(words, "xdebugpy", 8))
        *number = words[1];
    else if (!ssi_read_word(found->version_at, number))
        return "it does not say which version it is";
    return sspy_layout_of(*number, words, &found->layout);
}

void ssi_python_learn(ssi_python *found)
{
    uint64_t interpreter = 0, number = 0;

    found->why = find_layout(found, &number);
    found->version = version_text(number);
    if (found->why)
        return;
    (void)ssi_read_word(found->runtime + found->layout.interpreters, &interpreter);
    for (int i = 0; interpreter && i < SSI_MAX_INTERPRETERS; i++) {
        add_names(&found->names, &found->layout, interpreter);
        if (!ssi_read_word(interpreter + found->layout.interpreter_next, &interpreter))
            return;
    }
}

void ssi_python_free(ssi_python *python)
{
    free(python->names.items);
}

/* What an interpreter of a target does: who holds its lock, and whether it collects garbage. */

typedef struct ssi_python_activity {
    uint64_t interpreter; /* its address */
    int64_t number;
    uint64_t lock;                /* address of its GIL; 0: not known */
    uint64_t holder;              /* the thread state that has it, or 0 */
    bool collects;                /* garbage */
    uint64_t frame;               /* that began it; 0: not known */
    size_t collectors, collector; /* how many threads can be the one that does, and the last */
} ssi_python_activity;

/* A lock is believed only if it looks like one: 3.11 and 3.12 do not say where it is. */
static void read_lock(uint64_t lock, ssi_python_activity *activity)
{
    uint64_t holder;
    int32_t held;

    if (!ssi_read(lock + SSPY_LOCK_HELD, &held, sizeof held) || held < -1 || held > 1 ||
        !ssi_read_word(lock + SSPY_LOCK_HOLDER, &holder))
        return;
    activity->lock = lock;
    if (held == 1)
        activity->holder = holder;
}

/* Read what the interpreter says, whose address is there already. */
static void activity_read(ssi_python_activity *activity, const sspy_layout *layout,
                          uint64_t runtime)
{
    uint64_t lock = runtime + layout->runtime_lock, at = activity->interpreter;
    int32_t collects = 0;

    if (layout->interpreter_lock)
        (void)ssi_read_word(at + layout->interpreter_lock, &lock);
    read_lock(lock, activity);
    (void)ssi_read(at + layout->interpreter_collecting, &collects, sizeof collects);
    activity->collects = collects == 1;
    if (activity->collects && layout->interpreter_collector)
        (void)ssi_read_word(at + layout->interpreter_collector, &activity->frame);
}

/* After all of its threads: mark the one that collects garbage, if that is certain. */
static void mark_collector(ssi_scripts *scripts, const ssi_python_activity *activity)
{
    if (activity->collectors == 1 && activity->collector < scripts->attached_count)
        scripts->attached[activity->collector].collects = true;
}

/*
 * From the runtime to its interpreters, their threads, and each thread's chain of frames.
 *
 * Every run of the evaluation loop has an object on the C stack, whose address says which native
 * frame it is: a _PyCFrame in 3.11 and 3.12, an entry frame of the chain from 3.13 on.  The process
 * was stopped anywhere, so each word that is read may be half made: all reads are checked, all
 * chains bounded, and code objects are recognised before anything of them is believed.
 */

enum { MAX_THREADS = 1 << 16, MAX_RUNS = 1 << 14, MAX_FRAMES = 1 << 17 };

typedef struct reader {
    sspy_layout layout;
    code_objects codes;
    ssi_scripts *scripts;
    const char *interpreter;      /* of the thread that is read; NULL: the main one */
    ssi_python_activity activity; /* of its interpreter */
    bool began_collection;        /* the thread that is read did */
    ssi_python_names *names;
    ssi_run run;
    int locals_left; /* so many frames of the thread may still show theirs */
    int threads;     /* of all interpreters so far */
} reader;

typedef struct seen_frame {
    uint64_t address, code, previous, instruction;
    uint8_t owner, is_entry;
} seen_frame;

/* ---- Frames -----------------------------------------------------------------------------------*/

static bool read_frame(const reader *r, uint64_t address, seen_frame *seen)
{
    const sspy_layout *l = &r->layout;

    *seen = (seen_frame){.address = address};
    if (!ssi_read_word(address + l->frame_code, &seen->code) ||
        !ssi_read_word(address + l->frame_previous, &seen->previous) ||
        !ssi_read_word(address + l->frame_instruction, &seen->instruction) ||
        !ssi_read(address + l->frame_owner, &seen->owner, 1))
        return false;
    if (l->frame_is_entry && !ssi_read(address + l->frame_is_entry, &seen->is_entry, 1))
        return false;
    seen->code &= ~(uint64_t)SSPY_CODE_TAG;
    return true;
}

static const char *locals_of(reader *r, const seen_frame *seen)
{
    ssi_written written = {.shows_secrets = r->scripts->shows_secrets};

    if (!r->scripts->with_locals || !r->locals_left)
        return NULL;
    r->locals_left--;
    write_locals(&r->layout, seen->address, seen->code, &written);
    return ssi_scripts_keep_locals(r->scripts, &written);
}

/* Add FRAME if Python shows it; false without memory. */
static bool show(reader *r, const seen_frame *seen)
{
    const code_object *code = code_at(&r->codes, seen->code);
    ssi_frame frame = {.known = {.kind = STACKSPLICE_FRAME_SCRIPT,
                                 .language = "python",
                                 .address = seen->instruction,
                                 .interpreter = r->interpreter}};

    if (!code)
        return ssi_frames_add_gap(&r->scripts->frames, "a Python frame cannot be read");
    if (!sspy_has_begun(&r->layout, seen->owner, seen->code, seen->instruction,
                        code->first_traceable))
        return true;
    frame.known.function = code->function;
    frame.known.file = code->file;
    place_in_code(&r->codes, code,
                  (int64_t)(seen->instruction - sspy_code_start(&r->layout, seen->code)),
                  &frame.known);
    frame.locals = locals_of(r, seen);
    return ssi_frames_add(&r->scripts->frames, &frame);
}

/* ---- Runs -------------------------------------------------------------------------------------*/

static void begin_run(reader *r)
{
    r->run.first = r->scripts->frames.count;
}

static void end_run(reader *r, uint64_t marker)
{
    r->run.marker = marker;
    r->run.count = r->scripts->frames.count - r->run.first;
    if (r->run.count)
        (void)ssi_scripts_add_run(r->scripts, &r->run);
}

/* 3.11, 3.12: a run belongs to each _PyCFrame. */
static void read_cframes(reader *r, uint64_t cframe)
{
    uint64_t last = 0;
    int steps = 0;

    for (int runs = 0; cframe > last && runs < MAX_RUNS; runs++) {
        uint64_t frame = ssi_word(cframe + r->layout.cframe_current);
        seen_frame seen;

        begin_run(r);
        while (frame && steps++ < MAX_FRAMES && read_frame(r, frame, &seen)) {
            if (seen.owner >= SSPY_FRAME_OF_C || !show(r, &seen) || seen.is_entry)
                break;
            frame = seen.previous;
        }
        end_run(r, cframe);
        last = cframe;
        cframe = ssi_word(cframe + r->layout.cframe_previous);
    }
}

/* From 3.13 on: entry frames in the chain end the runs. */
static void read_entry_frames(reader *r, uint64_t frame)
{
    seen_frame seen;

    begin_run(r);
    for (int steps = 0; frame && steps < MAX_FRAMES && read_frame(r, frame, &seen); steps++) {
        r->began_collection |= frame == r->activity.frame;
        if (seen.owner >= SSPY_FRAME_OF_C) {
            end_run(r, frame);
            begin_run(r);
        } else if (!show(r, &seen)) {
            break;
        }
        frame = seen.previous;
    }
    end_run(r, 0);
}

/* ---- Threads ----------------------------------------------------------------------------------*/

static void add_attached(reader *r, uint64_t thread, uint64_t id)
{
    uint64_t ident = ssi_word(thread + r->layout.thread_ident);
    bool is_oldest = !ssi_word(thread + r->layout.thread_next);
    ssi_python_activity *activity = &r->activity;
    ssi_scripts *scripts = r->scripts;
    const char *name = name_of(r->names, activity->interpreter, ident, id, is_oldest);

    if (activity->collects && (r->began_collection || !activity->frame)) {
        activity->collectors++;
        activity->collector = scripts->attached_count;
    }
    (void)ssi_append(&scripts->attached, &scripts->attached_count, &scripts->attached_room,
                     &(ssi_attached){.thread = (int)id,
                                     .interpreter = activity->number,
                                     .name = name,
                                     .lock = activity->lock,
                                     .holds = activity->holder == thread},
                     sizeof(ssi_attached));
}

static void read_thread(reader *r, uint64_t thread)
{
    uint64_t id = ssi_word(thread + r->layout.thread_id);
    uint64_t head = ssi_word(thread + r->layout.thread_head);

    r->run = (ssi_run){.thread = (int)id};
    r->locals_left = SSI_SHOWN_FRAMES;
    r->began_collection = false;
    if (r->layout.cframe)
        read_cframes(r, head);
    else
        read_entry_frames(r, head);
    add_exceptions(r->scripts, &r->codes, thread, (int)id);
    add_attached(r, thread, id);
}

static void begin_interpreter(reader *r, const ssi_python *python, uint64_t address, int64_t number)
{
    r->interpreter = number ? ssi_text_format("interpreter %lld", (long long)number) : NULL;
    r->activity = (ssi_python_activity){.interpreter = address, .number = number};
    activity_read(&r->activity, &r->layout, python->runtime);
    (void)ssi_append(&r->scripts->interpreters, &r->scripts->interpreter_count,
                     &r->scripts->interpreter_room,
                     &(ssi_script_interpreter){.version = python->version,
                                               .path = python->path,
                                               .number = number,
                                               .collects = r->activity.collects},
                     sizeof(ssi_script_interpreter));
}

/* False when the threads of INTERPRETER are not where the layout has them. */
static bool read_threads(reader *r, const ssi_python *python, uint64_t interpreter)
{
    uint64_t thread = 0, owner, id = 0;

    if (!ssi_read_word(interpreter + r->layout.interpreter_threads, &thread) ||
        !ssi_read_word(interpreter + r->layout.interpreter_id, &id))
        return false;
    begin_interpreter(r, python, interpreter, (int64_t)id);
    while (thread && r->threads++ < MAX_THREADS && r->scripts->frames.count < SSI_MAX_FRAMES) {
        if (!ssi_read_word(thread + r->layout.thread_interpreter, &owner) || owner != interpreter)
            return false;
        read_thread(r, thread);
        if (!ssi_read_word(thread + r->layout.thread_next, &thread))
            return false;
    }
    mark_collector(r->scripts, &r->activity);
    return true;
}

static const char *read_runtime(reader *r, const ssi_python *python)
{
    uint64_t interpreter = 0;

    if (!ssi_read_word(python->runtime + r->layout.interpreters, &interpreter))
        return "its interpreters cannot be read";
    for (int i = 0; interpreter && i < SSI_MAX_INTERPRETERS; i++) {
        if (!read_threads(r, python, interpreter))
            return "its threads cannot be read";
        if (!ssi_read_word(interpreter + r->layout.interpreter_next, &interpreter))
            return "its interpreters cannot be read";
    }
    return NULL;
}

void ssi_python_read(ssi_python *python, ssi_scripts *scripts)
{
    reader r = {.layout = python->layout, .scripts = scripts, .names = &python->names};
    const char *why = python->why;

    if (!why) {
        r.codes.layout = &r.layout;
        why = read_runtime(&r, python);
        free_codes(&r.codes);
    }
    if (why && python->version)
        ssi_scripts_note(scripts,
                         ssi_text_format("cannot read Python frames of %s: %s (CPython %s)",
                                         python->path, why, python->version));
    else if (why)
        ssi_scripts_note(scripts,
                         ssi_text_format("cannot read Python frames of %s: %s", python->path, why));
}
