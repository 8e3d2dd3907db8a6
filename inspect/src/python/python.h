#ifndef SSI_PYTHON_H
#define SSI_PYTHON_H

#include "base/base.h"
#include "python/tasks.h"
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
 * The frames of every CPython that is known in a target, with or without stacksplice in it.
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
    ssi_task_layout tasks;
    ssi_map task_modules; /* the dicts of asyncio.tasks, by interpreter */
} ssi_python;

typedef struct ssi_pythons {
    ssi_python items[SSI_MAX_PYTHONS];
    size_t count;
    uint64_t task_tables[SSI_MAX_PYTHONS]; /* of modules _asyncio */
    size_t task_table_count;
} ssi_pythons;

/* Add what BINARY has of Python, which is mapped at MAPPING. */
void ssi_pythons_add(ssi_pythons *pythons, const ssi_binary *binary, const ssi_mapping *mapping,
                     ssi_scripts *scripts);
/* Read what stays as it is while a process runs, or seldom changes. */
void ssi_pythons_learn(ssi_pythons *pythons);
/* Add the runs of all threads of all PYTHONS.  What cannot be read is noted. */
void ssi_pythons_read(ssi_pythons *pythons, ssi_scripts *scripts);
void ssi_pythons_free(ssi_pythons *pythons);

#endif
