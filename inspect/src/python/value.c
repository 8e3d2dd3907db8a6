#include "python/private.h"

#include "base/base.h"
#include "shared/utf8.h"
#include "shared/value_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIGIT_BITS = 30,
    MAX_DIGITS = 12,    /* larger numbers are not shown */
    MAX_DECIMALS = 100, /* nor is one with more */
    INT_DIGITS = 24,
    FLOAT_VALUE = 16
};

typedef struct reader {
    const sspy_layout *layout;
    ss_value_text *to;
} reader;

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

bool ssi_python_number(const sspy_layout *layout, uint64_t address, uint64_t *out)
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

static bool put_int(const reader *r, uint64_t address)
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

static bool put_bool(const reader *r, uint64_t address)
{
    uint32_t digits[MAX_DIGITS];
    uint64_t count;
    bool negative;

    if (!read_digits(r->layout, address, digits, &count, &negative))
        return false;
    ss_value_put(r->to, count ? "True" : "False");
    return true;
}

/* As few digits as tell it from all other numbers, with an exponent where Python has one. */
static bool put_float(const reader *r, uint64_t address)
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

/* The str at ADDRESS in UTF-8, with a NUL, until the next call; NULL if it cannot be read. */
static const char *utf8_of(const reader *r, uint64_t address, size_t *length, size_t *count)
{
    static char bytes[4 * SSI_SHOWN_CHARACTERS + 1];
    ssi_python_characters text;

    if (!ssi_python_characters_of(r->layout, address, &text))
        return NULL;
    *length = 0;
    *count = text.count;
    for (size_t i = 0; i < text.count; i++) {
        uint32_t c = ssi_python_character(&text, i);

        *length += sspy_put_utf8(c, bytes + *length);
        if (c >= 0xD800 && c < 0xE000) { /* half of a pair stays one */
            bytes[*length - 3] = (char)0xED;
            bytes[*length - 2] = (char)(0x80 | (c >> 6 & 0x3F));
            bytes[*length - 1] = (char)(0x80 | (c & 0x3F));
        }
    }
    bytes[*length] = '\0';
    return bytes;
}

static bool put_str(const reader *r, uint64_t address)
{
    size_t length, count;
    const char *text = utf8_of(r, address, &length, &count);

    if (text)
        ss_value_quoted(r->to, &quoting, text, length, count);
    return text;
}

static bool put_bytes(const reader *r, uint64_t address)
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

static void put_value(const reader *r, uint64_t address);

/* Whether KEY is a name that says that its value is a secret: then that is written. */
static bool put_secret(const reader *r, uint64_t key)
{
    char type[SSI_PYTHON_TYPE_ROOM];
    size_t length, count;
    const char *name =
        ssi_python_kind_of(key, type) == SSI_PYTHON_STR ? utf8_of(r, key, &length, &count) : NULL;

    return name && ss_value_secret(r->to, name, "'");
}

static void put_items(const reader *r, ssi_python_items *items, bool is_dict)
{
    uint64_t key, value;

    while (ssi_python_items_next(items, &key, &value)) {
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

static bool put_container(const reader *r, ssi_python_kind kind, uint64_t address)
{
    static const char *const ends[][2] = {
        [SSI_PYTHON_LIST] = {"[", "]"},
        [SSI_PYTHON_TUPLE] = {"(", ")"},
        [SSI_PYTHON_DICT] = {"{", "}"},
        [SSI_PYTHON_SET] = {"{", "}"},
        [SSI_PYTHON_FROZENSET] = {"frozenset({", "})"},
    };
    bool is_frozen = kind == SSI_PYTHON_FROZENSET;
    ssi_python_items items;

    if (!ssi_python_items_begin(&items, r->layout, kind, address))
        return false;
    if (!items.size && (is_frozen || kind == SSI_PYTHON_SET)) {
        ss_value_put(r->to, is_frozen ? "frozenset()" : "set()");
        return true;
    }
    ss_value_begin(r->to, ends[kind][0]);
    put_items(r, &items, kind == SSI_PYTHON_DICT);
    if (kind == SSI_PYTHON_TUPLE && items.size == 1 && ss_value_count(r->to))
        ss_value_put(r->to, ",");
    ss_value_end(r->to, ends[kind][1]);
    return true;
}

/* ---- Values -----------------------------------------------------------------------------------*/

/* False if nothing was written. */
static bool put_plain(const reader *r, ssi_python_kind kind, uint64_t address)
{
    switch (kind) {
    case SSI_PYTHON_NONE:
        ss_value_put(r->to, "None");
        return true;
    case SSI_PYTHON_BOOL:
        return put_bool(r, address);
    case SSI_PYTHON_INT:
        return put_int(r, address);
    case SSI_PYTHON_FLOAT:
        return put_float(r, address);
    case SSI_PYTHON_STR:
        return put_str(r, address);
    case SSI_PYTHON_BYTES:
        return put_bytes(r, address);
    case SSI_PYTHON_OTHER:
    case SSI_PYTHON_CELL:
        return false;
    default:
        return put_container(r, kind, address);
    }
}

static void put_value(const reader *r, uint64_t address)
{
    char name[SSI_PYTHON_TYPE_ROOM], object[32];
    ssi_python_kind kind = ssi_python_kind_of(address, name);

    if (put_plain(r, kind, address))
        return;
    ss_value_put(r->to, "<");
    ss_value_put(r->to, *name ? name : "unreadable");
    snprintf(object, sizeof object, " object at %#" PRIx64 ">", address);
    ss_value_put(r->to, object);
}

void ssi_python_value(const sspy_layout *layout, uint64_t address, ssi_written *to)
{
    ss_value_text text;
    const reader r = {layout, &text};

    ss_value_text_init(&text, to->shows_secrets);
    put_value(&r, address);
    ssi_write_text(to, text.bytes, text.length);
}
