/* The gap for frames of an interpreter that no frame source reads. */
#ifndef SS_UNREAD_H
#define SS_UNREAD_H

#include "resolve/resolve.h"

/* A gap with the text that its reason points to. */
typedef struct ss_unread {
    ss_frame frame;
    char reason[512]; /* large enough: a file name has at most 255 bytes */
} ss_unread;

/*
 * Whether the native FRAMES of one address call into an interpreter that no frame source reads.
 * Then *GAP belongs inside them.  Takes the loader's lock if one of them runs scripts.  *SEARCHED,
 * 0 at first, caches how much of the glue cannot match these frames; glue is only ever added.
 */
bool ss_unread_find(const ss_frame *frames, uint32_t count, _Atomic uint32_t *searched,
                    ss_unread *gap);

#endif
