/* Frames of other languages in an exception's __traceback__. */
#ifndef SSPY_TRACEBACK_H
#define SSPY_TRACEBACK_H

#include "stack/stack.h"

/* ---- Stacks and their elements (show.c) --------------------------------------------------------*/

/* A copy of a stack. */
typedef struct sspy_stack_copy {
    uintptr_t *far; /* malloc, or NULL: it is in NEAR */
    uintptr_t near[SSPY_NEAR_FRAMES];
} sspy_stack_copy;

typedef struct sspy_elements {
    const uintptr_t *frames; /* innermost first */
    uint32_t count;
} sspy_elements;

sspy_elements sspy_shown(void *error, sspy_stack_copy *copy);

/* ---- Entries (show.c) --------------------------------------------------------------------------*/

/* Prepend the frames between EXC's traceback and the border that raises EXC.  EXC stands for ERROR,
   which has a node of this moment.  Does the same for what arrives with it.  Leaves no exception
   set. */
void sspy_show_foreign(sspy_state *state, PyObject *exc, IUnknown *error);

/* The same for languages that know nothing of us, whose frames are live outside of ABOVE: those up
   to the innermost Python frame.  HEAD is the outermost entry; what holds it has the others too.
   FRAMES, or NULL, are the stack instead of the live one. */
void sspy_show_live(sspy_state *state, PyTracebackObject *head, const void *above,
                    const uintptr_t *frames, uint32_t count);
/* Put the frames of ERROR inside of its innermost Python frame behind the last entry of EXC's
   traceback, which may have none. */
void sspy_show_error(sspy_state *state, PyObject *exc, IScriptErrorInfo *error);

/* Give the stack of ERROR, which is EXC's, what EXC's traceback has besides; EXC PASSES if it is leaving
   Python in this thread.  -1 without memory, and without an exception: the stack stays as it is. */
int sspy_lengthen(sspy_state *state, PyObject *exc, IScriptErrorInfo *error, bool passes);
/* Whether the traceback of EXC has entries that ERROR, which is EXC's, neither has nor counts among the
   frames that were left out: then Python's own text tells more. */
bool sspy_loses_entries(sspy_state *state, PyObject *exc, IScriptErrorInfo *error);

/* ---- Entries of C code (made.c) ----------------------------------------------------------------*/

typedef enum sspy_placed {
    SSPY_NONE_MADE,
    SSPY_PLACED,
    SSPY_NOT_PLACED,
    SSPY_NO_MEMORY /* with a MemoryError */
} sspy_placed;

/*
 * Store the COUNT FRAMES of EXC's raise in ROOM, with the entries that C code made for its own
 * functions in EXC's traceback, each at its place; *MERGED is at most the limit.  Those of frames that
 * were left out count among these.  ROOM has nothing of use if there are none, or if the place of one
 * is not known.
 */
sspy_placed sspy_place_made(sspy_state *state, PyObject *exc, const uintptr_t *frames,
                            uint32_t count, sspy_room *room, uint32_t *merged);

#endif
