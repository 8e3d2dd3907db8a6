#include "base/utf.h"

#include <stacksplice/script.h>

uint32_t ss_utf8_next(const char *bytes, size_t length, size_t *at)
{
    const unsigned char *text = (const unsigned char *)bytes;
    unsigned char first = text[(*at)++];
    /* The range of the second byte excludes overlong forms and code points above U+10FFFF. */
    unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char high = first == 0xF4 ? 0x8F : 0xBF;
    int tail = first < 0x80 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    uint32_t point = tail ? first & (0x3Fu >> tail) : first;

    if ((first >= 0x80 && first < 0xC2) || first > 0xF4)
        return SS_REPLACEMENT;
    for (; tail > 0; tail--, low = 0x80, high = 0xBF) {
        if (*at == length || text[*at] < low || text[*at] > high)
            return SS_REPLACEMENT;
        point = point << 6 | (text[(*at)++] & 0x3F);
    }
    return point;
}

uint32_t ss_utf16_next(const uint16_t *text, size_t length, size_t *at)
{
    uint32_t unit = text[(*at)++];

    if (unit < 0xD800 || unit > 0xDFFF)
        return unit;
    if (unit < 0xDC00 && *at < length && text[*at] >= 0xDC00 && text[*at] <= 0xDFFF)
        return 0x10000 + ((unit - 0xD800) << 10) + (text[(*at)++] - 0xDC00u);
    return SS_REPLACEMENT;
}

size_t ss_utf8_put(uint32_t point, char out[4])
{
    unsigned tail = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;

    out[0] = (char)(point >> 6 * tail | (tail ? ~(0x7Fu >> tail) & 0xFF : 0));
    for (unsigned i = 1; i <= tail; i++)
        out[i] = (char)(0x80 | (point >> 6 * (tail - i) & 0x3F));
    return tail + 1;
}

size_t ss_utf16_from_utf8(const char *text, size_t length, uint16_t *out, size_t capacity)
{
    size_t plain = length < capacity ? length : capacity;
    size_t stored = 0;

    while (stored < plain && (unsigned char)text[stored] < 0x80) {
        out[stored] = (uint16_t)text[stored];
        stored++;
    }
    for (size_t at = stored; at < length && stored < capacity;) {
        uint32_t point = ss_utf8_next(text, length, &at);

        if (point < 0x10000) {
            out[stored++] = (uint16_t)point;
            continue;
        }
        point -= 0x10000;
        out[stored++] = (uint16_t)(0xD800 + (point >> 10));
        if (stored < capacity)
            out[stored++] = (uint16_t)(0xDC00 + (point & 0x3FF));
    }
    return stored;
}

size_t stacksplice_utf8(const uint16_t *text, uint32_t units, char *out, size_t capacity)
{
    size_t needed = 0;
    size_t stored = 0;
    bool full = !out || !capacity;

    for (size_t at = 0; text && at < units;) {
        char bytes[4];
        size_t count = ss_utf8_put(ss_utf16_next(text, units, &at), bytes);

        needed += count;
        full = full || stored + count >= capacity;
        for (size_t i = 0; !full && i < count; i++)
            out[stored++] = bytes[i];
    }
    if (out && capacity)
        out[stored] = 0;
    return needed;
}
