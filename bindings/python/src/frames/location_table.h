/*
 * Decodes the table of locations of a code object, wherever its bytes come from: the reader of
 * other processes uses this, too, so there is no Python.h.
 */
#ifndef SSPY_LOCATION_TABLE_H
#define SSPY_LOCATION_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* 0: unknown.  Columns count UTF-8 bytes from 1; the end is one past the last. */
typedef struct sspy_position {
    uint32_t line, end_line, column, end_column;
    uint32_t prefix; /* how many bytes of the table of locations say so */
} sspy_position;

/* The position of byte offset LASTI in code that begins at FIRST_LINE; of that line when LASTI is
   negative.  TABLE may be damaged. */
sspy_position sspy_position_in(const unsigned char *table, size_t size, int first_line, int lasti);

#endif
