#include "com/utf.h"

#include <stacksplice/source.h>

enum { REPLACEMENT = 0xFFFD };

/* ---- UTF-8 to UTF-16 -------------------------------------------------------------------------*/

/*
 * The shape of a sequence by its first byte: how many follow, and the range of the second, which
 * keeps out overlong forms and what is above U+10FFFF.  ED goes to BF: surrogates are let through.
 */
static int sequence_tail(unsigned char first, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (first < 0x80)
        return 0;
    if (first >= 0xC2 && first <= 0xDF)
        return 1;
    if (first >= 0xE0 && first <= 0xEF) {
        if (first == 0xE0)
            *low = 0xA0;
        return 2;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        if (first == 0xF0)
            *low = 0x90;
        if (first == 0xF4)
            *high = 0x8F;
        return 3;
    }
    return -1;
}

/* The code point at *AT, which moves behind it or behind the invalid part. */
static uint32_t decode(const unsigned char *text, size_t length, size_t *at)
{
    static const unsigned char first_bits[] = {0x7F, 0x1F, 0x0F, 0x07};
    unsigned char low, high;
    unsigned char first = text[(*at)++];
    int tail = sequence_tail(first, &low, &high);
    uint32_t point;

    if (tail < 0)
        return REPLACEMENT;
    point = first & first_bits[tail];
    for (; tail > 0; tail--, low = 0x80, high = 0xBF) {
        if (*at == length || text[*at] < low || text[*at] > high)
            return REPLACEMENT;
        point = point << 6 | (text[(*at)++] & 0x3F);
    }
    return point;
}

size_t ss_utf16_from_utf8(const char *text, size_t length, WCHAR *out, size_t capacity)
{
    size_t plain = length < capacity ? length : capacity;
    size_t stored = 0;

    while (stored < plain && (unsigned char)text[stored] < 0x80) {
        out[stored] = (WCHAR)text[stored];
        stored++;
    }
    for (size_t at = stored; at < length && stored < capacity;) {
        uint32_t point = decode((const unsigned char *)text, length, &at);

        if (point < 0x10000) {
            out[stored++] = (WCHAR)point;
            continue;
        }
        point -= 0x10000;
        out[stored++] = (WCHAR)(0xD800 + (point >> 10));
        if (stored < capacity)
            out[stored++] = (WCHAR)(0xDC00 + (point & 0x3FF));
    }
    return stored;
}

/* ---- UTF-16 to UTF-8 -------------------------------------------------------------------------*/

/* The code point at *AT, which moves behind it; an unpaired surrogate is U+FFFD. */
static uint32_t join(const WCHAR *text, uint32_t units, uint32_t *at)
{
    uint32_t unit = text[(*at)++];

    if (unit < 0xD800 || unit > 0xDFFF)
        return unit;
    if (unit < 0xDC00 && *at < units && text[*at] >= 0xDC00 && text[*at] <= 0xDFFF)
        return 0x10000 + ((unit - 0xD800) << 10) + (text[(*at)++] - 0xDC00u);
    return REPLACEMENT;
}

static size_t encode(uint32_t point, char out[4])
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (char)(0xC0 | point >> 6);
        out[1] = (char)(0x80 | (point & 0x3F));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (char)(0xE0 | point >> 12);
        out[1] = (char)(0x80 | (point >> 6 & 0x3F));
        out[2] = (char)(0x80 | (point & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | point >> 18);
    out[1] = (char)(0x80 | (point >> 12 & 0x3F));
    out[2] = (char)(0x80 | (point >> 6 & 0x3F));
    out[3] = (char)(0x80 | (point & 0x3F));
    return 4;
}

size_t stacksplice_utf8(const WCHAR *text, uint32_t units, char *out, size_t capacity)
{
    size_t needed = 0;
    size_t stored = 0;
    bool full = !out || !capacity;

    for (uint32_t at = 0; text && at < units;) {
        char bytes[4];
        size_t count = encode(join(text, units, &at), bytes);

        needed += count;
        full = full || stored + count >= capacity;
        for (size_t i = 0; !full && i < count; i++)
            out[stored++] = bytes[i];
    }
    if (out && capacity)
        out[stored] = 0;
    return needed;
}
