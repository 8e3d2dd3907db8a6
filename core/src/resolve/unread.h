/* The gap where the frames of an interpreter are missing because no frame source reads it. */
#ifndef SS_UNREAD_H
#define SS_UNREAD_H

#include "resolve/resolve.h"

/* A gap with the text that its reason points to. */
typedef struct ss_unread {
    ss_frame frame;
    char reason[512]; /* enough: the name of a file has 255 bytes */
} ss_unread;

/*
 * Whether the native FRAMES of one address call into an interpreter that no frame source reads:
 * *GAP is then what stands inside of them.  Takes the loader's lock if one of them runs scripts.
 * *SEARCHED, 0 at first, is how much of the glue cannot match these frames: what is known only
 * grows.
 */
bool ss_unread_find(const ss_frame *frames, uint32_t count, _Atomic uint32_t *searched,
                    ss_unread *gap);

#endif
