/* Resolves native addresses, and caches the answers. */
#ifndef SS_NATIVE_H
#define SS_NATIVE_H

#include "resolve/debuginfo.h"
#include "resolve/resolve.h"

#include <stdatomic.h>

/* The frames of one native address and their strings, in one block. */
typedef struct ss_native_answer {
    atomic_uint refs; /* (ATOMIC) of the cache and of each reader */
    uint32_t count;
    uintptr_t address;
    bool brief;                /* one frame, which is glue; a full answer may have more */
    _Atomic uint32_t searched; /* (ATOMIC) see ss_unread_find */
    uintptr_t nameless; /* start of a nameless function, which scripts may name later; or 0 */
    ss_frame frames[];
} ss_native_answer;

/*
 * Resolve ADDRESS; NULL when nothing is mapped there or memory ran out.  The answer may be brief if
 * BRIEF.
 */
ss_native_answer *ss_native_find(uintptr_t address, bool brief);

/*
 * The same for OFFSET in FILE, whose path and build-id are given; it need not be loaded.  STATUS
 * says why the answer is NULL.  Call after ss_debug_load returned true.
 */
ss_native_answer *ss_native_find_in_file(const ss_binary *file, uintptr_t offset,
                                         ss_file_status *status);
void ss_native_unref(ss_native_answer *answer);

/* Fill F with what all frames of ADDRESS share; BINARY may be NULL. */
void ss_native_frame(uintptr_t address, const ss_binary *binary, ss_frame *f);

/* Set the name that scripts use for a function without a symbol, by its first address. */
void ss_native_name(ss_frame *f);

#endif
