/*
 * The binary that holds an address: path, load address and build-id, read from mapped memory.
 * Neither variant allocates.
 */
#ifndef SS_BINARY_H
#define SS_BINARY_H

#include "base/loader.h"

enum { SS_BUILD_ID_MAX = 64, SS_BINARY_PATH_MAX = 4096 };

typedef struct ss_binary {
    uintptr_t start, end; /* its mappings: the load address, and one past the last byte */
    uintptr_t bias;       /* add it to addresses in the file */
    char build_id[2 * SS_BUILD_ID_MAX + 1]; /* lower-case hexadecimal; empty: it has none */
    char path[SS_BINARY_PATH_MAX];          /* empty: unknown */
} ss_binary;

/* False when no module is mapped at ADDRESS.  Takes the loader's lock. */
bool ss_binary_find(uintptr_t address, ss_binary *binary);

/* The same for a failing process: avoids the loader's lock where the platform allows. */
bool ss_binary_find_failfast(uintptr_t address, ss_binary *binary);

/*
 * Call BACK for each module, in the loader's order, with SCRATCH filled, until it returns false.
 * False, without a call, when the loader cannot be asked.
 */
bool ss_binary_each(ss_binary *scratch, ss_loader_patience patience,
                    bool (*back)(const ss_binary *binary, void *data), void *data);

#endif
