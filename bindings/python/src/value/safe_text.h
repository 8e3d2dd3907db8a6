/* Texts of values that run no code of the program. */
#ifndef SSPY_SAFE_TEXT_H
#define SSPY_SAFE_TEXT_H

#include "life/life.h"

/* The text of VALUE; NULL with an exception. */
PyObject *sspy_safe_text(PyObject *value);

/* Whether that shows more of VALUE than its type. */
bool sspy_is_plain(PyObject *value);

#endif
