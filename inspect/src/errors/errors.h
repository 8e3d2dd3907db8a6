#ifndef SSI_ERRORS_H
#define SSI_ERRORS_H

#include "native/native.h"
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

/* The errors of a target's threads, with all that belongs to them, and its interpreters. */

/* A part of one of the lists in ssi_errors. */
typedef struct ssi_part {
    size_t first, count;
} ssi_part;

typedef struct ssi_error_stack {
    ssi_part frames;
    uint64_t left_out;
} ssi_error_stack;

/* A language that received the error. */
typedef struct ssi_node {
    const char *language;
    uint64_t thread_id;
    ssi_error_stack stack;
} ssi_node;

/* Texts are those of base/texts.c, NULL if there is none. */
typedef struct ssi_error {
    int32_t hresult;
    uint64_t thread_id;
    const char *message, *type, *language, *reference;
    const char *relation; /* to the error before it in a list of causes; NULL: it is in none */
    ssi_error_stack stack;
    ssi_part nodes, notes; /* oldest first */
    bool group;
    uint32_t members_left_out, causes_left_out;
    const char *above; /* how an error that encloses this one, and is its cause again, relates */
    /* Numbers of errors in their list; 0: none. */
    size_t next; /* in the list that this one is in */
    size_t members, causes;
} ssi_error;

typedef struct ssi_pending {
    int thread; /* as the process itself knows it; 0: the process failed fast with it */
    size_t error;
} ssi_pending;

/* An interpreter that a binding knows. */
typedef struct ssi_interpreter {
    const char *language, *version; /* VERSION may be NULL */
    uint64_t address;
} ssi_interpreter;

typedef struct ssi_errors {
    ssi_error *items; /* the first one is unused */
    size_t count, room;
    ssi_frames frames;
    ssi_node *nodes;
    size_t node_count, node_room;
    const char **notes;
    size_t note_count, note_room;
    ssi_pending *pending;
    size_t pending_count, pending_room;
    bool hidden; /* a thread has an error in each of several copies of stacksplice */
    ssi_interpreter *interpreters;
    size_t interpreter_count, interpreter_room;
} ssi_errors;

/* Add the errors that the copies of stacksplice at BLOCKS have.  What cannot be read is noted. */
void ssi_errors_read(const ssi_blocks *blocks, ssi_errors *errors, ssi_scripts *scripts);
/* Tell each native frame its binary. */
void ssi_errors_describe(ssi_errors *errors, ssi_native *native);
/* The error of THREAD, or of the fail fast: 0; NULL if there is none. */
const ssi_error *ssi_errors_of(const ssi_errors *errors, int thread);
void ssi_errors_free(ssi_errors *errors);

/* What the tokens of a target stand for. */

/* The frame of ELEMENT of a stack: that of a token, or a native one with its address alone.
 *LEFT_OUT grows by the frames that it stands for, if it is the gap in a long stack. */
ssi_frame ssi_token_frame(const ssi_block *block, uint64_t element, uint64_t *left_out);
/* What TOKEN stands for in any copy of stacksplice of BLOCKS. */
ssi_frame ssi_token_look_up(const ssi_blocks *blocks, uint64_t token);

#endif
