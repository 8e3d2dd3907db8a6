#include "com/utf.h"

#include "base/utf.h"
#include <stacksplice/script.h>

size_t ss_utf16_from_utf8(const char *text, size_t length, WCHAR *out, size_t capacity)
{
    size_t plain = length < capacity ? length : capacity;
    size_t stored = 0;

    while (stored < plain && (unsigned char)text[stored] < 0x80) {
        out[stored] = (WCHAR)text[stored];
        stored++;
    }
    for (size_t at = stored; at < length && stored < capacity;) {
        uint32_t point = ss_utf8_next(text, length, &at);

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

size_t stacksplice_utf8(const WCHAR *text, uint32_t units, char *out, size_t capacity)
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
