/* Addresses of names in the binaries of a target, from the files' own tables of symbols. */
#ifndef SSI_SYMBOLS_H
#define SSI_SYMBOLS_H

#include "target/target.h"

typedef struct ssi_binary {
    const unsigned char *bytes; /* the file */
    size_t size;
    uint64_t bias; /* address minus the one in the file */
} ssi_binary;

/* Map the file of MAPPING, which is its beginning.  False if it is no 64-bit ELF file. */
bool ssi_binary_open(const ssi_target *target, const ssi_mapping *mapping, ssi_binary *binary);
void ssi_binary_close(ssi_binary *binary);
/* The address of NAME in the target; 0 if the binary does not define it. */
uint64_t ssi_binary_symbol(const ssi_binary *binary, const char *name);
/* The address of the section NAME in the target; 0 if there is none. */
uint64_t ssi_binary_section(const ssi_binary *binary, const char *name);
/* The start of the function at ADDRESS, by the table that leads to unwind data; *SIZE is the way to
   the next one.  0 if there is no such table. */
uint64_t ssi_binary_function(const ssi_binary *binary, uint64_t address, uint64_t *size);

#endif
