/*
 * One combined stack: native frames, with every registered language's frames in their places.
 *
 * unwind gives native frames.  Each source (stacksplice/source.h) says which of them stand for
 * which script frames.  merge makes one array of addresses.  Readers ask later, through token.h,
 * what an element means.
 */
#ifndef SS_SPLICE_H
#define SS_SPLICE_H

#include "base/platform.h"
#include <stacksplice/stacksplice.h>

/*
 * Capture the combined stack of the calling thread into FRAMES, without its SKIP innermost
 * elements.  Only frames outside ABOVE count: SS_HERE() of the function that wants to be hidden.
 * Returns S_OK, S_FALSE when there were more than MAX, or E_OUTOFMEMORY (then *CAPTURED is 0).
 * HASH may be NULL.
 *
 * Re-entry on the same thread (from a signal handler, or from an allocator that captures) yields
 * S_FALSE with one gap element, never a wrong stack.
 */
stacksplice_hresult ss_capture(const void *above, uint32_t skip, uint32_t max, uintptr_t *frames,
                               uint32_t *captured, uint32_t *hash);

/*
 * The same for a stack to store: with more than MAX, keeps both ends; see stacksplice_capture_ends.
 */
stacksplice_hresult ss_capture_ends(const void *above, uintptr_t behind, uint32_t max,
                                    uintptr_t *frames, uint32_t *captured);

/*
 * Native frames only, for RtlCaptureStackBackTrace; returns the number stored.  ABOVE must be
 * exact: SS_HERE() of the caller.
 */
uint32_t ss_capture_native(const void *above, uint32_t skip, uint32_t max, uintptr_t *frames,
                           uint32_t *hash);

#endif
