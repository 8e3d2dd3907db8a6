/*
 * Debug information for an address: the functions inlined there, file, line and symbol.  The build
 * picks one of two variants.  debuginfo_libdw.c and its kin load elfutils' libdw.so.1 on first use;
 * debuginfo_none.c knows nothing.
 *
 * Every call but the first two runs under one lock of resolve.c.  Strings live until that lock is
 * released.
 */
#ifndef SS_DEBUGINFO_H
#define SS_DEBUGINFO_H

#include "unwind/binary.h"

enum { SS_INLINE_MAX = 32 };

/* One source-level function at an address. */
typedef struct ss_debug_frame {
    const char *function; /* as the source spells it, or a linkage name that may be mangled */
    const char *file;
    uint32_t line, column; /* 0: unknown */
    bool is_gap;           /* no function: more were inlined here than are kept */
} ss_debug_frame;

typedef struct ss_debug_answer {
    uint32_t count; /* innermost first; the last is the function that exists as machine code */
    ss_debug_frame frames[SS_INLINE_MAX];
    const char *symbol;     /* of the machine code, or NULL */
    uintptr_t symbol_start; /* an offset, too */
} ss_debug_answer;

/*
 * Load the library; false when there is none.  Takes the loader's lock, so call it without
 * resolve's: a constructor run by the loader may be resolving, too.
 */
bool ss_debug_load(void);

/* After ss_debug_load returned false: why, and what to do; NULL: out of memory. */
const char *ss_debug_missing(void);

/* What a file was good for. */
typedef enum ss_file_status {
    SS_FILE_READ,
    SS_FILE_MISSING,     /* no regular file can be opened there */
    SS_FILE_NO_BINARY,   /* it is no binary of 64 bits, or damaged */
    SS_FILE_OTHER_BUILD, /* its build-id is another one, or it is not the file that was loaded */
    SS_FILE_NO_MEMORY
} ss_file_status;

/*
 * Fill ANSWER, which is all zero, for OFFSET from the load address of MODULE, or of the binary that
 * MODULE, a separate debug file, belongs to; unknown fields stay zero.  Where MODULE starts at 0 it
 * is not loaded, and an empty build-id fits each file.  Stops at the symbol, or at NULL where there is
 * none, if IS_ENOUGH, which may be NULL, says so.  The last files stay open.
 */
ss_file_status ss_debug_lookup(const ss_binary *module, uint64_t offset,
                               bool (*is_enough)(const char *symbol), ss_debug_answer *answer);

/* Close these files. */
void ss_debug_forget(void);

/* At process exit: free everything and answer nothing from then on. */
void ss_debug_close(void);

#endif
