/* Which of the builtin types a value of a target has. */
#ifndef SSI_PYTHON_TYPE_H
#define SSI_PYTHON_TYPE_H

#include "base/memory.h"

typedef enum ssi_python_kind {
    SSI_PYTHON_OTHER, /* also values of subclasses */
    SSI_PYTHON_NONE,
    SSI_PYTHON_BOOL,
    SSI_PYTHON_INT,
    SSI_PYTHON_FLOAT,
    SSI_PYTHON_STR,
    SSI_PYTHON_BYTES,
    SSI_PYTHON_LIST,
    SSI_PYTHON_TUPLE,
    SSI_PYTHON_DICT,
    SSI_PYTHON_SET,
    SSI_PYTHON_FROZENSET,
    SSI_PYTHON_CELL
} ssi_python_kind;

enum { SSI_PYTHON_TYPE_ROOM = 101 };

/* The kind of the value at ADDRESS, and the name of its type; "" if it cannot be read. */
ssi_python_kind ssi_python_kind_of(const ssi_memory *memory, uint64_t address,
                                   char name[SSI_PYTHON_TYPE_ROOM]);

#endif
