/* Elements of stacks as entries of a traceback. */
#ifndef SSPY_ENTRIES_H
#define SSPY_ENTRIES_H

#include "traceback/traceback.h"

/* The table of what elements became, without what may be out of date; NULL without memory. */
sspy_kept_frames *sspy_kept_frames_now(sspy_state *state);
/* *TRACEBACK, which is NULL or owned, with the entries of ELEMENT before it; -1 with an exception.
 */
int sspy_put_element(sspy_kept_frames *all, PyObject **traceback, uintptr_t element);

#endif
