#ifndef SSI_PYTHON_H
#define SSI_PYTHON_H

#include "base/base.h"
#include "shared/python.h"
#include "target/binary.h"
#include "target/frame.h"
#include "target/target.h"

#include <stddef.h>

/*
 * The names that Python's module threading gave to threads.  They are read before a process is
 * stopped, since they seldom change and it would stand still for longer.
 */

typedef struct ssi_python_name {
    uint64_t interpreter; /* its address */
    uint64_t ident, id;   /* threading's own number of the thread, and the kernel's */
    const char *text;     /* NULL: it cannot be read */
} ssi_python_name;

typedef struct ssi_python_names {
    ssi_python_name *items; /* owned */
    size_t count, room, at;
} ssi_python_names;

/*
 * The frames of every CPython 3.11 to 3.15 in a target, with or without stacksplice in it.
 */

enum { SSI_MAX_PYTHONS = 8, SSI_MAX_INTERPRETERS = 256 /* of one */ };

/* A copy of CPython in a target: found before a process is stopped, since files take time. */
typedef struct ssi_python {
    uint64_t runtime;    /* address of _PyRuntime */
    uint64_t version_at; /* address of Py_Version; 0 if not found */
    const char *path;
    const char *version; /* as Python writes it, or NULL */
    const char *why;     /* it cannot be read, or NULL */
    sspy_layout layout;
    ssi_python_names names;
} ssi_python;

/* Add the one in BINARY, which is mapped at MAPPING, to the COUNT of PYTHONS; how many there are then.
 */
size_t ssi_python_add(ssi_python *pythons, size_t count, const ssi_binary *binary,
                      const ssi_mapping *mapping);
/* Read what stays as it is while a process runs, or seldom changes, by the addresses of FOUND. */
void ssi_python_learn(ssi_python *found);
/* Add the runs of all threads of PYTHON.  What cannot be read is noted. */
void ssi_python_read(ssi_python *python, ssi_scripts *scripts);

void ssi_python_free(ssi_python *python);

#endif
