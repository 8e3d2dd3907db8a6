/*
 * The memory of tokens: a bounded number of equal cells.  A row of words takes one or more.
 *
 * The first cell of a row identifies its token:
 *
 *      id = generation * SS_POOL_CELLS + cell
 *
 * Later rows reuse the cells of a dropped row under another generation, so an id never gets a
 * second meaning.  Cells are mapped when first needed, not allocated, and never unmapped.  A reader
 * of a cell that is being rewritten reads garbage, detects it by the generation, and discards it.
 * So readers need no lock.
 */
#ifndef SS_POOL_H
#define SS_POOL_H

#include "base/platform.h"
#include "splice/token.h"
#include "unwind/unwind.h"

#include <stacksplice/source.h>
#include <stdatomic.h>
#include <string.h>

enum {
    SS_LANGUAGE_BYTES = 63,
    SS_FILE_BYTES = 4095,
    SS_NAME_BYTES = 1023, /* of functions, interpreters and reasons */
};

#define SS_POOL_CELLS (UINT32_C(1) << 18)
#define SS_CELL_WORDS 13

typedef struct ss_cell {
    _Atomic uint64_t state;     /* generation << 1, plus 1 if it is the first of a row */
    _Atomic uint32_t next;      /* of the row or of the free list; 0: none */
    _Atomic uint32_t seen;      /* the last epoch in which the row was requested */
    _Atomic uint32_t hash;      /* of the row, in its first cell */
    _Atomic uint32_t same_hash; /* the next row with a like hash; 0: none */
    _Atomic uint64_t row[SS_CELL_WORDS];
} ss_cell;

/* SS_POOL_CELLS; tests set a smaller multiple of 1024 before the first token. */
extern uint32_t ss_pool_limit;

/* ---- The cells of the pool --------------------------------------------------------------------*/

enum { SS_CHUNK_CELLS = 1024 };

/* The chunks; NULL where one is not mapped yet. */
extern _Atomic(ss_cell *) ss_row_chunks[SS_POOL_CELLS / SS_CHUNK_CELLS];

/* ---- Parts of tokens that only capture, the errors and tests use ------------------------------*/

/*
 * The core's own gaps, which exist from the start: those needed when no memory is left, and those
 * that a capture in a signal handler may need first.
 */
#define SS_OWN_GAPS(X)                                                                      \
    X(NO_MEMORY, EXACT, "frames missing here: out of memory")                               \
    X(NO_WAIT, EXACT, "signal arrived while another frame was being recorded")              \
    X(REENTERED, EXACT, "signal handler interrupted another capture")                       \
    X(INFERRED, INFERRED,                                                                   \
      "no unwind data here: the following frames were found by frame pointers or calls")    \
    X(DISAGREE, EXACT, "two languages claim the same native frames")                        \
    X(OUT_OF_ORDER, EXACT, "frames omitted: a frame source reported them out of order")     \
    X(NO_ROOM, EXACT, "stack has more than 2048 native frames: out of memory for the rest") \
    X(TOO_DEEP, EXACT, "stack has more than 65536 native frames")

#define SS_TOKEN_ID(name, ...) SS_TOKEN_##name,
#define SS_TOKEN_END_ID(name, ...) SS_TOKEN_END_##name,

/* Their ids. */
enum { SS_OWN_GAPS(SS_TOKEN_ID) SS_UNWIND_REASONS(SS_TOKEN_END_ID) SS_TOKEN_FIXED_COUNT };

/* What they stand for, by id. */
extern const stacksplice_token_info ss_token_fixed[SS_TOKEN_FIXED_COUNT];

#define SS_TOKEN_DROPPED_REASON "name of this frame evicted: too many newer code locations"

/* Signal safe. */
uintptr_t ss_token_of(uint64_t id);

/*
 * Set WALK, or NULL, as the stack that sources read in this thread now.  If a signal interrupted
 * one of its frames, the thread must not wait to store a description.
 */
void ss_token_looks_at(const stacksplice_walk *walk);

/*
 * Register the owner of stored stacks.  Before a sweep, HOLDER is called and calls ss_token_hold
 * for their elements.  It may take a lock under which nothing requests a token.  Set at load.
 */
void ss_token_set_holder(void (*holder)(void));
void ss_token_hold(uintptr_t element);

#endif
