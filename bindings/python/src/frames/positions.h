/*
 * The place of an instruction in its source.  Reads only the code object: no allocation, no lock.
 */
#ifndef SSPY_POSITIONS_H
#define SSPY_POSITIONS_H

#include "life/compat.h" /* first: Python.h chooses what the system's headers declare */

#include "frames/location_table.h"

/* The position of byte offset LASTI in CODE; of its first line when LASTI is negative. */
sspy_position sspy_position_of(const PyCodeObject *code, int lasti);

#endif
