/* For tests that look at frames, also those without cmocka. */
#ifndef STACKSPLICE_TEST_FRAMES_H
#define STACKSPLICE_TEST_FRAMES_H

#include "calls.h"

#include <stacksplice/stacksplice.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Whether FRAME is a token, for a script's frame or a gap, and not an address. */
static inline int is_token(uintptr_t frame)
{
    return frame >> 48 == 0x5353;
}

/* What begins the description of every script frame, every gap and every source. */
#define SCRIPT_TOKEN                                                          \
    .size = sizeof(stacksplice_token_info), .kind = STACKSPLICE_FRAME_SCRIPT, \
    .trust = STACKSPLICE_TRUST_EXACT
#define GAP_TOKEN                                                          \
    .size = sizeof(stacksplice_token_info), .kind = STACKSPLICE_FRAME_GAP, \
    .trust = STACKSPLICE_TRUST_EXACT
#define SOURCE .size = sizeof(stacksplice_source), .version = STACKSPLICE_SOURCE_VERSION

static inline int native_frames_unknown(const stacksplice_frame *frame, void *data)
{
    *(int *)data = frame->kind == STACKSPLICE_FRAME_GAP && frame->reason &&
                   strcmp(frame->reason, "native frames not supported on this platform") == 0;
    return 1;
}

/*
 * A build that does not know native frames (STACKSPLICE_UNWIND=none) says so itself, in every
 * capture, by a gap.  A test of them is skipped by what the library says, so a walk that finds
 * nothing for any other reason still fails.
 */
static inline int has_native_frames(void)
{
    uintptr_t frame = 0;
    uint32_t count = 0;
    int unknown = 0;

    if (stacksplice_capture(0, 1, &frame, &count, NULL) >= 0 && count == 1)
        (void)stacksplice_resolve(frame, native_frames_unknown, &unknown);
    return !unknown;
}

/* In a cmocka test. */
#define NEEDS_NATIVE_FRAMES()                                     \
    do {                                                          \
        if (!has_native_frames())                                 \
            SKIP("native frames not supported on this platform"); \
    } while (0)

#endif
