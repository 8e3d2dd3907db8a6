/* What live.c and threads.c have for the frame source. */
#ifndef SSPY_LIVE_H
#define SSPY_LIVE_H

#include "frames/frames.h"
#include "frames/layout.h"

enum {
    SSPY_MAX_THREAD_STATES = 16,
    SSPY_MAX_CHAIN = 1 << 20 /* frames: a chain that is longer is no chain */
};

static inline bool sspy_is_on_stack(const stacksplice_walk *walk, uintptr_t address)
{
    return address >= walk->stack_low && address < walk->stack_high &&
           address % sizeof(void *) == 0;
}

/* Every thread state that has frames on this stack, into STATES; returns their number. */
uint32_t sspy_thread_states(const stacksplice_walk *walk,
                            PyThreadState *states[SSPY_MAX_THREAD_STATES]);

/* What captures of this thread follow, or NULL. */
const sspy_replacement *sspy_replacement_now(void);
/* FRAME among the frames of WANTED, or NULL. */
const sspy_replaced_frame *sspy_find_replaced(const sspy_replacement *wanted, uintptr_t frame);

/* A capture of this thread met a frame of the home interpreter that the table of tokens does not
   know: it is put there as soon as a section is left. */
void sspy_learn_later(void);
/* Do so now, if it is still live.  Lock held, outside of any capture. */
void sspy_learn(void);

#endif
