/* The tokens of gaps and seams. */
#include "frames/frames.h"

/* Whether *TOKEN is that of the gap, and not one that says why there is none. */
static bool intern_gap(const char *reason, int asynchronous, uintptr_t *token)
{
    stacksplice_token_info info = {.size = sizeof info,
                                   .kind = STACKSPLICE_FRAME_GAP,
                                   .trust = STACKSPLICE_TRUST_EXACT,
                                   .language = "python",
                                   .reason = reason,
                                   .asynchronous = asynchronous};

    return stacksplice_intern(&info, token) == S_OK;
}

uintptr_t sspy_gap(const char *reason)
{
    uintptr_t token = 0;

    (void)intern_gap(reason, 0, &token); /* always sets a token */
    return token;
}

uintptr_t sspy_seam_gap(const char *reason)
{
    uintptr_t token = 0;

    (void)intern_gap(reason, 1, &token);
    return token;
}

uintptr_t sspy_mark(void)
{
    static _Thread_local struct {
        uintptr_t token;
        uint32_t epoch;
    } known; /* asked for anew in each epoch of the core, so that it is not dropped */
    uint32_t epoch = stacksplice_token_epoch();
    uintptr_t token = known.token;

    if (token && known.epoch == epoch)
        return token;
    /* Without memory the token says that; the next one is the right one again. */
    known.token = intern_gap(STACKSPLICE_GAP_RETURNED, 0, &token) ? token : 0;
    known.epoch = epoch;
    return token;
}
