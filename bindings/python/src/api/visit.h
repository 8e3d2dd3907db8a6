/* Python dicts and lists from what the core's visitor reads. */
#ifndef SSPY_VISIT_H
#define SSPY_VISIT_H

#include "api/api.h"

#include <stacksplice/read.h>

enum { SSPY_MAX_OPEN = 16 }; /* nested containers; five occur */

/* A visitor that builds a dict, or fills a row.  Stacks become lists of their elements; related errors
   are wrapped. */
typedef struct sspy_builder {
    stacksplice_visitor visitor;
    sspy_state *state; /* for an error; may be NULL for a frame */
    PyObject *result;  /* owned; NULL with an exception if the walk was stopped */
    unsigned depth;
    PyObject *open[SSPY_MAX_OPEN]; /* borrowed */
    PyObject **row;                /* NULL, or the places of an object's members NAMES */
    const char *const *names;
    unsigned name_count, at; /* AT: behind the name found last */
} sspy_builder;

sspy_builder sspy_new_builder(sspy_state *state);
/* The result after HR, a new reference; NULL with an exception. */
PyObject *sspy_end_builder(sspy_builder *builder, HRESULT hr);

#endif
