/* Texts of values that run no code of the program. */
#ifndef SSPY_SAFE_TEXT_H
#define SSPY_SAFE_TEXT_H

#include "life/life.h"

/* docs/reports.md has these limits, too. */
enum {
    SSPY_LOCAL_CHARACTERS = 200, /* of a str, or bytes of a bytes */
    SSPY_LOCAL_ITEMS = 10,       /* of a container */
    SSPY_LOCAL_DEPTH = 3,        /* of containers in containers */
    SSPY_LOCAL_BYTES = 500,      /* of a container's text */
    SSPY_LOCAL_TYPE = 100        /* bytes of a type's name */
};

/* The text of VALUE; NULL with an exception. */
PyObject *sspy_safe_text(PyObject *value);

/* Whether that shows more of VALUE than its type. */
bool sspy_is_plain(PyObject *value);

#endif
