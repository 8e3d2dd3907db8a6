/*
 * Tokens of frames that the table of token_cache.h does not have: by the address of an instruction
 * and the content of its code.
 *
 * Nobody says when such code dies, so each use compares all that the token was made of: the names,
 * and the part of the table of locations that leads to the instruction.  That costs a tenth of
 * making the token again.  It takes no lock, allocates nothing and calls no code of scripts.  So
 * any capture may use and fill the table: in any interpreter and thread, and in signal handlers.
 */
#ifndef SSPY_SEEN_H
#define SSPY_SEEN_H

#include "life/compat.h"

#include <stdbool.h>
#include <stdint.h>

/* One use: the instruction at PLACE in CODE, which is alive, in an interpreter. */
typedef struct sspy_sight {
    const PyCodeObject *code;
    uintptr_t place;
    PyInterpreterState *interp;
} sspy_sight;

/* The token stored for what SEEN shows, or 0. */
uintptr_t sspy_seen_find(const sspy_sight *seen);
/* Store TOKEN, interned in EPOCH from the first PREFIX bytes of the table of locations.  May do
   nothing. */
void sspy_seen_put(const sspy_sight *seen, uint32_t prefix, uintptr_t token, uint32_t epoch);

#endif
