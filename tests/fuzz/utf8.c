#include "utf8.h"

#include "input.h"

int utf8_collect(const char *bytes, size_t size, void *data)
{
    utf8_output *out = data;

    if (out->room - out->size < size) {
        out->room = 2 * (out->size + size);
        out->bytes = realloc(out->bytes, out->room);
        ALWAYS(out->bytes);
    }
    memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
    return 0;
}

/* One character of at most LEFT bytes into *POINT; its length, or 0 when it is not valid. */
static size_t decode(const uint8_t *at, size_t left, uint32_t *point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = *at < 0x80   ? 1
                    : *at < 0xc2 ? 0
                    : *at < 0xe0 ? 2
                    : *at < 0xf0 ? 3
                    : *at < 0xf5 ? 4
                                 : 0;

    if (!length || length > left)
        return 0;
    *point = length == 1 ? *at : *at & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        *point = *point << 6 | (at[i] & 0x3f);
    }
    if (*point < least[length] || *point > 0x10ffff || (*point >= 0xd800 && *point < 0xe000))
        return 0;
    return length;
}

static bool is_deceptive(uint32_t point)
{
    static const uint32_t all[] = {0x61c,  0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b,
                                   0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (point == all[i])
            return true;
    return false;
}

static bool is_control(uint32_t point)
{
    return point < 0x20 || (point >= 0x7f && point < 0xa0);
}

bool utf8_is_harmless(const utf8_output *out, ss_escape escape, const char *allowed)
{
    const uint8_t *bytes = (const uint8_t *)out->bytes;
    size_t length;

    for (size_t i = 0; i < out->size; i += length) {
        uint32_t point;

        length = decode(bytes + i, out->size - i, &point);
        if (!length)
            return false;
        if (is_control(point) && !(point && point < 0x80 && strchr(allowed, (int)point)))
            return false;
        if (escape != SS_ESCAPE_JSON && is_deceptive(point))
            return false;
    }
    return true;
}
