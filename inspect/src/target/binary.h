/* The binaries of a target: build-ids, addresses of names, functions. */
#ifndef SSI_BINARY_H
#define SSI_BINARY_H

#include "base/base.h"
#include "target/target.h"

/* The build-id of a binary, from its file or from where it is mapped. */

enum { SSI_BUILD_ID_ROOM = 129 };

/* Write the build-id of the binary at BASE of the target's memory, or of the file FD if that is not
   -1, to OUT in hexadecimal.  False if it has none, or its first page is not there. */
bool ssi_build_id(int fd, uint64_t base, char *out);
/* Whether the open file may be the one that is mapped at BASE: their build-ids are equal, or the
   memory has none, and nobody can say. */
bool ssi_build_id_fits(uint64_t base, int fd);

/* An ELF file: that of a binary, or a core. */

typedef struct ssi_binary {
    const unsigned char *bytes; /* the file */
    size_t size;
    uint64_t bias; /* of a binary: address minus the one in the file */
} ssi_binary;

/* Map the file FD and close that.  False if it is empty, no file, or without memory. */
bool ssi_binary_map(int fd, ssi_binary *binary);
void ssi_binary_close(ssi_binary *binary);
/* SIZE bytes at OFFSET of the file, or NULL. */
const void *ssi_binary_part(const ssi_binary *binary, uint64_t offset, uint64_t size);
/* Copy the program header NUMBER; false if there is none. */
bool ssi_binary_program(const ssi_binary *binary, uint64_t number, Elf64_Phdr *out);

typedef struct ssi_note {
    uint32_t type, name_size, size;
    const unsigned char *name, *data;
} ssi_note;

/* The note at *AT of SIZE bytes of NOTES, with *AT behind it; false if there is none. */
bool ssi_note_next(const unsigned char *notes, size_t size, size_t *at, ssi_note *note);

/* Addresses of names in the binaries of a target, from the files' own tables of symbols. */

/* Map the file of MAPPING, which is its beginning.  False if it is no 64-bit ELF file. */
bool ssi_binary_open(const ssi_target *target, const ssi_mapping *mapping, ssi_binary *binary);
/* The address of NAME in the target; 0 if the binary does not define it. */
uint64_t ssi_binary_symbol(const ssi_binary *binary, const char *name);
/* The address of the section NAME in the target; 0 if there is none. */
uint64_t ssi_binary_section(const ssi_binary *binary, const char *name);
/* The start of the function at ADDRESS, by the table that leads to unwind data; *SIZE is the way to
   the next one.  0 if there is no such table. */
uint64_t ssi_binary_function(const ssi_binary *binary, uint64_t address, uint64_t *size);

#endif
