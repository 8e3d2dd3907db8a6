#include "python/private.h"

#include "base/base.h"

#include <inttypes.h>

enum {
    DIGIT_BITS = 30,
    MAX_DIGITS = 12, /* larger numbers are not shown */
    INT_DIGITS = 24,
    FLOAT_VALUE = 16
};

typedef struct writing {
    const sspy_layout *layout;
    ssi_written *to;
    size_t values, text; /* so many may follow */
} writing;

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

static bool put_int(const writing *w, uint64_t address)
{
    uint32_t digits[MAX_DIGITS] = {0};
    uint64_t count;
    bool negative;

    if (!read_digits(w->layout, address, digits, &count, &negative))
        return false;
    if (count > MAX_DIGITS) {
        ssi_write(w->to, "{\"int\":null}");
    } else if (count <= 2) {
        ssi_write_format(w->to, "%s%" PRIu64, negative ? "-" : "",
                         digits[0] + ((uint64_t)digits[1] << DIGIT_BITS));
    } else {
        ssi_write_format(w->to, "{\"int\":[%d", negative ? -1 : 1);
        for (uint64_t i = 0; i < count; i++)
            ssi_write_format(w->to, ",%" PRIu32, digits[i]);
        ssi_write(w->to, "]}");
    }
    return true;
}

static bool put_bool(const writing *w, uint64_t address)
{
    uint32_t digits[MAX_DIGITS];
    uint64_t count;
    bool negative;

    if (!read_digits(w->layout, address, digits, &count, &negative))
        return false;
    ssi_write(w->to, count ? "true" : "false");
    return true;
}

static bool put_float(const writing *w, uint64_t address)
{
    double value;

    if (!ssi_read(address + FLOAT_VALUE, &value, sizeof value))
        return false;
    ssi_write_format(w->to, "{\"float\":\"%a\"}", value);
    return true;
}

/* ---- Texts ------------------------------------------------------------------------------------*/

/* Whether COUNT more are within the bounds: a part would hide secrets from those who search. */
static bool take_text(writing *w, size_t count)
{
    if (count > w->text)
        return false;
    w->text -= count;
    return true;
}

static bool put_str(writing *w, uint64_t address)
{
    ssi_python_characters text;

    if (!ssi_python_characters_of(w->layout, address, &text) || !take_text(w, text.count))
        return false;
    ssi_write(w->to, "\"");
    for (size_t i = 0; i < text.count; i++)
        ssi_write_character(w->to, ssi_python_character(&text, i));
    ssi_write(w->to, "\"");
    return true;
}

static bool put_bytes(writing *w, uint64_t address)
{
    static unsigned char bytes[SSI_SHOWN_CHARACTERS];
    uint64_t size;
    size_t shown;

    if (!ssi_read_word(address + SSPY_VAR_SIZE, &size))
        return false;
    shown = size < SSI_SHOWN_CHARACTERS ? (size_t)size : SSI_SHOWN_CHARACTERS;
    if (!take_text(w, shown) || !ssi_read(address + SSPY_BYTES_DATA, bytes, shown))
        return false;
    ssi_write(w->to, "{\"bytes\":");
    ssi_write_hex(w->to, bytes, shown);
    ssi_write(w->to, "}");
    return true;
}

/* ---- Containers -------------------------------------------------------------------------------*/

static void put_value(writing *w, uint64_t address, int depth);

static void put_items(writing *w, ssi_python_items *items, bool is_dict, int depth)
{
    uint64_t key, value;
    int count = 0;

    if (items->size && depth > SSI_SHOWN_DEPTH) {
        ssi_write_left_out(w->to, is_dict);
        return;
    }
    while (count < SSI_SHOWN_ITEMS && ssi_python_items_next(items, &key, &value)) {
        ssi_write(w->to, count++ ? "," : "");
        if (is_dict) {
            ssi_write(w->to, "[");
            put_value(w, key, depth);
            ssi_write(w->to, ",");
        }
        put_value(w, value, depth);
        ssi_write(w->to, is_dict ? "]" : "");
    }
    if (items->is_damaged) {
        ssi_write(w->to, count ? "," : "");
        ssi_write_left_out(w->to, is_dict);
    }
}

static bool put_container(writing *w, ssi_python_kind kind, const char *name, uint64_t address,
                          int depth)
{
    ssi_python_items items;

    if (!ssi_python_items_begin(&items, w->layout, kind, address))
        return false;
    ssi_write_format(w->to, "{\"%s\":[", name);
    put_items(w, &items, kind == SSI_PYTHON_DICT, depth + 1);
    ssi_write(w->to, "]}");
    return true;
}

/* ---- Values -----------------------------------------------------------------------------------*/

/* False if nothing was written. */
static bool put_plain(writing *w, ssi_python_kind kind, const char *name, uint64_t address,
                      int depth)
{
    switch (kind) {
    case SSI_PYTHON_NONE:
        ssi_write(w->to, "null");
        return true;
    case SSI_PYTHON_BOOL:
        return put_bool(w, address);
    case SSI_PYTHON_INT:
        return put_int(w, address);
    case SSI_PYTHON_FLOAT:
        return put_float(w, address);
    case SSI_PYTHON_STR:
        return put_str(w, address);
    case SSI_PYTHON_BYTES:
        return put_bytes(w, address);
    case SSI_PYTHON_OTHER:
    case SSI_PYTHON_CELL:
        return false;
    default:
        return put_container(w, kind, name, address, depth);
    }
}

static void put_value(writing *w, uint64_t address, int depth)
{
    char name[SSI_PYTHON_TYPE_ROOM];
    ssi_python_kind kind;

    if (!w->values) {
        ssi_write_left_out(w->to, false);
        return;
    }
    w->values--;
    kind = ssi_python_kind_of(address, name);
    if (!put_plain(w, kind, name, address, depth))
        ssi_write_other(w->to, name, address);
}

void ssi_python_value(const sspy_layout *layout, uint64_t address, ssi_written *to)
{
    writing w = {layout, to, SSI_SHOWN_VALUES, SSI_SHOWN_ALL_CHARACTERS};

    put_value(&w, address, 0);
}
