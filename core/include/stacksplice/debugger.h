/*
 * For debuggers and tools that inspect errors from outside of the code that raises them.
 *
 * The general rules are those of stacksplice.h.
 */
#ifndef STACKSPLICE_DEBUGGER_H
#define STACKSPLICE_DEBUGGER_H

#include "source.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Inspection ------------------------------------------------------------------------------*/

/*
 * The fixed beginning of the data that RoInspectThreadErrorInfo and RoInspectCapturedStackBackTrace
 * read.  Both structures have one layout on every machine.  A change gets a new version.
 */
#define STACKSPLICE_ANCHOR_SIGNATURE 0x41545353u /* "SSTA" in memory */
#define STACKSPLICE_RECORD_SIGNATURE 0x52455353u /* "SSER" in memory */
#define STACKSPLICE_INSPECT_VERSION 1u

typedef struct stacksplice_anchor {
    uint32_t signature; /* STACKSPLICE_ANCHOR_SIGNATURE */
    uint32_t version;   /* STACKSPLICE_INSPECT_VERSION */
    uint64_t error;     /* address of the stacksplice_record of the thread's error, or 0 */
} stacksplice_anchor;

typedef struct stacksplice_record {
    uint32_t signature; /* STACKSPLICE_RECORD_SIGNATURE; 0 once the error is gone */
    uint32_t version;   /* STACKSPLICE_INSPECT_VERSION */
    uint32_t frame_count;
    uint32_t frame_size; /* bytes of one element: 4 or 8 */
    uint64_t frames;     /* address of the captured stack */
    uint64_t thread_id;
    int32_t hresult;
    uint32_t reserved;
} stacksplice_record;

/*
 * The calling thread's anchor.  Its address is fixed for the life of the thread; it has the role of
 * the TEB on Windows.  A debugger gets it by calling this function.
 * [own: the thread's | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API const stacksplice_anchor *stacksplice_thread_anchor(void);

/* ---- What a process tells those who stop it --------------------------------------------------*/

/*
 * The block: where the errors, the tokens and the interpreters of this process are, for debuggers
 * and readers of core files.  A reader may stop the process anywhere: whatever it finds is then
 * complete.  Numbers are little or big-endian as the machine is; addresses have 64 bits.
 *
 * A reader finds the block by its symbol.  Where a program was linked statically and stripped, it
 * searches the writable mappings of binaries for the signature, at multiples of 16 bytes, with the
 * block's own address behind it.  Each copy of the library in a process has a block.
 *
 * A later version with the same first five members may append members.  A reader says so where
 * `version` is another one, and reads nothing more.
 */
#define STACKSPLICE_INSPECTION_SIGNATURE "stacksplice:data" /* without the NUL */
#define STACKSPLICE_INSPECTION_VERSION 2u

/* What an entry of the block's list is about. */
enum {
    STACKSPLICE_ENTRY_FREE = 0,
    STACKSPLICE_ENTRY_TAKEN = 1, /* being filled or emptied */
    /* OBJECT is the address of a thread's stacksplice_anchor, DETAIL the thread's id.  Listed are
       threads that had an error. */
    STACKSPLICE_ENTRY_THREAD = 2,
    /* OBJECT is the address of an interpreter's state, as its own headers have it, DETAIL that of
       its owner. */
    STACKSPLICE_ENTRY_INTERPRETER = 3
};

typedef struct stacksplice_entry {
    uint32_t kind; /* STACKSPLICE_ENTRY_... */
    uint32_t reserved;
    uint64_t object;
    uint64_t detail;
} stacksplice_entry;

#define STACKSPLICE_ENTRIES 170

typedef struct stacksplice_entries {
    uint64_t next; /* address of the next stacksplice_entries, or 0 */
    stacksplice_entry entries[STACKSPLICE_ENTRIES];
} stacksplice_entries;

/*
 * Sizes, and offsets in the objects of an error, in bytes.  Offsets count from the
 * stacksplice_record in an error or node, and may be negative; in a language exception from its
 * interface; in other objects from the beginning.
 */
typedef enum stacksplice_number {
    /* Cells of tokens: see stacksplice_inspection_block.token_chunks. */
    STACKSPLICE_NUMBER_CELLS,       /* of all chunks */
    STACKSPLICE_NUMBER_CHUNK_CELLS, /* of one */
    STACKSPLICE_NUMBER_CELL_SIZE,
    STACKSPLICE_NUMBER_CELL_STATE, /* 64 bits */
    STACKSPLICE_NUMBER_CELL_NEXT,  /* 32 bits: the cell in which the row goes on */
    STACKSPLICE_NUMBER_CELL_ROW,   /* words of 64 bits */
    STACKSPLICE_NUMBER_CELL_WORDS,
    STACKSPLICE_NUMBER_FIXED_TOKENS, /* elements of fixed_tokens */
    /* A module of code that was unloaded. */
    STACKSPLICE_NUMBER_MODULE_BUILD_ID, /* pointer to its build-id, in hexadecimal digits, or "" */
    STACKSPLICE_NUMBER_MODULE_PATH,     /* its bytes, with a NUL */
    /* An error or node. */
    STACKSPLICE_NUMBER_RECORD_EXCEPTION, /* pointer to its language exception's interface, or 0 */
    /* An error. */
    STACKSPLICE_NUMBER_ERROR_INTERFACE,       /* by which other objects point to it */
    STACKSPLICE_NUMBER_ERROR_MESSAGE,         /* pointer to UTF-16; 0: the text of the HRESULT */
    STACKSPLICE_NUMBER_ERROR_MESSAGE_LENGTH,  /* 32 bits */
    STACKSPLICE_NUMBER_ERROR_PREVIOUS,        /* pointer to the error that it was made from, or 0 */
    STACKSPLICE_NUMBER_ERROR_RELATION,        /* 8 bits: that one's stacksplice_relation to it */
    STACKSPLICE_NUMBER_ERROR_CAUSES_LEFT_OUT, /* 32 bits */
    STACKSPLICE_NUMBER_ERROR_NODES,           /* pointer to its newest node, or 0 */
    STACKSPLICE_NUMBER_ERROR_NOTES,           /* pointer to the newest note added to it, or 0 */
    STACKSPLICE_NUMBER_ERROR_PROCESS,         /* 64 bits: the first half of its reference */
    STACKSPLICE_NUMBER_ERROR_NUMBER,          /* 64 bits: the second half; 0: it has no reference */
    /* A node. */
    STACKSPLICE_NUMBER_NODE_RECORD,   /* from its beginning, to which others point, to its record */
    STACKSPLICE_NUMBER_NODE_PREVIOUS, /* pointer to the next older one, or 0 */
    STACKSPLICE_NUMBER_NODE_RECEIVER, /* pointer to a text: the language that received the error */
    /* A note. */
    STACKSPLICE_NUMBER_NOTE_PREVIOUS, /* pointer to the next older one, or 0 */
    STACKSPLICE_NUMBER_NOTE_LENGTH,   /* 64 bits */
    STACKSPLICE_NUMBER_NOTE_TEXT,     /* its bytes */
    /* A language exception. */
    STACKSPLICE_NUMBER_EXCEPTION_OWNER,            /* pointer to its owner */
    STACKSPLICE_NUMBER_EXCEPTION_TYPE,             /* pointer to a text, or 0 */
    STACKSPLICE_NUMBER_EXCEPTION_MESSAGE,          /* pointer to UTF-8, or 0 */
    STACKSPLICE_NUMBER_EXCEPTION_MESSAGE_LENGTH,   /* 64 bits */
    STACKSPLICE_NUMBER_EXCEPTION_GROUP,            /* 8 bits: nonzero for a group */
    STACKSPLICE_NUMBER_EXCEPTION_MEMBERS,          /* pointer to pointers to errors */
    STACKSPLICE_NUMBER_EXCEPTION_MEMBER_COUNT,     /* 32 bits */
    STACKSPLICE_NUMBER_EXCEPTION_MEMBERS_LEFT_OUT, /* 32 bits */
    STACKSPLICE_NUMBER_EXCEPTION_NOTES,            /* pointer to stacksplice_document_text */
    STACKSPLICE_NUMBER_EXCEPTION_NOTE_COUNT,       /* 32 bits */
    /* An owner. */
    STACKSPLICE_NUMBER_OWNER_LANGUAGE, /* pointer to its stacksplice_language */
    STACKSPLICE_NUMBER_OWNER_VERSION,  /* pointer to a text: the interpreter's version */
    STACKSPLICE_NUMBERS
} stacksplice_number;

/*
 * Two kinds of tokens have no entry in a table, and are told by these bits of the address.  Without
 * the bits, the id of the first is a number of frames that were left out.  The id of the second is an
 * address of code that was unloaded since: the offset in its lowest bits, and above them the index of
 * its module, or STACKSPLICE_TOKEN_MODULES where that is not known.
 */
#define STACKSPLICE_TOKEN_LEFT_OUT (UINT64_C(1) << 47)
#define STACKSPLICE_TOKEN_UNLOADED (UINT64_C(3) << 46)
#define STACKSPLICE_TOKEN_MODULES ((1 << 12) - 1)
#define STACKSPLICE_TOKEN_MODULE_BITS 30 /* of the offset */

/* The strings of a token, in their order. */
enum {
    STACKSPLICE_TOKEN_LANGUAGE,
    STACKSPLICE_TOKEN_FUNCTION,
    STACKSPLICE_TOKEN_FILE,
    STACKSPLICE_TOKEN_REASON,
    STACKSPLICE_TOKEN_INTERPRETER,
    STACKSPLICE_TOKEN_CALLS,
    STACKSPLICE_TOKEN_SOURCE,
    STACKSPLICE_TOKEN_STRINGS
};

#define STACKSPLICE_TOKEN_CHUNK 1        /* flags of a row */
#define STACKSPLICE_TOKEN_ASYNCHRONOUS 2 /* see stacksplice_token_info */

/* The first words of a token's row.  A size is one more than the string's length, 0 for none. */
typedef struct stacksplice_token_row {
    uint8_t kind;            /* stacksplice_frame_kind */
    uint8_t trust;           /* stacksplice_trust */
    uint8_t flags;           /* STACKSPLICE_TOKEN_CHUNK, STACKSPLICE_TOKEN_ASYNCHRONOUS */
    uint8_t cut;             /* a bit for each string that was cut */
    uint16_t first_sizes[2]; /* of the first strings */
    uint32_t end_line, line, end_column, column;
    uint16_t later_sizes[8]; /* of the others; the rest is 0 */
} stacksplice_token_row;

typedef struct stacksplice_inspection_block {
    char signature[16];    /* STACKSPLICE_INSPECTION_SIGNATURE */
    uint64_t self;         /* the address of the block */
    uint32_t version;      /* STACKSPLICE_INSPECTION_VERSION */
    uint32_t size;         /* bytes of the block */
    uint32_t number_count; /* STACKSPLICE_NUMBERS */
    uint32_t reserved;
    uint64_t entries; /* address of the first stacksplice_entries */
    /* The stacksplice_record of the error with which the process failed fast, or 0. */
    uint64_t failed;
    /*
     * unloaded_modules is the address of the addresses of all modules that
     * STACKSPLICE_TOKEN_UNLOADED is about, 0 from the first one on that nobody met.  Of tokens
     * without the bits above, an id below FIXED_TOKENS is an element of fixed_tokens, an array of
     * stacksplice_token_info at that address.  Else it stands for the cell id % CELLS while that
     * cell's state is id / CELLS * 2 + 1; token_chunks is the address of the addresses of all
     * chunks, 0 where one is not mapped yet.
     *
     * The row of a token has the words of a stacksplice_token_row and then its strings, each
     * beginning at a word.
     */
    uint64_t token_chunks, fixed_tokens, unloaded_modules;
    /* The first word of each object that is laid out as the numbers say: an interface of another
       library has another one. */
    uint64_t error_methods, exception_methods;
    int32_t numbers[STACKSPLICE_NUMBERS]; /* by stacksplice_number */
} stacksplice_inspection_block;

extern STACKSPLICE_API const stacksplice_inspection_block stacksplice_inspection;

/* ---- Symbols after the fact ------------------------------------------------------------------*/

/*
 * What stacksplice_resolve would say of a native frame of another process: call CALLBACK for each
 * frame at OFFSET in the binary at PATH, which need not be loaded.  OFFSET is the frame's
 * module_offset.  PATH is the binary or its separate debug file.  Separate debug files of a
 * stripped binary are searched by build-id in /usr/lib/debug.
 *
 * BUILD_ID, in lower-case hexadecimal, is that of the frame: a file with another one is refused.
 * NULL accepts each file.  Frames have OFFSET as their address, and names that scripts use are not
 * known.  The library keeps the last few files open.
 *
 * Returns S_OK, or S_FALSE when CALLBACK stopped it.  Errors: E_POINTER if path or callback is
 * NULL; E_INVALIDARG if offset is 0 or a text too long; E_OUTOFMEMORY; and HRESULT_FROM_WIN32 of
 * ERROR_MOD_NOT_FOUND if this process has no libdw (see stacksplice_lines_missing),
 * ERROR_FILE_NOT_FOUND if no regular file can be opened, ERROR_BAD_FORMAT if it is no 64-bit ELF
 * binary or damaged, ERROR_INVALID_DATA if its build-id is another one.
 * [own: frame lent | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_resolve_file(const char *path, const char *build_id,
                                                             uint64_t offset,
                                                             stacksplice_frame_callback callback,
                                                             void *data);

/*
 * The same by tables of symbols alone, those of a separate debug file among them: one frame, which
 * has at most a function's name.  It reads no lines and no inlined functions, which takes long
 * where debug information is compressed.
 * [own: frame lent | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_resolve_symbol(const char *path,
                                                               const char *build_id,
                                                               uint64_t offset,
                                                               stacksplice_frame_callback callback,
                                                               void *data);

#ifdef __cplusplus
}
#endif
#endif
