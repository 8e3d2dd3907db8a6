/*
 * The merge: native frames and the sources' splices become one array.  Uses no state of the thread.
 */
#ifndef SS_MERGE_H
#define SS_MERGE_H

#include "splice/sink.h"
#include <stacksplice/source.h>

/* Tokens that replace COUNT native frames from FIRST on. */
typedef struct ss_splice {
    uint32_t first;
    uint32_t count;
    uint32_t token_first;
    uint32_t token_count;
} ss_splice;

/* The input.  The splices are sorted. */
typedef struct ss_merge {
    const stacksplice_native_frame *frames;
    uint32_t frame_count;
    bool special; /* some frames may be STACKSPLICE_NATIVE_INFERRED or SS_UNWIND_FORWARDER */
    const ss_splice *splices;
    uint32_t splice_count;
    const uintptr_t *tokens;
    uint32_t token_count;
    uintptr_t end_gap; /* why the native frames end early; 0: they are complete */
} ss_merge;

/*
 * Bring the last of COUNT splices, from FIRST on, to their places among those before, all innermost
 * first.  Those of one source are in order already.
 */
void ss_merge_sort(ss_splice *splices, uint32_t first, uint32_t count);

void ss_merge_run(const ss_merge *merge, ss_sink *sink);

#endif
