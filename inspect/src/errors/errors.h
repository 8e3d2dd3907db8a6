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

/* The errors of a target's threads, with all that belongs to them, and its interpreters. */

typedef struct ssi_pending {
    int thread;     /* as the process itself knows it; 0: the process failed fast with it */
    uint64_t block; /* of the copy of stacksplice that has the error */
    uint64_t record;
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

/* What TOKEN stands for in any copy of stacksplice of BLOCKS. */
ssi_frame ssi_token_look_up(const ssi_blocks *blocks, uint64_t token);

#endif
