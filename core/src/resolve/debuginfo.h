/*
 * Debug information for an address: the functions inlined there, file, line and symbol.  The build
 * picks one of two variants.  debuginfo_libdw.c and its kin load elfutils' libdw.so.1 on first use;
 * debuginfo_none.c knows nothing.
 *
 * Every call but the first two runs under one lock of native.c.  Strings live until that lock is
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
} ss_debug_frame;

typedef struct ss_debug_answer {
    uint32_t count; /* innermost first; the last is the function that exists as machine code */
    ss_debug_frame frames[SS_INLINE_MAX];
    bool replaced;      /* the file on disk is not the one that was loaded, so nothing is known */
    const char *symbol; /* of the machine code, or NULL */
    uintptr_t symbol_start;
} ss_debug_answer;

/*
 * Load the library; false when there is none.  Takes the loader's lock, so call it without
 * resolve's: a constructor run by the loader may be resolving, too.
 */
bool ss_debug_load(void);

/* After ss_debug_load returned false: why, and what to do; NULL: out of memory. */
const char *ss_debug_missing(void);

/*
 * Drop all cached modules when GENERATION differs from that of the last call: modules were
 * unloaded.
 */
void ss_debug_refresh(uint64_t generation);

/*
 * Allocate what a lookup of one more module needs.  The lookup itself may run on a stack of our
 * own, where we do not call the host's allocator.
 */
void ss_debug_make_room(void);

/*
 * Fill ANSWER, which is all zero, for ADDRESS in MODULE; unknown fields stay zero.  Stops at the
 * symbol if IS_ENOUGH, which may be NULL, says so.
 */
void ss_debug_lookup(const ss_binary *module, uintptr_t address,
                     bool (*is_enough)(const char *symbol), ss_debug_answer *answer);

/* What a file that is not loaded was good for. */
typedef enum ss_file_status {
    SS_FILE_READ,
    SS_FILE_MISSING,     /* no regular file can be opened there */
    SS_FILE_NO_BINARY,   /* it is no binary of 64 bits, or damaged */
    SS_FILE_OTHER_BUILD, /* its build-id is another one */
    SS_FILE_NO_MEMORY
} ss_file_status;

/*
 * The same for OFFSET from the load address of the binary at PATH, or of the one that this separate
 * debug file belongs to.  An empty BUILD_ID fits each file.  The answer's symbol starts at an
 * offset, too.  The last files stay open.
 */
ss_file_status ss_debug_lookup_file(const char *path, const char *build_id, uint64_t offset,
                                    ss_debug_answer *answer);

/* Close these files. */
void ss_debug_forget_files(void);

/* At process exit: free everything and answer nothing from then on. */
void ss_debug_close(void);

#endif
