#ifndef SSI_PYTHON_H
#define SSI_PYTHON_H

#include "base/base.h"
#include "target/frame.h"
#include "target/target.h"

#include <stddef.h>

/* Where a CPython keeps its threads and frames: one row a minor version. */

/* Who owns a frame.  At FRAME_OF_C and above it is an entry frame, which is never shown. */
enum { SSI_FRAME_OF_GENERATOR = 1, SSI_FRAME_OF_C = 3, SSI_CODE_UNIT = 2 };

typedef struct ssi_python_layout {
    unsigned minor;
    bool cframe;           /* 3.11, 3.12: the chain's head is a _PyCFrame on the C stack */
    bool entry_bit;        /* 3.11: a frame itself says that it began its activation */
    uint32_t interpreters; /* in the runtime */
    uint32_t interpreter_next, interpreter_threads, interpreter_id; /* in an interpreter */
    uint32_t interpreter_collecting, interpreter_modules;
    uint32_t interpreter_collector; /* the frame that began a collection; 0: it does not say */
    uint32_t interpreter_lock;      /* leads to its lock; 0: the runtime has one for all */
    uint32_t runtime_lock;
    uint32_t thread_next, thread_interpreter, thread_head, thread_id;
    uint32_t thread_ident;                  /* as threading has it */
    uint32_t thread_raised, thread_handled; /* exceptions: on its way, and a list of handled ones */
    uint32_t cframe_current, cframe_previous;
    uint32_t frame_code, frame_previous, frame_instruction, frame_owner, frame_is_entry;
    uint64_t code_mask; /* the bits of frame_code that form the pointer */
    uint32_t code_first_line, code_first_traceable, code_instructions;
    uint32_t text_ascii, text_compact; /* where the characters of a str begin */
    uint32_t frame_variables;          /* of a function: one word each */
    uint32_t frame_names;              /* of a module or class: its dict */
    uint32_t tuple_items, dict_values;
    uint32_t type_keys; /* those that instances share */
    bool int_tag;       /* from 3.12 on the sign of an int is beside its number of digits */
} ssi_python_layout;

/* These are the same in all of the versions. */
enum {
    SSI_CODE_FLAGS = 48,
    SSI_CODE_VARIABLES = 96, /* their names */
    SSI_CODE_KINDS = 104,    /* a byte for each of them */
    SSI_CODE_FILE = 112,
    SSI_CODE_NAME = 120,
    SSI_CODE_QUALNAME = 128,
    SSI_CODE_TABLE = 136,
    SSI_OBJECT_TYPE = 8,
    SSI_VAR_SIZE = 16,
    SSI_BYTES_DATA = 32,
    SSI_TEXT_LENGTH = 16,
    SSI_TEXT_STATE = 32,
    SSI_TYPE_NAME = 24,
    SSI_TYPE_INSTANCE_SIZE = 32,
    SSI_TYPE_FLAGS = 168,
    SSI_TYPE_INLINE_VALUES = 1 << 2, /* of the flags; from 3.13 on */
    SSI_TYPE_MANAGED_DICT = 1 << 4,
    SSI_TYPE_IS_EXCEPTION = 1 << 30,
    SSI_LOCK_HOLDER = 8,
    SSI_LOCK_HELD = 16,
    SSI_MODULE_DICT = 16,
    SSI_HANDLED_VALUE = 0,
    SSI_HANDLED_PREVIOUS = 8,
    SSI_EXCEPTION_ARGS = 24,
    SSI_EXCEPTION_TRACEBACK = 40,
    SSI_EXCEPTION_CONTEXT = 48,
    SSI_EXCEPTION_CAUSE = 56,
    SSI_EXCEPTION_SUPPRESSES = 64,
    SSI_TRACEBACK_NEXT = 16,
    SSI_TRACEBACK_FRAME = 24,
    SSI_TRACEBACK_INSTRUCTION = 32,
    SSI_FRAME_OBJECT_FRAME = 24
};

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

/* The name of the thread IDENT, or NULL.  Its number ID tells it from one that ended meanwhile; the
   OLDEST thread of an interpreter has no such predecessor, and another number after a fork. */
const char *ssi_python_name_of(ssi_python_names *names, uint64_t interpreter, uint64_t ident,
                               uint64_t id, bool oldest);

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
    ssi_python_layout layout;
    ssi_python_names names;
} ssi_python;

/* Those in the binaries of TARGET, at most SSI_MAX_PYTHONS. */
size_t ssi_python_find(const ssi_target *target, ssi_python *found);
/* Read what stays as it is while a process runs, or seldom changes, by the addresses of FOUND. */
void ssi_python_learn(const ssi_memory *memory, ssi_python *found);
/* Add the runs of all threads of PYTHON.  What cannot be read is noted. */
void ssi_python_read(const ssi_target *target, ssi_python *python, ssi_scripts *scripts);

void ssi_python_free(ssi_python *python);

#endif
