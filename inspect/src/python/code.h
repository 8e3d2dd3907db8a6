/* What a code object of a target says: names, and the place of an instruction. */
#ifndef SSI_PYTHON_CODE_H
#define SSI_PYTHON_CODE_H

#include "python/layout.h"
#include "target/frame.h"

typedef struct ssi_code {
    uint64_t address;
    const char *file, *function; /* NULL: cannot be read */
    int first_line;
    int first_traceable; /* code units */
    unsigned char *table;
    size_t table_size;
} ssi_code;

/* The code objects that were read, by address. */
typedef struct ssi_codes {
    const ssi_memory *memory;
    const ssi_python_layout *layout;
    uint64_t type; /* that of all code objects; 0 until one was found */
    ssi_code *items;
    size_t count, room;
    size_t *slots; /* a hash table of item numbers plus one */
    size_t slot_count;
    uint64_t table_bytes; /* of all tables */
    uint64_t walked;      /* bytes of tables, on the ways to places */
} ssi_codes;

/* The code object at ADDRESS, until the next call; NULL if it is none, or without memory. */
const ssi_code *ssi_code_at(ssi_codes *codes, uint64_t address);
/* Set the lines and columns of FRAME, which is at the byte OFFSET of the instructions of CODE; not
   when that took too long for those before it. */
void ssi_code_place(ssi_codes *codes, const ssi_code *code, int64_t offset, ssi_frame *frame);
void ssi_codes_free(ssi_codes *codes);

#endif
