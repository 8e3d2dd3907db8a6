#include "python/text.h"

#include "base/shown.h"
#include "base/texts.h"
#include "frames/utf8.h"

#include <string.h>

enum {
    KIND_SHIFT = 2, /* of the state: the bytes a character has */
    KIND_MASK = 7,
    COMPACT = 0x20,
    ASCII = 0x40
};

uint32_t ssi_python_character(const ssi_python_characters *of, size_t at)
{
    uint16_t two;
    uint32_t four;

    if (of->kind == 1)
        return of->bytes[at];
    if (of->kind == 2) {
        memcpy(&two, of->bytes + 2 * at, sizeof two);
        return two;
    }
    memcpy(&four, of->bytes + 4 * at, sizeof four);
    return four;
}

bool ssi_python_characters_of(const ssi_memory *memory, const ssi_python_layout *layout,
                              uint64_t address, ssi_python_characters *out)
{
    static unsigned char bytes[4 * SSI_SHOWN_CHARACTERS];
    uint64_t length;
    uint32_t state;
    unsigned kind;

    if (!ssi_read_word(memory, address + SSI_TEXT_LENGTH, &length) ||
        !ssi_read(memory, address + SSI_TEXT_STATE, &state, sizeof state))
        return false;
    kind = state >> KIND_SHIFT & KIND_MASK;
    if (!(state & COMPACT) || (kind != 1 && kind != 2 && kind != 4) || length >> 40)
        return false;
    if (length > SSI_SHOWN_CHARACTERS)
        length = SSI_SHOWN_CHARACTERS;
    *out = (ssi_python_characters){bytes, kind, (size_t)length};
    return ssi_read(memory, address + (state & ASCII ? layout->text_ascii : layout->text_compact),
                    bytes, (size_t)length * kind);
}

bool ssi_python_text_is(const ssi_memory *memory, const ssi_python_layout *layout, uint64_t address,
                        const char *text)
{
    char bytes[32];
    uint64_t length;
    uint32_t state;

    return ssi_read_word(memory, address + SSI_TEXT_LENGTH, &length) && length == strlen(text) &&
           length <= sizeof bytes &&
           ssi_read(memory, address + SSI_TEXT_STATE, &state, sizeof state) && (state & ASCII) &&
           ssi_read(memory, address + layout->text_ascii, bytes, (size_t)length) &&
           !memcmp(bytes, text, (size_t)length);
}

const char *ssi_python_text(const ssi_memory *memory, const ssi_python_layout *layout,
                            uint64_t address)
{
    static char out[4 * SSI_SHOWN_CHARACTERS];
    ssi_python_characters characters;
    size_t used = 0;

    if (!ssi_python_characters_of(memory, layout, address, &characters))
        return NULL;
    for (size_t i = 0; i < characters.count; i++)
        used += sspy_put_utf8(ssi_python_character(&characters, i), out + used);
    return ssi_text(out, used);
}
