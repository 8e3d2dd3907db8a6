/*
 * .eh_frame and .eh_frame_hdr: from an address to the program that describes its frame.
 *
 * Every read is bounded to the bytes given, so that broken data gives false and nothing worse.
 */
#ifndef SS_EH_FRAME_H
#define SS_EH_FRAME_H

#include "unwind/cursor.h"

/* Readable memory, such as one loaded segment. */
typedef struct ss_bytes {
    const uint8_t *low;
    const uint8_t *high;
} ss_bytes;

/* A frame description entry together with what it uses of its common information entry. */
typedef struct ss_fde {
    uintptr_t start; /* first address of the function */
    uintptr_t size;
    ss_cursor initial; /* instructions of the common entry */
    ss_cursor program; /* instructions of this entry */
    uint64_t code_align;
    int64_t data_align;
    uint64_t return_register;
    bool signal_frame;
} ss_fde;

/* A row of the sorted table gives an entry that begins in DATA; what find_fde works with. */
typedef struct ss_eh_frame {
    ss_bytes header; /* .eh_frame_hdr */
    /* The readable memory around ADDRESS, by the module's segments. */
    bool (*segment)(const void *data, uintptr_t address, ss_bytes *bytes);
    const void *data;
} ss_eh_frame;

/* The entry that covers PC, by the sorted table, or by a search from the start where it has none.
 */
bool ss_eh_frame_find(const ss_eh_frame *section, uintptr_t pc, ss_fde *fde);

/* Parse the entry at AT within BYTES; false also for a common entry and for the end mark. */
bool ss_fde_parse(ss_bytes bytes, const uint8_t *at, ss_fde *fde);

/*
 * Call EACH for every entry from AT on; false from EACH stops.  For searching sections without a
 * table, and for tests that look at all of them.
 */
void ss_eh_frame_each(ss_bytes bytes, const uint8_t *at,
                      bool (*each)(const uint8_t *entry, const ss_fde *fde, void *data),
                      void *data);

/* The start of .eh_frame as its header has it; NULL when the header is not one we can read. */
const uint8_t *ss_eh_frame_start(ss_bytes header);

#endif
