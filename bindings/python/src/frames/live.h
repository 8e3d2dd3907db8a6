/* What the other files provide to the frame source. */
#ifndef SSPY_LIVE_H
#define SSPY_LIVE_H

#include "frames/frames.h"
#include "frames/layout.h"

enum { SSPY_MAX_THREAD_STATES = 16 };

static inline bool sspy_is_on_stack(const stacksplice_walk *walk, uintptr_t address)
{
    return address >= walk->stack_low && address < walk->stack_high &&
           address % sizeof(void *) == 0;
}

/* Put every thread state that has frames on this stack into STATES; returns their number. */
uint32_t sspy_thread_states(const stacksplice_walk *walk,
                            PyThreadState *states[SSPY_MAX_THREAD_STATES]);

/* The replacement that captures of this thread apply, or NULL. */
const sspy_replacement *sspy_replacement_now(void);
/* FRAME among the frames of WANTED, or NULL. */
const sspy_replaced_frame *sspy_find_replaced(const sspy_replacement *wanted, uintptr_t frame);

/* Report to the core that WALK, if it is recorded, depends on the aligned word with ADDRESS in it. */
static inline void sspy_report_word(stacksplice_walk *walk, uintptr_t address)
{
    if (!walk->recorded)
        return;
    address -= address % sizeof(uintptr_t);
    stacksplice_walk_read(walk, address, *(const uintptr_t *)address);
}
/* Report what is in no word of a chain, before WALK is collected (code_words.c). */
void sspy_report_conditions(stacksplice_walk *walk);
/* All that the token of FRAME is made of, when nobody tells the death of its code.  The frame keeps
   its code alive, which keeps the rest. */
void sspy_report_code(stacksplice_walk *walk, uintptr_t frame, PyInterpreterState *interp);

/* A capture of this thread met a frame of the main interpreter that is not in the table of tokens.
   It goes there as soon as the thread leaves a section; in a program that only captures, when the
   main thread's interpreter goes on. */
void sspy_learn_later(const stacksplice_walk *walk);
/* Add those that are still live now.  Lock held, outside of any capture. */
void sspy_learn(void);

#endif
