/* What the core reads out, as Python's dicts and lists. */
#ifndef SSPY_VISIT_H
#define SSPY_VISIT_H

#include "api/api.h"

#include <stacksplice/read.h>

enum { SSPY_MAX_OPEN = 16 }; /* containers in each other: there are five */

/* A visitor that builds a dict.  Stacks are lists of their elements, the errors that belong to one
   are wrapped. */
typedef struct sspy_builder {
    stacksplice_visitor visitor;
    sspy_state *state; /* for an error; may be NULL for a frame */
    PyObject *result;  /* owned; NULL with an exception after a walk that was stopped */
    unsigned depth;
    PyObject *open[SSPY_MAX_OPEN]; /* borrowed */
} sspy_builder;

sspy_builder sspy_new_builder(sspy_state *state);
/* The result after HR, the new reference of the caller; NULL with an exception. */
PyObject *sspy_end_builder(sspy_builder *builder, HRESULT hr);

#endif
