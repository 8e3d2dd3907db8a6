/* The blocks by which copies of stacksplice in a target say where things are. */
#ifndef SSI_BLOCK_H
#define SSI_BLOCK_H

#include "target/frame.h"
#include "target/target.h"

#include <stacksplice/debugger.h>

enum { SSI_MAX_BLOCKS = 8 };

typedef struct ssi_blocks {
    uint64_t addresses[SSI_MAX_BLOCKS];
    size_t count;
} ssi_blocks;

typedef struct ssi_block {
    const ssi_memory *memory;
    stacksplice_inspection_block words;
} ssi_block;

/* Search the binaries of TARGET, with symbols or without.  A block of another version is noted. */
void ssi_blocks_find(const ssi_target *target, ssi_blocks *blocks, ssi_scripts *scripts);
/* Read the block at ADDRESS as it is now; false if it is damaged. */
bool ssi_block_read(const ssi_memory *memory, uint64_t address, ssi_block *block);

#endif
