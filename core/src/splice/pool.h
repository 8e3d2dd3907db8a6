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

#include "splice/content.h"

#include <stdatomic.h>

#define SS_POOL_CELLS (UINT32_C(1) << 18)
#define SS_CELL_WORDS 13

typedef struct ss_cell {
    _Atomic uint64_t state; /* generation << 1, plus 1 if it is the first of a row */
    _Atomic uint32_t next;  /* of the row or of the free list; 0: none */
    _Atomic uint32_t seen;  /* the last epoch in which the row was requested */
    uint32_t hash;          /* (LOCK) of the row, in its first cell */
    _Atomic uint64_t row[SS_CELL_WORDS];
} ss_cell;

/* SS_POOL_CELLS; tests set a smaller multiple of 1024 before the first token. */
extern uint32_t ss_pool_limit;

/* How often the epoch has changed; starts at 1. */
extern _Atomic uint32_t ss_pool_epoch;

/*
 * The id of a row that equals CONTENT, or 0.  Marks that row as seen in this epoch.  Signal safe.
 */
uint64_t ss_pool_find(const ss_content *content);

typedef enum ss_pool_verdict { SS_POOL_UNKNOWN, SS_POOL_DROPPED, SS_POOL_KNOWN } ss_pool_verdict;

/*
 * Decode the row of ID, when it is known, into INFO.  BUFFER receives its strings; one that does
 * not fit is cut and marked, and one with no room left is NULL.  *NEEDED is the room for all of
 * them.  Signal safe.
 */
ss_pool_verdict ss_pool_read(uint64_t id, stacksplice_token_info *info, char *buffer,
                             size_t capacity, size_t *needed);

/* Keep the row of ID, if there is one, through the next sweep.  Signal safe. */
void ss_pool_hold(uint64_t id);

/* Memory for the pool, mapped and unmapped without its lock. */
typedef struct ss_pool_supply {
    void *memory;
    size_t bytes;
    size_t wanted; /* set by ss_pool_prepare: what is missing */
} ss_pool_supply;

/* Map what is wanted; false when out of memory. */
bool ss_pool_map(ss_pool_supply *supply);
void ss_pool_unmap(ss_pool_supply *supply);

/* ---- Under the lock of the tokens -------------------------------------------------------------*/

/* What the caller must do before adding a row: map what SUPPLY wants, or sweep. */
typedef enum ss_pool_state { SS_POOL_READY, SS_POOL_WANTS_MEMORY, SS_POOL_IS_FULL } ss_pool_state;
ss_pool_state ss_pool_prepare(const ss_content *content, ss_pool_supply *supply);

/* Add CONTENT; the pool must be ready for it.  Returns its id. */
uint64_t ss_pool_add(const ss_content *content);

/*
 * Drop rows until a quarter of the cells is free, and change the epoch.  First drop rows that are
 * not held and were not seen in this epoch or the one before.  If that frees too little, drop all
 * not seen in this epoch; then all.
 */
void ss_pool_sweep(void);

#endif
