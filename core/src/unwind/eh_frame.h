/*
 * .eh_frame and .eh_frame_hdr: from an address to the program that describes its frame.
 *
 * Every read stays within the given bytes, so broken data gives false and nothing worse.
 */
#ifndef SS_EH_FRAME_H
#define SS_EH_FRAME_H

#include "unwind/cursor.h"

/* Readable memory, such as one loaded segment. */
typedef struct ss_bytes {
    const uint8_t *low;
    const uint8_t *high;
} ss_bytes;

/* A frame description entry, with the fields it needs from its common information entry. */
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
    /* Set *BYTES to the readable memory around ADDRESS, from the module's segments. */
    bool (*segment)(const void *data, uintptr_t address, ss_bytes *bytes);
    const void *data;
} ss_eh_frame;

/* Find the entry that covers PC in the sorted table, which linkers write unless data is broken. */
bool ss_eh_frame_find(const ss_eh_frame *section, uintptr_t pc, ss_fde *fde);

/* Parse the entry at AT within BYTES; false also for a common entry and for the end mark. */
bool ss_fde_parse(ss_bytes bytes, const uint8_t *at, ss_fde *fde);

#endif
