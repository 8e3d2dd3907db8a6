/*
 * One combined stack: native frames with every registered language's frames in their places.
 *
 * unwind gives native frames; each source (stacksplice/source.h) says which of them stand for which
 * script frames; merge makes one array of addresses.  What an element of that array means is asked
 * for later, through token.h.
 */
#ifndef SS_SPLICE_H
#define SS_SPLICE_H

#include "base/platform.h"
#include <stacksplice/stacksplice.h>

/*
 * The combined stack of the calling thread, outside of ABOVE (SS_HERE() of the function that does
 * not want to be seen), without its SKIP innermost elements, into FRAMES.  Returns S_OK, S_FALSE
 * when there were more than MAX, or E_OUTOFMEMORY (then *CAPTURED is 0).  HASH may be NULL.
 *
 * Re-entry on the same thread (from a signal handler, or from an allocator that captures) yields
 * S_FALSE with one gap element, never a wrong stack.
 */
stacksplice_hresult ss_capture(const void *above, uint32_t skip, uint32_t max, uintptr_t *frames,
                               uint32_t *captured, uint32_t *hash);

/* The same for a stack that is kept: of more than MAX both ends, see stacksplice_capture_ends. */
stacksplice_hresult ss_capture_ends(const void *above, uintptr_t behind, uint32_t max,
                                    uintptr_t *frames, uint32_t *captured);

/*
 * Native frames only, for RtlCaptureStackBackTrace: the number stored.  ABOVE is exact: SS_HERE()
 * of the caller.
 */
uint32_t ss_capture_native(const void *above, uint32_t skip, uint32_t max, uintptr_t *frames,
                           uint32_t *hash);

#endif
