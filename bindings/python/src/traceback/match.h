/* Comparing two stacks from their outer ends, and the meaning of their elements. */
#ifndef SSPY_MATCH_H
#define SSPY_MATCH_H

#include "traceback/traceback.h"

/* A copy of a stack. */
typedef struct sspy_stack_copy {
    uintptr_t *far; /* malloc, or NULL: it is in NEAR */
    uintptr_t near[SSPY_NEAR_FRAMES];
} sspy_stack_copy;

typedef struct sspy_elements {
    const uintptr_t *frames; /* innermost first */
    uint32_t count;
} sspy_elements;

/* The stack with which ERROR, or a node, was made, and the one that reports show; COPY->far is
   released by the caller.  Empty without memory. */
sspy_elements sspy_captured(void *error, sspy_stack_copy *copy);
sspy_elements sspy_shown(void *error, sspy_stack_copy *copy);

/* The frames that an exception passed on its way to the receiving border and that its __traceback__ does
   not show yet. */
typedef struct sspy_between {
    const uintptr_t *frames; /* innermost first; in COPY */
    uint32_t count;
    uintptr_t outermost; /* a gap that replaces the outermost of them; 0: that one stays */
    const char *seam;    /* why frames may be missing outside of them; NULL: none are */
    bool arrives;        /* they are all that there is: nothing was shown before */
    sspy_stack_copy copy;
} sspy_between;

/* How many elements of TAKEN are inside of the border whose stack is HERE.  BETWEEN receives the
   reason if some are left out, and a seam where the two do not match. */
uint32_t sspy_count_inside(sspy_state *state, sspy_elements taken, sspy_elements here,
                           sspy_between *between);

/* Whether both are script frames, of one function and with the same line. */
bool sspy_same_line(sspy_state *state, uintptr_t a, uintptr_t b);
/* Whether both are one element, or script frames that differ only in the function that they call. */
bool sspy_same_place(sspy_state *state, uintptr_t a, uintptr_t b);
/* Whether both are script frames, at the same line of one file. */
bool sspy_same_file_line(sspy_state *state, uintptr_t a, uintptr_t b);
/* Whether ELEMENT is a script frame, and no function of C. */
bool sspy_is_in_file(sspy_state *state, uintptr_t element);
/* Whether ELEMENT is a Python frame of STATE's interpreter. */
bool sspy_is_frame_of(sspy_state *state, uintptr_t element);

extern const char sspy_unknown_seam[];

/* ---- What was passed (between.c) --------------------------------------------------------------*/

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
