/* The gap for an exception that left without its stack being captured. */
#include "frames/frames.h"

uintptr_t sspy_mark(void)
{
    static _Thread_local struct {
        uintptr_t token;
        uint32_t epoch;
    } known; /* interned again in each epoch of the core, so that it is not dropped */
    static const stacksplice_token_info gap = {.size = sizeof gap,
                                               .kind = STACKSPLICE_FRAME_GAP,
                                               .trust = STACKSPLICE_TRUST_EXACT,
                                               .language = "python",
                                               .reason = STACKSPLICE_GAP_RETURNED};
    uint32_t epoch = stacksplice_token_epoch();
    uintptr_t token = known.token;

    if (token && known.epoch == epoch)
        return token;
    /* Without memory the token says so; the next call gets the right one again. */
    known.token = stacksplice_intern(&gap, &token) == S_OK ? token : 0;
    known.epoch = epoch;
    return token;
}
