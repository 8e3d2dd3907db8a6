/* What is known of a native address, and the cache of it. */
#ifndef SS_NATIVE_H
#define SS_NATIVE_H

#include "resolve/resolve.h"

#include <stdatomic.h>

/* The frames of one native address with their strings, in one block. */
typedef struct ss_native_answer {
    atomic_uint refs; /* (ATOMIC) the cache's and each reader's */
    uint32_t count;
    uintptr_t address;
    _Atomic uint32_t searched; /* (ATOMIC) see ss_unread_find */
    uintptr_t nameless; /* start of a function without a name, which scripts may name later; or 0 */
    ss_frame frames[];
} ss_native_answer;

/* All that is known of ADDRESS; NULL: nothing is mapped there, or there is no memory. */
ss_native_answer *ss_native_find(uintptr_t address);
void ss_native_unref(ss_native_answer *answer);

/* What all frames of ADDRESS share, into F; BINARY may be NULL. */
void ss_native_frame(uintptr_t address, const ss_binary *binary, ss_frame *f);

/* A function without a symbol may have a name in scripts, known by its first address. */
void ss_native_name(ss_frame *f);

#endif
