#include "crash/threads.h"

#include "splice/splice.h"
#include "splice/token.h"

#include <string.h>

enum { MOST_BEFORE = 8 };

/*
 * How many elements come before the interrupted frame: the C library's return from the handler, and
 * what may have called the handler, such as a sanitizer.  Script frames may stand for that frame.
 */
static uint32_t count_before(const uintptr_t *frames, uint32_t count, const void *return_address,
                             uintptr_t pc)
{
    for (uint32_t i = 0; i < count && i <= MOST_BEFORE; i++) {
        if (frames[i] == pc + 1)
            return i;
    }
    return count > 1 && frames[0] == (uintptr_t)return_address && ss_token_is(frames[1]);
}

uint32_t ss_capture_interrupted(const void *handler, const void *return_address, uintptr_t pc,
                                uint32_t max, uintptr_t *frames)
{
    uint32_t count = 0, before;

    if (ss_capture_ends(handler, 0, max, frames, &count) < 0 || !count) {
        frames[0] = pc + 1;
        frames[1] = ss_token_gap("native", "frames missing here: out of memory");
        return 2;
    }
    before = count_before(frames, count, return_address, pc);
    count -= before;
    memmove(frames, frames + before, count * sizeof *frames);
    /* The walk did not even begin. */
    if (count < max && ss_token_is(frames[0]) && !ss_token_is_script(frames[0])) {
        memmove(frames + 1, frames, count * sizeof *frames);
        frames[0] = pc + 1;
        count++;
    }
    return count;
}
