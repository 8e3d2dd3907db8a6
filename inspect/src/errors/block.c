
#include "base/base.h"
#include "errors/errors.h"
#include "shared/utf8.h"

#include <string.h>

/* ---- Texts ------------------------------------------------------------------------------------*/

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

const char *ssi_text_at(uint64_t address)
{
    size_t used = 0;

    if (!address)
        return NULL;
    for (size_t step; used < MAX_BYTES; used += step) {
        const char *end;

        step = 64 - (size_t)((address + used) % 64); /* never beyond a page */
        if (step > MAX_BYTES - used)
            step = MAX_BYTES - used;
        if (!ssi_read(address + used, text + used, step))
            return NULL;
        end = memchr(text + used, 0, step);
        if (end)
            return made((size_t)(end - text), false);
    }
    text[used] = 0;
    return made(used, true);
}

const char *ssi_bytes_at(uint64_t address, uint64_t length)
{
    size_t used = length < MAX_BYTES ? (size_t)length : MAX_BYTES;

    if (!address || !ssi_read(address, text, used))
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

const char *ssi_wide_at(uint64_t address, uint64_t units)
{
    static uint16_t wide[MAX_UNITS];
    size_t count = units < MAX_UNITS ? (size_t)units : MAX_UNITS, used = 0;

    if (!address || !ssi_read(address, wide, count * sizeof *wide))
        return NULL;
    for (size_t at = 0; at < count;)
        used += sspy_put_utf8(code_point(wide, count, &at), text + used);
    while (used && strchr(" \r\n\t", text[used - 1]))
        used--;
    text[used] = 0;
    return made(used, units > count);
}

/*
 * The signature is searched in the data of binaries, so that no symbol is needed: a program that is
 * linked statically and stripped has none.
 */

enum {
    STEP = 16, /* blocks are aligned to it */
    PART = 1 << 16,
    MAX_DATA = 64 << 20, /* of one mapping that is searched */
    MAX_NUMBER = 1 << 20
};

/* ---- One block --------------------------------------------------------------------------------*/

/* No division by zero, no offset that leads far away. */
static bool is_sane(const stacksplice_inspection_block *b)
{
    for (int i = 0; i < STACKSPLICE_NUMBERS; i++)
        if (b->numbers[i] < -MAX_NUMBER || b->numbers[i] > MAX_NUMBER)
            return false;
    return b->numbers[STACKSPLICE_NUMBER_CELLS] > 0 &&
           b->numbers[STACKSPLICE_NUMBER_CHUNK_CELLS] > 0 &&
           b->numbers[STACKSPLICE_NUMBER_CELL_SIZE] > 0 &&
           b->numbers[STACKSPLICE_NUMBER_CELL_WORDS] > 0 &&
           b->numbers[STACKSPLICE_NUMBER_FIXED_TOKENS] >= 0;
}

bool ssi_block_read(uint64_t address, ssi_block *block)
{
    return ssi_read(address, block, sizeof *block) && block->self == address && is_sane(block);
}

/* Only the beginning is the same in all versions. */
static void meet(const ssi_mapping *mapping, uint64_t address, ssi_blocks *blocks,
                 ssi_scripts *scripts)
{
    struct {
        char signature[16];
        uint64_t self;
        uint32_t version, size;
    } head;

    if (!ssi_read(address, &head, sizeof head) || head.self != address)
        return;
    if (head.version != STACKSPLICE_INSPECTION_VERSION ||
        head.size < sizeof(stacksplice_inspection_block))
        ssi_scripts_note(
            scripts, ssi_text_format("cannot read the errors of %s: its stacksplice has version "
                                     "%u of the block for readers, this one reads %u: use the "
                                     "stacksplice of that process",
                                     mapping->path, head.version, STACKSPLICE_INSPECTION_VERSION));
    else if (blocks->count < SSI_MAX_BLOCKS)
        blocks->addresses[blocks->count++] = address;
}

/* ---- The search -------------------------------------------------------------------------------*/

static void search(const ssi_mapping *mapping, ssi_blocks *blocks, ssi_scripts *scripts)
{
    static char part[PART];
    static const char signature[16] = STACKSPLICE_INSPECTION_SIGNATURE;

    for (uint64_t at = mapping->start; at < mapping->end; at += PART) {
        size_t size = mapping->end - at < PART ? (size_t)(mapping->end - at) : PART;

        if (!ssi_read(at, part, size))
            return;
        for (size_t i = 0; i + STEP <= size; i += STEP)
            if (!memcmp(part + i, signature, sizeof signature))
                meet(mapping, at + i, blocks, scripts);
    }
}

void ssi_blocks_find(const ssi_target *target, ssi_blocks *blocks, ssi_scripts *scripts)
{
    uint64_t end = 0;

    for (size_t i = 0; i < target->mapping_count; i++) {
        const ssi_mapping *m = &target->mappings[i];
        uint64_t begins = ssi_target_binary_end(target, i);

        if (begins)
            end = begins;
        if (m->end <= end && m->path && m->writable && m->end - m->start <= MAX_DATA)
            search(m, blocks, scripts);
    }
}
