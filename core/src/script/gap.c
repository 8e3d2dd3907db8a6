#include "base/platform.h"
#include <stacksplice/script.h>

uintptr_t stacksplice_gap(const char *language, const char *reason, uint32_t flags)
{
    const stacksplice_token_info gap = {.size = sizeof gap,
                                        .kind = STACKSPLICE_FRAME_GAP,
                                        .trust = STACKSPLICE_TRUST_EXACT,
                                        .language = language,
                                        .reason = reason,
                                        .asynchronous = flags & STACKSPLICE_GAP_ASYNCHRONOUS};
    uintptr_t token = 0;

    (void)stacksplice_intern(&gap, &token); /* without memory, the token says so */
    return token;
}
