#include "errors/text.h"

#include "base/texts.h"
#include "frames/utf8.h"

#include <string.h>

enum { MAX_BYTES = 1 << 16, MAX_UNITS = 1 << 14 };

static char text[MAX_BYTES + 4];

/* The first USED bytes of TEXT; so many, if they are CUT, that no character is. */
static const char *made(size_t used, bool cut)
{
    if (cut) {
        while (used && (text[used] & 0xC0) == 0x80)
            used--;
        memset(text + used, '.', 3);
        used += 3;
    }
    return ssi_text(text, used);
}

const char *ssi_text_at(const ssi_memory *memory, uint64_t address)
{
    size_t used = 0;

    if (!address)
        return NULL;
    for (size_t step; used < MAX_BYTES; used += step) {
        const char *end;

        step = 64 - (size_t)((address + used) % 64); /* never beyond a page */
        if (step > MAX_BYTES - used)
            step = MAX_BYTES - used;
        if (!ssi_read(memory, address + used, text + used, step))
            return NULL;
        end = memchr(text + used, 0, step);
        if (end)
            return made((size_t)(end - text), false);
    }
    text[used] = 0;
    return made(used, true);
}

const char *ssi_bytes_at(const ssi_memory *memory, uint64_t address, uint64_t length)
{
    size_t used = length < MAX_BYTES ? (size_t)length : MAX_BYTES;

    if (!address || !ssi_read(memory, address, text, used))
        return NULL;
    for (char *nul = text; (nul = memchr(nul, 0, used - (size_t)(nul - text))) != NULL;)
        *nul = (char)0xFF;
    text[used] = 0;
    return made(used, length > used);
}

/* The code point that begins at UNITS[*AT], with *AT behind it. */
static uint32_t code_point(const uint16_t *units, size_t count, size_t *at)
{
    uint32_t unit = units[(*at)++];

    if (unit < 0xD800 || unit > 0xDFFF)
        return unit ? unit : 0xFFFD;
    if (unit > 0xDBFF || *at == count || units[*at] < 0xDC00 || units[*at] > 0xDFFF)
        return 0xFFFD;
    return 0x10000 + ((unit - 0xD800) << 10) + (units[(*at)++] - 0xDC00u);
}

const char *ssi_wide_at(const ssi_memory *memory, uint64_t address, uint64_t units)
{
    static uint16_t wide[MAX_UNITS];
    size_t count = units < MAX_UNITS ? (size_t)units : MAX_UNITS, used = 0;

    if (!address || !ssi_read(memory, address, wide, count * sizeof *wide))
        return NULL;
    for (size_t at = 0; at < count;)
        used += sspy_put_utf8(code_point(wide, count, &at), text + used);
    while (used && strchr(" \r\n\t", text[used - 1]))
        used--;
    text[used] = 0;
    return made(used, units > count);
}
