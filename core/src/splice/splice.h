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
 * Native frames only, for RtlCaptureStackBackTrace; returns the number stored.  ABOVE must be
 * exact: SS_HERE() of the caller.
 */
uint32_t ss_capture_native(const void *above, uint32_t skip, uint32_t max, uintptr_t *frames,
                           uint32_t *hash);

#endif
