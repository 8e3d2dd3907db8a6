#include "crash/threads.h"

#include "splice/splice.h"
#include "splice/token.h"

#include <string.h>

/*
 * Whether the first element is the C library's return from the handler, and not code that called
 * the handler as a function.
 */
static bool is_trampoline(const uintptr_t *frames, uint32_t count, const void *return_address,
                          uintptr_t pc)
{
    return count > 1 && frames[0] == (uintptr_t)return_address &&
           (frames[1] == pc + 1 || ss_token_is(frames[1]));
}

uint32_t ss_capture_interrupted(const void *handler, const void *return_address, uintptr_t pc,
                                uint32_t max, uintptr_t *frames)
{
    uint32_t count = 0;

    if (ss_capture_ends(handler, 0, max, frames, &count) < 0 || !count) {
        frames[0] = pc + 1;
        frames[1] = ss_token_gap("native", "frames missing here: out of memory");
        return 2;
    }
    if (is_trampoline(frames, count, return_address, pc)) {
        count--;
        memmove(frames, frames + 1, count * sizeof *frames);
    }
    /* The walk did not even begin. */
    if (count < max && ss_token_is(frames[0]) && !ss_token_is_script(frames[0])) {
        memmove(frames + 1, frames, count * sizeof *frames);
        frames[0] = pc + 1;
        count++;
    }
    return count;
}
