/* The functions of a binary, stripped or not, by the sorted table of their unwind data. */
#include "target/symbols.h"

#include <elf.h>
#include <string.h>

/* What every linker writes: version 1, the pointer of 4 bytes from here, a count of 4 bytes, rows
   of two differences of 4 bytes to the table's own start. */
static const unsigned char usual[] = {1, 0x1B, 3, 0x3B};
enum { HEAD = 12, ROW = 8 };

typedef struct table {
    const unsigned char *rows;
    uint32_t count;
    uint64_t address; /* of the table, in the target */
} table;

static bool find_table(const ssi_binary *binary, table *out)
{
    Elf64_Ehdr header;
    Elf64_Phdr program;

    memcpy(&header, binary->bytes, sizeof header);
    for (unsigned i = 0; i < header.e_phnum; i++) {
        uint64_t at = header.e_phoff + i * sizeof program;

        if (at > binary->size || binary->size - at < sizeof program)
            return false;
        memcpy(&program, binary->bytes + at, sizeof program);
        if (program.p_type != PT_GNU_EH_FRAME || program.p_offset > binary->size ||
            binary->size - program.p_offset < HEAD)
            continue;
        out->address = program.p_vaddr + binary->bias;
        out->rows = binary->bytes + program.p_offset + HEAD;
        memcpy(&out->count, out->rows - 4, sizeof out->count);
        return !memcmp(out->rows - HEAD, usual, sizeof usual) &&
               out->count <= (binary->size - program.p_offset - HEAD) / ROW;
    }
    return false;
}

static uint64_t start_of(const table *t, uint32_t row)
{
    int32_t difference;

    memcpy(&difference, t->rows + (size_t)row * ROW, sizeof difference);
    return t->address + (uint64_t)(int64_t)difference;
}

uint64_t ssi_binary_function(const ssi_binary *binary, uint64_t address, uint64_t *size)
{
    table t;
    uint32_t low = 0, high;

    *size = 0;
    if (!find_table(binary, &t))
        return 0;
    high = t.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (start_of(&t, middle) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return 0;
    if (low < t.count)
        *size = start_of(&t, low) - start_of(&t, low - 1);
    return start_of(&t, low - 1);
}
