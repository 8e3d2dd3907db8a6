/* Where a greenlet begins; nothing further out on the stack belongs to it. */
#ifndef SSPY_GREENLET_H
#define SSPY_GREENLET_H

#include "frames/frames.h"

/* Find the frame that began the running greenlet.  The search starts at FIRST, outside of
   OUTERMOST, the address of the loop's outermost activation (0: none).  Returns frame_count when
   there is none. */
uint32_t sspy_greenlet_base(const stacksplice_walk *walk, uint32_t first, uintptr_t outermost);

#endif
