/*
 * The names that Python's module threading gave to threads.  They are read before a process is
 * stopped, since they seldom change and it would stand still for longer.
 */
#ifndef SSI_PYTHON_NAMES_H
#define SSI_PYTHON_NAMES_H

#include "python/layout.h"

#include <stddef.h>

typedef struct ssi_python_name {
    uint64_t interpreter; /* its address */
    uint64_t ident, id;   /* threading's own number of the thread, and the kernel's */
    const char *text;     /* NULL: it cannot be read */
} ssi_python_name;

typedef struct ssi_python_names {
    ssi_python_name *items; /* owned */
    size_t count, room, at;
} ssi_python_names;

/* Add those of the threads of the interpreter at INTERPRETER. */
void ssi_python_names_add(ssi_python_names *names, const ssi_memory *memory,
                          const ssi_python_layout *layout, uint64_t interpreter);
/* The name of the thread IDENT, or NULL.  Its number ID tells it from one that ended meanwhile; the
   OLDEST thread of an interpreter has no such predecessor, and another number after a fork. */
const char *ssi_python_name_of(ssi_python_names *names, uint64_t interpreter, uint64_t ident,
                               uint64_t id, bool oldest);

#endif
