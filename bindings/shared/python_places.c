/*
 * The place of an instruction in its source, from its code object's table of locations.
 *
 * The table has an entry for each run of one to eight code units.  It is a byte 1kkkklll (kind,
 * units less one) and the bytes that the kind needs, whose top bits are clear.  Lines are relative
 * to the entry before.  The interpreter's own function for lines walks the same table.  It gives
 * columns only after a second step, which costs a sixth of a whole capture; this reader gets
 * everything in one pass.
 */
#include "shared/python.h"

enum {
    KIND_ONE_LINE = 10, /* 10 to 12: that many lines further; two bytes hold the columns */
    KIND_NO_COLUMNS = 13,
    KIND_LONG = 14,
    KIND_NONE = 15 /* no place in the source; below 10: short columns on the same line */
};

typedef struct cursor {
    const unsigned char *at, *end;
} cursor;

static unsigned next_byte(cursor *c)
{
    return c->at < c->end ? *c->at++ : 0;
}

/* Each byte holds six bits, the lowest first; a seventh says that more follow. */
static unsigned next_number(cursor *c)
{
    unsigned number = 0, shift = 0, byte;

    do {
        byte = next_byte(c);
        if (shift < 32)
            number |= (byte & 0x3F) << shift;
        shift += 6;
    } while (byte & 0x40);
    return number;
}

static int next_signed(cursor *c)
{
    unsigned number = next_number(c);

    return number & 1 ? -(int)(number >> 1) : (int)(number >> 1);
}

/* How many lines an entry of this KIND, whose first byte was read, is after the entry before. */
static int lines_further(unsigned kind, cursor *c)
{
    if (kind == KIND_NO_COLUMNS || kind == KIND_LONG)
        return next_signed(c);
    return kind >= KIND_ONE_LINE && kind < KIND_NO_COLUMNS ? (int)kind - KIND_ONE_LINE : 0;
}

static uint32_t positive(int64_t number)
{
    return number > 0 && number <= INT32_MAX ? (uint32_t)number : 0;
}

/* Read the rest of the entry of this KIND at LINE; C is after what lines_further read. */
static sspy_position read_entry(unsigned kind, int64_t line, cursor *c)
{
    sspy_position position = {0};
    unsigned byte;

    if (kind == KIND_NONE)
        return position;
    position.line = position.end_line = positive(line);
    if (kind == KIND_NO_COLUMNS)
        return position;
    if (kind == KIND_LONG) {
        position.end_line = positive(line + next_number(c));
        position.column = positive(next_number(c)); /* stored as column + 1; 0: none */
        position.end_column = positive(next_number(c));
    } else if (kind >= KIND_ONE_LINE) {
        position.column = next_byte(c) + 1;
        position.end_column = next_byte(c) + 1;
    } else {
        byte = next_byte(c);
        position.column = (kind << 3 | byte >> 4) + 1;
        position.end_column = position.column + (byte & 15);
    }
    return position;
}

sspy_position sspy_position_in(const unsigned char *table, size_t size, int first_line, int lasti)
{
    cursor c = {table, table + size};
    int64_t line = first_line, unit = 0;
    sspy_position position = {0};

    if (lasti < 0)
        return (sspy_position){.line = positive(line)};
    while (c.at < c.end) {
        unsigned first = *c.at++, kind = first >> 3 & 15;

        line += lines_further(kind, &c);
        unit += (first & 7) + 1;
        if (lasti / SSPY_CODE_UNIT < unit) {
            position = read_entry(kind, line, &c);
            break;
        }
        while (c.at < c.end && !(*c.at & 0x80))
            c.at++;
    }
    position.prefix = (uint32_t)(c.at - table);
    return position;
}
