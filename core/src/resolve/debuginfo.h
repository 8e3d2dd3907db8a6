/*
 * What debug information says of an address: the functions inlined there, file, line and symbol.
 * Two variants: debuginfo_libdw.c loads elfutils' libdw.so.1 when it is first needed, and
 * debuginfo_none.c knows nothing; the build picks one.
 *
 * Every call but the first two is made under one lock of resolve.c, and strings live until that
 * lock is released.
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
 * Load what is needed; false when there is nothing to load.  Takes the loader's lock, and so must
 * be called without resolve's: a constructor run by the loader may be resolving, too.
 */
bool ss_debug_load(void);

/* After ss_debug_load said false: why, and what to do; NULL: memory ran out. */
const char *ss_debug_missing(void);

/* Forget everything when GENERATION is not that of the last call: modules were unloaded. */
void ss_debug_refresh(uint64_t generation);

/* Allocate what a lookup of one more module needs, since it may run on a stack of our own, where
   the host's allocator is not called. */
void ss_debug_make_room(void);

/* Fill ANSWER, which is all zero, for ADDRESS in MODULE; what is not known stays zero. */
void ss_debug_lookup(const ss_binary *module, uintptr_t address, ss_debug_answer *answer);

/* The process ends: free everything and answer nothing from now on. */
void ss_debug_close(void);

#endif
