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

/*
 * The input.  Each source's splices are in order, innermost first; the sources follow one another.
 */
typedef struct ss_merge {
    const stacksplice_native_frame *frames;
    uint32_t frame_count;
    bool special; /* some frames may be STACKSPLICE_NATIVE_INFERRED or SS_UNWIND_FORWARDER */
    const ss_splice *splices;
    uint32_t splice_count;
    const uint32_t *source_ends; /* one past the last splice of each source */
    uint32_t source_count;
    const uintptr_t *tokens;
    uintptr_t end_gap; /* why the native frames end early; 0: they are complete */
} ss_merge;

void ss_merge_run(const ss_merge *merge, ss_sink *sink);

#endif
