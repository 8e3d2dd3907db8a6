#include "python/text.h"

#include "base/texts.h"

#include <string.h>

enum {
    MAX_CHARACTERS = 4096,
    KIND_SHIFT = 2, /* of the state: the bytes a character has */
    KIND_MASK = 7,
    COMPACT = 0x20,
    ASCII = 0x40
};

static uint32_t character(const unsigned char *bytes, unsigned kind, size_t at)
{
    uint16_t two;
    uint32_t four;

    if (kind == 1)
        return bytes[at];
    if (kind == 2) {
        memcpy(&two, bytes + 2 * at, sizeof two);
        return two;
    }
    memcpy(&four, bytes + 4 * at, sizeof four);
    return four;
}

/* One character as UTF-8; what is none becomes U+FFFD.  Returns the bytes, at most four. */
static size_t put(uint32_t c, char *out)
{
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        c = 0xFFFD;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

const char *ssi_python_text(const ssi_memory *memory, const ssi_python_layout *layout,
                            uint64_t address)
{
    static unsigned char bytes[4 * MAX_CHARACTERS];
    static char out[4 * MAX_CHARACTERS];
    uint64_t length;
    uint32_t state;
    unsigned kind;
    size_t used = 0;

    if (!ssi_read_word(memory, address + SSI_TEXT_LENGTH, &length) ||
        !ssi_read(memory, address + SSI_TEXT_STATE, &state, sizeof state))
        return NULL;
    kind = state >> KIND_SHIFT & KIND_MASK;
    if (!(state & COMPACT) || (kind != 1 && kind != 2 && kind != 4) || length >> 40)
        return NULL;
    if (length > MAX_CHARACTERS)
        length = MAX_CHARACTERS;
    if (!ssi_read(memory, address + (state & ASCII ? layout->text_ascii : layout->text_compact),
                  bytes, (size_t)length * kind))
        return NULL;
    for (size_t i = 0; i < length; i++)
        used += put(character(bytes, kind, i), out + used);
    return ssi_text(out, used);
}
