/* Texts of a target. */
#ifndef SSI_ERRORS_TEXT_H
#define SSI_ERRORS_TEXT_H

#include "base/memory.h"

/* All are NULL if they cannot be read, and end in "..." if they are cut. */

/* The text at ADDRESS, which ends in a NUL. */
const char *ssi_text_at(const ssi_memory *memory, uint64_t address);
/* LENGTH bytes there.  A NUL in them becomes U+FFFD. */
const char *ssi_bytes_at(const ssi_memory *memory, uint64_t address, uint64_t length);
/* UNITS of UTF-16 there, without white space at the end. */
const char *ssi_wide_at(const ssi_memory *memory, uint64_t address, uint64_t units);

#endif
