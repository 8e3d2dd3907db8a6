/*
 * The signature is searched in the data of binaries, so that no symbol is needed: a program that is
 * linked statically and stripped has none.
 */
#include "errors/block.h"

#include "base/texts.h"

#include <string.h>

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

bool ssi_block_read(const ssi_memory *memory, uint64_t address, ssi_block *block)
{
    block->memory = memory;
    return ssi_read(memory, address, &block->words, sizeof block->words) &&
           block->words.self == address && is_sane(&block->words);
}

/* Only the beginning is the same in all versions. */
static void meet(const ssi_target *target, const ssi_mapping *mapping, uint64_t address,
                 ssi_blocks *blocks, ssi_scripts *scripts)
{
    struct {
        char signature[16];
        uint64_t self;
        uint32_t version, size;
    } head;

    if (!ssi_read(&target->memory, address, &head, sizeof head) || head.self != address)
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

static void search(const ssi_target *target, const ssi_mapping *mapping, ssi_blocks *blocks,
                   ssi_scripts *scripts)
{
    static char part[PART];
    static const char signature[16] = STACKSPLICE_INSPECTION_SIGNATURE;

    for (uint64_t at = mapping->start; at < mapping->end; at += PART) {
        size_t size = mapping->end - at < PART ? (size_t)(mapping->end - at) : PART;

        if (!ssi_read(&target->memory, at, part, size))
            return;
        for (size_t i = 0; i + STEP <= size; i += STEP)
            if (!memcmp(part + i, signature, sizeof signature))
                meet(target, mapping, at + i, blocks, scripts);
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
            search(target, m, blocks, scripts);
    }
}
