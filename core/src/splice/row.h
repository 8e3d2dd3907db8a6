/* The cells of the pool, and how to read the rows in them. */
#ifndef SS_ROW_H
#define SS_ROW_H

#include "splice/pool.h"

enum { SS_CHUNK_CELLS = 1024 };

/* The chunks; NULL where one is not mapped yet. */
extern _Atomic(ss_cell *) ss_row_chunks[SS_POOL_CELLS / SS_CHUNK_CELLS];

/* Add a chunk of cells; chunks have a fixed size and come in order. */
void ss_row_add_chunk(uint32_t first, ss_cell *chunk);

/* The cell INDEX; NULL when it is not mapped. */
ss_cell *ss_row_cell(uint32_t index);

/* The same for a cell that was used before.  (LOCK) */
ss_cell *ss_row_used_cell(uint32_t index);

/*
 * Compare the row that starts in FIRST.  A later load of its state tells whether the words read
 * were the row's.
 */
bool ss_row_equals(const ss_cell *first, const ss_content *content);

/* See ss_pool_read; returns the room for all strings. */
size_t ss_row_read(const ss_cell *first, stacksplice_token_info *info, char *buffer,
                   size_t capacity);

#endif
