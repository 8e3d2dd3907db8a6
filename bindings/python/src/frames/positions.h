/*
 * The place of an instruction in its source.  Reads only the code object: no allocation, no lock.
 */
#ifndef SSPY_POSITIONS_H
#define SSPY_POSITIONS_H

#include "life/compat.h" /* first: Python.h chooses what the system's headers declare */

#include "shared/python.h"

/* The position of byte offset LASTI in CODE; of its first line when LASTI is negative. */
static inline sspy_position sspy_position_of(const PyCodeObject *code, int lasti)
{
    return sspy_position_in((const unsigned char *)PyBytes_AS_STRING(code->co_linetable),
                            (size_t)PyBytes_GET_SIZE(code->co_linetable), code->co_firstlineno,
                            lasti);
}

#endif
