/*
 * The memory of tokens: a bounded number of equal cells, of which a row of words takes one or more.
 *
 * The first cell of a row is where its token is found: id = generation * SS_POOL_CELLS + cell.  A
 * row that is dropped leaves its cells to later rows, under another generation, so that an id never
 * comes to mean anything else.  Cells are mapped when they are first needed, not through the
 * allocator, and never unmapped: who reads one that is being written again reads nonsense, sees by
 * the generation that it is, and believes nothing of it.  So readers need no lock.
 */
#ifndef SS_POOL_H
#define SS_POOL_H

#include "splice/content.h"

#include <stdatomic.h>

#define SS_POOL_CELLS (UINT32_C(1) << 18)
#define SS_CELL_WORDS 13

typedef struct ss_cell {
    _Atomic uint64_t state; /* generation << 1, and 1 while it is the first of a row */
    _Atomic uint32_t next;  /* of the row, or of the free ones; 0: none */
    _Atomic uint32_t seen;  /* the epoch in which the row was last asked for */
    uint32_t hash;          /* (LOCK) of the row, in its first cell */
    _Atomic uint64_t row[SS_CELL_WORDS];
} ss_cell;

/* SS_POOL_CELLS; tests make it smaller, a multiple of 1024, before the first token. */
extern uint32_t ss_pool_limit;

/* How often the epoch has changed; begins with 1. */
extern _Atomic uint32_t ss_pool_epoch;

/* The id of a row that equals CONTENT, or 0.  That row is seen in this epoch.  Signal safe. */
uint64_t ss_pool_find(const ss_content *content);

typedef enum ss_pool_verdict { SS_POOL_UNKNOWN, SS_POOL_DROPPED, SS_POOL_KNOWN } ss_pool_verdict;

/*
 * What the row of ID says, when it is known, into INFO.  Its strings are put into BUFFER; one that
 * does not fit is cut and marked, one for which nothing is left is NULL.  *NEEDED is the room that
 * they all take.  Signal safe.
 */
ss_pool_verdict ss_pool_read(uint64_t id, stacksplice_token_info *info, char *buffer,
                             size_t capacity, size_t *needed);

/* Keep the row of ID, if there is one, over the next sweep.  Signal safe. */
void ss_pool_hold(uint64_t id);

/* Memory for the pool, mapped and unmapped without its lock. */
typedef struct ss_pool_supply {
    void *memory;
    size_t bytes;
    size_t wanted; /* what ss_pool_prepare found missing */
} ss_pool_supply;

/* Map what is wanted; false without memory. */
bool ss_pool_map(ss_pool_supply *supply);
void ss_pool_unmap(ss_pool_supply *supply);

/* ---- Under the lock of the tokens -------------------------------------------------------------*/

/* What must be done before a row is added: map what SUPPLY wants, or sweep. */
typedef enum ss_pool_state { SS_POOL_READY, SS_POOL_WANTS_MEMORY, SS_POOL_IS_FULL } ss_pool_state;
ss_pool_state ss_pool_prepare(const ss_content *content, ss_pool_supply *supply);

/* Add CONTENT, for which the pool is ready; its id. */
uint64_t ss_pool_add(const ss_content *content);

/*
 * Drop rows until a quarter of the cells is free: those that were not seen in this epoch or the one
 * before and are not held; if they are too few, all that were not seen in this epoch; if these are
 * too few as well, all.  The epoch changes.
 */
void ss_pool_sweep(void);

#endif
