#ifndef SSI_ERRORS_H
#define SSI_ERRORS_H

#include "base/base.h"
#include "target/frame.h"
#include "target/target.h"

#include <stacksplice/debugger.h>

/* The blocks by which copies of stacksplice in a target say where things are. */

enum { SSI_MAX_BLOCKS = 8 };

typedef struct ssi_blocks {
    uint64_t addresses[SSI_MAX_BLOCKS];
    size_t count;
} ssi_blocks;

typedef stacksplice_inspection_block ssi_block;

/* Search the binaries of TARGET, with symbols or without.  A block of another version is noted. */
void ssi_blocks_find(const ssi_target *target, ssi_blocks *blocks, ssi_scripts *scripts);
/* Read the block at ADDRESS as it is now; false if it is damaged. */
bool ssi_block_read(uint64_t address, ssi_block *block);

/* Texts of a target.  All are NULL if they cannot be read, and end in "..." if they are cut. */

/* The text at ADDRESS, which ends in a NUL. */
const char *ssi_text_at(uint64_t address);
/* LENGTH bytes there.  A NUL in them becomes U+FFFD. */
const char *ssi_bytes_at(uint64_t address, uint64_t length);
/* UNITS of UTF-16 there, without white space at the end. */
const char *ssi_wide_at(uint64_t address, uint64_t units);

/* The errors of a target's threads, with all that belongs to them, and its interpreters. */

typedef struct ssi_pending {
    int thread;      /* as the process itself knows it; 0: the process failed fast with it */
    uint64_t block;  /* of the copy of stacksplice that has the error */
    uint64_t record; /* 0: it is what a stowed record says */
} ssi_pending;

/* An interpreter that a binding knows. */
typedef struct ssi_interpreter {
    const char *language, *version; /* VERSION may be NULL */
    uint64_t address;
} ssi_interpreter;

typedef struct ssi_errors {
    ssi_pending *pending;
    size_t pending_count, pending_room;
    bool hidden; /* a thread has an error in each of several copies of stacksplice */
    ssi_interpreter *interpreters;
    size_t interpreter_count, interpreter_room;
} ssi_errors;

/* Says of the frames of a stack what only their binaries tell. */
typedef struct ssi_describer {
    void (*describe)(void *data, ssi_frames *stack);
    void *data;
} ssi_describer;

/* Find the errors that the copies of stacksplice at BLOCKS have, and read all of them once.  What
   cannot be read is noted. */
void ssi_errors_read(const ssi_blocks *blocks, ssi_errors *errors, ssi_scripts *scripts);
/* Write the error of THREAD, or of the fail fast: 0; false if there is none. */
bool ssi_errors_write(const ssi_errors *errors, int thread, const ssi_describer *describer,
                      ssi_written *to);
void ssi_errors_free(ssi_errors *errors);

/* What the tokens of a target stand for. */

/* The frame of ELEMENT of a stack: that of a token, or a native one with its address alone.
 *LEFT_OUT grows by the frames that it stands for, if it is the gap in a long stack. */
ssi_frame ssi_token_frame(const ssi_block *block, uint64_t element, uint64_t *left_out);
/* What TOKEN stands for in any copy of stacksplice of BLOCKS. */
ssi_frame ssi_token_look_up(const ssi_blocks *blocks, uint64_t token);

#endif
