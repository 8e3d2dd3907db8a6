#include "python/text.h"

#include "base/texts.h"
#include "frames/utf8.h"

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
        used += sspy_put_utf8(character(bytes, kind, i), out + used);
    return ssi_text(out, used);
}
