/* The build-id of a binary, from its file or from where it is mapped. */
#ifndef SSI_BUILD_ID_H
#define SSI_BUILD_ID_H

#include "base/memory.h"

enum { SSI_BUILD_ID_ROOM = 129 };

/* Write the build-id of the binary at BASE of MEMORY to OUT in hexadecimal.  False if it has none,
   or its first page is not there. */
bool ssi_build_id(const ssi_memory *memory, uint64_t base, char *out);
/* The same of an open file. */
bool ssi_build_id_of_file(int fd, char *out);
/* Whether the open file may be the one that is mapped at BASE: their build-ids are equal, or MEMORY
   has none, and nobody can say. */
bool ssi_build_id_fits(const ssi_memory *memory, uint64_t base, int fd);

#endif
