/*
 * The frames that an exception passed on its way to the receiving border and that its __traceback__
 * does not show yet.
 */
#ifndef SSPY_BETWEEN_H
#define SSPY_BETWEEN_H

#include "traceback/traceback.h"

/* A copy of a stack. */
typedef struct sspy_stack_copy {
    uintptr_t *far; /* malloc, or NULL: it is in NEAR */
    uintptr_t near[SSPY_NEAR_FRAMES];
} sspy_stack_copy;

typedef struct sspy_between {
    const uintptr_t *frames; /* innermost first; in COPY */
    uint32_t count;
    uintptr_t outermost; /* a gap that replaces the outermost of them; 0: that one stays */
    const char *seam;    /* why frames may be missing outside of them; NULL: none are */
    bool arrives;        /* they are all that there is: nothing was shown before */
    sspy_stack_copy copy;
} sspy_between;

/* Fill BETWEEN for EXC, the exception that stands for ERROR at the border.  The newest node of
   BORDER was captured there; BORDER is ERROR, or the error of which it is a cause or a member.
   Allocates nothing in the interpreter and leaves no exception set. */
void sspy_between_find(sspy_state *state, PyObject *exc, IScriptErrorInfo *error,
                       IScriptErrorInfo *border, sspy_between *between);

/* Likewise for ERROR of another thread: what it passed in the border's thread. */
void sspy_between_arrival(sspy_state *state, IScriptErrorInfo *error, IScriptErrorInfo *border,
                          sspy_between *between);

void sspy_between_end(sspy_between *between);

#endif
