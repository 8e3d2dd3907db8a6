/* Where a CPython keeps its threads and frames: one row a minor version. */
#ifndef SSI_PYTHON_LAYOUT_H
#define SSI_PYTHON_LAYOUT_H

#include "base/memory.h"

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

/* Fill LAYOUT for the runtime at RUNTIME; VERSION is the address of Py_Version, or 0.  NULL, or why
   it cannot be read.  *NUMBER is the version as Py_Version has it, or 0. */
const char *ssi_python_layout_of(const ssi_memory *memory, uint64_t runtime, uint64_t version,
                                 ssi_python_layout *layout, uint64_t *number);

#endif
