/* Where a greenlet begins, outside of which nothing on the stack belongs to it. */
#ifndef SSPY_GREENLET_H
#define SSPY_GREENLET_H

#include "frames/frames.h"

/* The frame that began the running greenlet, looked for from FIRST on and outside of OUTERMOST, the
   address of the outermost activation of the loop (0: none); frame_count when there is none. */
uint32_t sspy_greenlet_base(const stacksplice_walk *walk, uint32_t first, uintptr_t outermost);

#endif
