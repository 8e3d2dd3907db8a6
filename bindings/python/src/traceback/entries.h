/* Elements of stacks as entries of a traceback. */
#ifndef SSPY_ENTRIES_H
#define SSPY_ENTRIES_H

#include "traceback/traceback.h"

typedef struct sspy_kept_frames sspy_kept_frames;

/* The table of results, without entries that may be out of date; NULL without memory. */
sspy_kept_frames *sspy_kept_frames_now(sspy_state *state);
/* Put the entries of ELEMENT before *TRACEBACK, which is NULL or owned; -1 with an exception. */
int sspy_put_element(sspy_kept_frames *all, PyObject **traceback, uintptr_t element);

#endif
