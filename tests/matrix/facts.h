/* What the module reads of facts.c; the lock of Python is held. */
#ifndef MATRIX_FACTS_H
#define MATRIX_FACTS_H

#include <Python.h>

#include <stacksplice/source.h>

#include "matrix.h"

void matrix_facts_reset(void);
PyObject *matrix_facts(void);      /* borrowed */
PyObject *matrix_facts_take(void); /* a new reference */

#endif
