/*
 * The memory of another process or of a core file.  Every read is checked: what is not there, or
 * not readable, gives false, and nothing is ever followed unread.  So does every read when too much
 * was read already: all that follows what it reads ends then.
 */
#ifndef SSI_MEMORY_H
#define SSI_MEMORY_H

#include "base/budget.h"

#include <stdint.h>

typedef struct ssi_memory {
    /* All SIZE bytes at ADDRESS to OUT, or false. */
    bool (*read)(void *data, uint64_t address, void *out, size_t size);
    void *data;
} ssi_memory;

static inline bool ssi_read(const ssi_memory *memory, uint64_t address, void *out, size_t size)
{
    return address + size >= address && ssi_budget_takes(size) &&
           memory->read(memory->data, address, out, size);
}

static inline bool ssi_read_word(const ssi_memory *memory, uint64_t address, uint64_t *out)
{
    return address && ssi_read(memory, address, out, sizeof *out);
}

#endif
