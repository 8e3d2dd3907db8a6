/*
 * Debug information for an address: the functions inlined there, file, line and symbol.  The build
 * picks one of two variants.  debuginfo_libdw.c loads elfutils' libdw.so.1 on first use;
 * debuginfo_none.c knows nothing.
 *
 * Every call but the first two runs under one lock of resolve.c.  Strings live until that lock is
 * released.
 */
#ifndef SS_DEBUGINFO_H
#define SS_DEBUGINFO_H

#include "resolve/binary.h"

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

/* At process exit: free everything and answer nothing from then on. */
void ss_debug_close(void);

#endif
