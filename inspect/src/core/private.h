/* What the files of this folder share. */
#ifndef SSI_CORE_PRIVATE_H
#define SSI_CORE_PRIVATE_H

#include "core/core.h"

#include <elf.h>

enum { SSI_MAX_THREADS = 1 << 16 };

typedef struct ssi_segment {
    uint64_t in_file; /* so many of its first bytes are in the core, at OFFSET */
    uint64_t offset;
    int fd; /* of the mapped file; -1: not open, -2: cannot be used */
} ssi_segment;

struct ssi_core {
    const unsigned char *bytes;
    size_t size;
    unsigned owner; /* of the file */
    ssi_target *target;
    ssi_segment *segments;
    size_t segment_count, segment_room;
    ssi_mapping *files; /* what was mapped there has no segment */
    size_t file_count, file_room;
    uint64_t noted; /* bytes of notes that were read */
};

/* SIZE bytes of the file at OFFSET, or NULL. */
static inline const void *ssi_core_part(const ssi_core *core, uint64_t offset, uint64_t size)
{
    return offset <= core->size && size <= core->size - offset ? core->bytes + offset : NULL;
}

/* Read threads, name and files from the notes in SIZE bytes at OFFSET. */
void ssi_core_read_notes(ssi_core *core, uint64_t offset, uint64_t size);
/* The memory of the process when it died. */
ssi_memory ssi_core_memory(ssi_core *core);

#endif
