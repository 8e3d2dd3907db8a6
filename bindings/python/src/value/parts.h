/* The parts of value/ that only its own files use. */
#ifndef SSPY_PARTS_H
#define SSPY_PARTS_H

#include "value/value.h"

/* ---- exception.c ------------------------------------------------------------------------------*/

/* The name of a type and those of its bases in the order of its MRO, without object. */
typedef struct sspy_type_names {
    const char **names; /* NEAR, or PyMem */
    const char *near[12];
    uint32_t count;
    PyObject *lenders; /* list: what lends their texts, or NULL */
} sspy_type_names;

/* Returns -1 with an exception.  Call the end in any case. */
int sspy_type_names_begin(sspy_type_names *names, PyTypeObject *type);
void sspy_type_names_end(sspy_type_names *names);

/* ---- ties.c -----------------------------------------------------------------------------------*/

/* Give EXC, whose ties are TIES, a __dict__ of that TYPE, if its class can restore the item. */
void sspy_carrying_dict_install(PyTypeObject *type, PyObject *exc, sspy_ties *ties);

#endif
