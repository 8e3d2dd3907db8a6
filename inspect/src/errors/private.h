/* What the files of this folder share. */
#ifndef SSI_ERRORS_PRIVATE_H
#define SSI_ERRORS_PRIVATE_H

#include "base/base.h"
#include "errors/errors.h"

/* Texts of a target. */

/* All are NULL if they cannot be read, and end in "..." if they are cut. */

/* The text at ADDRESS, which ends in a NUL. */
const char *ssi_text_at(uint64_t address);
/* LENGTH bytes there.  A NUL in them becomes U+FFFD. */
const char *ssi_bytes_at(uint64_t address, uint64_t length);
/* UNITS of UTF-16 there, without white space at the end. */
const char *ssi_wide_at(uint64_t address, uint64_t units);

/* Single objects of an error. */

typedef struct ssi_error_reader {
    const ssi_block *block;
    ssi_errors *errors;
    size_t elements;      /* of all stacks so far */
    uint64_t around[256]; /* records of the errors that enclose the one that is read */
    unsigned around_count;
} ssi_error_reader;

/* The pointer at RECORD plus the offset WHICH; 0 if it cannot be read. */
uint64_t ssi_object_pointer(const ssi_error_reader *r, uint64_t object, stacksplice_number which);
/* The same for a number of SIZE bytes. */
uint64_t ssi_object_number(const ssi_error_reader *r, uint64_t object, stacksplice_number which,
                           size_t size);
/* The record of the error to whose interface a pointer leads; 0 if it is none of this library. */
uint64_t ssi_object_error(const ssi_error_reader *r, uint64_t interface);
/* The exception's interface of the error or node at RECORD; 0 if it has none that can be read. */
uint64_t ssi_object_exception(const ssi_error_reader *r, uint64_t record);

/* The language of the owner of interpreters at OWNER, or NULL. */
const char *ssi_object_language(const ssi_error_reader *r, uint64_t owner);
/* Fill ERROR with what RECORD says. */
void ssi_object_of_record(ssi_error_reader *r, const stacksplice_record *record, ssi_error *error);
/* Fill ERROR with what the objects of RECORD alone say: no other errors.  False if it is none. */
bool ssi_object_read(ssi_error_reader *r, uint64_t record, ssi_error *error);

#endif
