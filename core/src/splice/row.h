/* The cells of the pool, and reading the rows in them. */
#ifndef SS_ROW_H
#define SS_ROW_H

#include "splice/pool.h"

enum { SS_CHUNK_CELLS = 1024 };

/* Cells come in chunks of so many, in order. */
void ss_row_add_chunk(uint32_t first, ss_cell *chunk);

/* NULL: there is none. */
ss_cell *ss_row_cell(uint32_t index);

/* The same of a cell that was used before.  (LOCK) */
ss_cell *ss_row_used_cell(uint32_t index);

/*
 * Of the row that begins in FIRST.  Its words are loaded so that a look at its state afterwards
 * tells whether they were the row's.
 */
bool ss_row_equals(const ss_cell *first, const ss_content *content);

/* See ss_pool_read; the room that the strings take. */
size_t ss_row_read(const ss_cell *first, stacksplice_token_info *info, char *buffer,
                   size_t capacity);

#endif
