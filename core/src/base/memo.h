/*
 * Tables of what was found out before: a key of some words and its value, which depends on nothing but the
 * key.  So an entry is never out of date; a new one takes the place of an old one.
 *
 * Without locks: whoever reads what another thread writes finds nothing.  An entry whose writer never ended,
 * as in the child of a fork, is not used again.  All of the key is compared: an equal hash is not enough.
 * Signal safe.
 */
#ifndef SS_MEMO_H
#define SS_MEMO_H

#include "base/platform.h"

#include <stdatomic.h>

enum {
    SS_MEMO_SETS_LOG2 = 7,
    SS_MEMO_WAYS = 4,
    SS_MEMO_KEY = 40, /* words at most */
    SS_MEMO_WORDS = 41
};

typedef struct ss_memo_entry {
    atomic_uint turn;                      /* (ATOMIC) odd while somebody writes */
    _Atomic uint64_t hash;                 /* (ATOMIC) of the key; 0: none */
    _Atomic uint64_t words[SS_MEMO_WORDS]; /* (ATOMIC) the key, the value, its text */
} ss_memo_entry;

/* All zero: empty.  As a static variable it takes no memory before its first use, and then up to 172 KB. */
typedef struct ss_memo {
    ss_memo_entry entries[1 << SS_MEMO_SETS_LOG2][SS_MEMO_WAYS];
    atomic_uint next; /* (ATOMIC) */
} ss_memo;

/* A number, and a text that belongs to it: of LENGTH bytes, in words. */
typedef struct ss_memo_value {
    uint32_t is, length;
    uint64_t text[SS_MEMO_WORDS];
} ss_memo_value;

/*
 * Copy what is known of KEY, of COUNT words, to VALUE; false if nothing is.  The first word of a key tells
 * how many it has, where that differs in one table.
 */
bool ss_memo_get(ss_memo *memo, const uint64_t *key, size_t count, ss_memo_value *value);

/* Note IS and the LENGTH bytes of TEXT for KEY, unless that is too long. */
void ss_memo_put(ss_memo *memo, const uint64_t *key, size_t count, uint32_t is, const char *text,
                 size_t length);

/* Words for LENGTH bytes of TEXT at TO; how many.  With the length they are the text. */
size_t ss_memo_text(const char *text, size_t length, uint64_t *to);

#endif
