/*
 * The place of an instruction in its source.  Reads only the code object: no allocation, no lock.
 */
#ifndef SSPY_POSITIONS_H
#define SSPY_POSITIONS_H

#include "life/compat.h"

#include <stdint.h>

/* 0: unknown.  Columns count UTF-8 bytes from 1; the end is one past the last. */
typedef struct sspy_position {
    uint32_t line, end_line, column, end_column;
    uint32_t prefix; /* how many bytes of the table of locations say so */
} sspy_position;

/* The position of byte offset LASTI in CODE; of its first line when LASTI is negative. */
sspy_position sspy_position_of(const PyCodeObject *code, int lasti);

#endif
