/* Reports to the core what a capture depends on. */
#ifndef SSPY_WORDS_H
#define SSPY_WORDS_H

#include "frames/live.h"

/* A stack with a longer chain, or with more replaced frames, is not repeated. */
enum { SSPY_MAX_REPORTED = 1000, SSPY_MOST_REPLACED = 16 };

/* Report the aligned word that holds what is at ADDRESS. */
static inline void sspy_report_word(stacksplice_walk *walk, uintptr_t address)
{
    address -= address % sizeof(uintptr_t);
    stacksplice_walk_read(walk, address, *(const uintptr_t *)address);
}

/* Report all that the splices of WALK, which is to be collected now, follow from. */
void sspy_report_words(stacksplice_walk *walk);
/* All that the token of FRAME is made of, when nobody tells the death of its code.  The frame keeps
   its code alive, which keeps the rest. */
void sspy_report_code(stacksplice_walk *walk, uintptr_t frame, PyInterpreterState *interp);

#endif
