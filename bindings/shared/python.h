/*
 * What is known of CPython's insides: where each version keeps its threads, frames and objects.  The
 * binding reads its own interpreter by it, and the inspection that of another process, so there is
 * no Python.h.  A new version is one row in python.c.
 */
#ifndef SS_SHARED_PYTHON_H
#define SS_SHARED_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who owns a frame's memory.  A frame with a value of FRAME_OF_C or above is an entry frame, which
   is never shown. */
enum { SSPY_FRAME_GENERATOR = 1, SSPY_FRAME_OBJECT = 2, SSPY_FRAME_OF_C = 3 };
/* Bytes of one code unit, in which first_traceable counts. */
enum { SSPY_CODE_UNIT = 2 };
/* The bits of what a frame has for its code that are no part of the pointer, from 3.13 on. */
enum { SSPY_CODE_TAG = 7 };

/* Offsets in bytes. */
typedef struct sspy_layout {
    unsigned minor;
    bool is_free_threaded;
    uint32_t object_head; /* how much longer an object's head is than with the interpreter's lock */
    uint32_t
        frame_copy; /* which copy of its code's instructions a frame runs; 0: there are no copies */
    bool cframe;    /* 3.11, 3.12: the chain's head is a _PyCFrame on the C stack */
    uint32_t interpreters;                                          /* in the runtime */
    uint32_t interpreter_next, interpreter_threads, interpreter_id; /* in an interpreter */
    uint32_t interpreter_collecting, interpreter_modules;
    uint32_t interpreter_collector; /* the frame that began a collection; 0: it does not say */
    uint32_t interpreter_lock;      /* leads to its lock; 0: the runtime has one for all */
    uint32_t runtime_lock;
    uint32_t thread_next, thread_interpreter, thread_head, thread_id;
    uint32_t thread_ident;                  /* as threading has it */
    uint32_t thread_raised, thread_handled; /* exceptions: on its way, and a list of handled ones */
    uint32_t cframe_current, cframe_previous;
    uint32_t frame_code, frame_previous, frame_instruction, frame_owner;
    uint32_t frame_is_entry; /* 3.11: it began its activation; 0: it does not say */
    uint32_t code_first_line, code_first_traceable; /* the second is 16 bytes before the code */
    uint32_t text_ascii, text_compact;              /* where the characters of a str begin */
    uint32_t text_shift;      /* how many bits later the kind is in its state than with the lock */
    uint32_t frame_variables; /* of a function: one word each */
    uint32_t frame_names;     /* of a module or class: its dict */
    uint32_t tuple_items, dict_values;
    uint32_t type_keys; /* those that instances share */
    bool int_tag;       /* from 3.12 on the sign of an int is beside its number of digits */
} sspy_layout;

/* These are the same in all of the versions, behind an object's head. */
enum {
    SSPY_CODE_FLAGS = 48,
    SSPY_CODE_VARIABLES = 96, /* their names */
    SSPY_CODE_KINDS = 104,    /* a byte for each of them */
    SSPY_CODE_FILE = 112,
    SSPY_CODE_NAME = 120,
    SSPY_CODE_QUALNAME = 128,
    SSPY_CODE_TABLE = 136,
    SSPY_OBJECT_TYPE = 8,
    SSPY_VAR_SIZE = 16,
    SSPY_BYTES_DATA = 32,
    SSPY_TEXT_LENGTH = 16,
    SSPY_TEXT_STATE = 32,
    SSPY_TYPE_NAME = 24,
    SSPY_TYPE_INSTANCE_SIZE = 32,
    SSPY_TYPE_FLAGS = 168,
    SSPY_TYPE_BASE = 256,
    SSPY_TYPE_INLINE_VALUES = 1 << 2, /* of the flags; from 3.13 on */
    SSPY_TYPE_MANAGED_DICT = 1 << 4,
    SSPY_TYPE_IS_EXCEPTION = 1 << 30,
    SSPY_LOCK_HOLDER = 8,
    SSPY_LOCK_HELD = 16,
    SSPY_MODULE_DICT = 16,
    SSPY_HANDLED_VALUE = 0,
    SSPY_HANDLED_PREVIOUS = 8,
    SSPY_EXCEPTION_ARGS = 24,
    SSPY_EXCEPTION_TRACEBACK = 40,
    SSPY_EXCEPTION_CONTEXT = 48,
    SSPY_EXCEPTION_CAUSE = 56,
    SSPY_EXCEPTION_SUPPRESSES = 64,
    SSPY_TRACEBACK_NEXT = 16,
    SSPY_TRACEBACK_FRAME = 24,
    SSPY_TRACEBACK_INSTRUCTION = 32,
    SSPY_FRAME_OBJECT_FRAME = 24
};

/* Fill LAYOUT for the CPython whose Py_Version is VERSION and whose _PyRuntime begins with WORDS,
   SSPY_TABLE_WORDS of them; NULL: they cannot be read.  NULL, or why the version cannot be read. */
enum { SSPY_TABLE_WORDS = 97 };
const char *sspy_layout_of(uint64_t version, const uint64_t *words, sspy_layout *layout);

/* Where the members of the object at ADDRESS begin that SSPY_OBJECT_TYPE and the others count from. */
static inline uint64_t sspy_members(const sspy_layout *layout, uint64_t address)
{
    return address + layout->object_head;
}

/* Where the instructions of the code object at CODE begin. */
static inline uint64_t sspy_code_start(const sspy_layout *layout, uint64_t code)
{
    uint64_t copies = layout->frame_copy ? sizeof(uint64_t) : 0; /* the place of an array of them */

    return sspy_members(layout, code) + layout->code_first_traceable + 16 + copies;
}

/* Whether a frame of OWNER has begun to run its code, whose instructions begin at START, and so is shown
   (by the rule of _PyFrame_IsIncomplete). */
static inline bool sspy_has_begun(unsigned owner, uint64_t start, uint64_t instruction,
                                  int first_traceable)
{
    return owner == SSPY_FRAME_GENERATOR ||
           instruction >= start + (uint64_t)first_traceable * SSPY_CODE_UNIT;
}

/* ---- Places in the source ---------------------------------------------------------------------*/

/* 0: unknown.  Columns count UTF-8 bytes from 1; the end is one past the last. */
typedef struct sspy_position {
    uint32_t line, end_line, column, end_column;
    uint32_t prefix; /* how many bytes of the table of locations say so */
} sspy_position;

/* The position of byte offset LASTI in code that begins at FIRST_LINE; of that line when LASTI is
   negative.  TABLE may be damaged. */
sspy_position sspy_position_in(const unsigned char *table, size_t size, int first_line, int lasti);

#endif
