/* The parts of value/ that only its own files use. */
#ifndef SSPY_PARTS_H
#define SSPY_PARTS_H

#include "value/value.h"

/* ---- type_names.c -----------------------------------------------------------------------------*/

/* The type as a traceback prints it: without its module where that is builtins or __main__.  New
   reference; NULL with an exception. */
PyObject *sspy_full_type_name(PyTypeObject *type);
/* The bases of TYPE in the order of its MRO, without object; -1 with a MemoryError. */
int sspy_bases_take(sspy_bases *bases, PyTypeObject *type);
/* Name INDEX; NULL behind the last. */
const char *sspy_bases_name(const sspy_bases *bases, uint32_t index);

/* ---- exception_texts.c ------------------------------------------------------------------------*/

/* A text as UTF-8 with surrogates kept, which lives as long as OWNER. */
typedef struct sspy_utf8 {
    PyObject *owner;
    const char *bytes;
    size_t length;
} sspy_utf8;

/* The name of OBJECT's type, and what it says; -1 with a MemoryError. */
int sspy_encode_type_name(sspy_utf8 *text, PyObject *object);
int sspy_encode_message(sspy_utf8 *text, PyObject *object);

/* ---- clean_dict.c -----------------------------------------------------------------------------*/

/* Give EXC a copy of DICT of that TYPE as its __dict__: a new reference, NULL with an exception. */
PyObject *sspy_clean_dict_install(PyTypeObject *type, PyObject *exc, PyObject *dict);
/* Where DICT keeps the ties, or NULL if it is not of TYPE. */
PyObject **sspy_clean_dict_ties(PyTypeObject *type, PyObject *dict);

#endif
