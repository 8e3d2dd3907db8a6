/* The local variables of the frames of a traceback. */
#ifndef SSPY_VARIABLES_H
#define SSPY_VARIABLES_H

#include "life/life.h"

enum {
    SSPY_LOCAL_VARIABLES = 20, /* of a frame */
    SSPY_LOCAL_FRAMES = 32     /* of a traceback: the innermost */
};

/*
 * A dict: the names of FRAME's variables, sorted, and the texts of their values.  It runs no code
 * of the program.  NULL with an exception.
 */
PyObject *sspy_variables_of(PyFrameObject *frame);

/* Whether this interpreter's reports show variables. */
bool sspy_shows_locals(void);

#endif
