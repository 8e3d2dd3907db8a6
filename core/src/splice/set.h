/*
 * An append-only hash set of pointers: found without a lock, added to under its owner's lock.
 *
 * Every entry is a structure that begins with its 32-bit hash and never changes or moves.
 */
#ifndef SS_SET_H
#define SS_SET_H

#include "base/platform.h"

#include <stdatomic.h>
#include <string.h>

typedef struct ss_set_table {
    size_t capacity;               /* (RO) a power of two */
    struct ss_set_table *previous; /* (RO) a reader may still look at it, so it is kept */
    _Atomic(const uint32_t *) slots[];
} ss_set_table;

typedef struct ss_set {
    _Atomic(ss_set_table *) table; /* (ATOMIC) NULL: empty */
    size_t count;                  /* (LOCK of the owner) */
} ss_set;

/* Zeroed, for a set whose ss_set_wants was CAPACITY; NULL when out of memory. */
ss_set_table *ss_set_new_table(size_t capacity);

/* The capacity of the table that must be put in before the next add, or 0.  Under the lock. */
size_t ss_set_wants(const ss_set *set);

/* Move everything into TABLE, of the wanted capacity.  Under the lock. */
void ss_set_use(ss_set *set, ss_set_table *table);

/* Add ENTRY, which is not in the set, when nothing is wanted.  Under the lock. */
void ss_set_add(ss_set *set, const uint32_t *entry);

/* The entry with HASH that SAME finds equal to KEY, or NULL.  Signal safe. */
const void *ss_set_find(const ss_set *set, uint32_t hash,
                        bool (*same)(const void *entry, const void *key), const void *key);

/* Hashes, one word after the other; begin with SS_HASH_START. */
#define SS_HASH_START UINT64_C(0x9E3779B97F4A7C15)
static inline uint64_t ss_hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9FB21C651E98DF25);
    return hash ^ hash >> 32;
}

/* Up to eight bytes as one word. */
static inline uint64_t ss_hash_tail(const unsigned char *at, size_t size)
{
    uint64_t word = 0;
    uint32_t low, high;

    if (size == 8) {
        memcpy(&word, at, 8);
    } else if (size >= 4) {
        memcpy(&low, at, 4);
        memcpy(&high, at + size - 4, 4);
        word = (uint64_t)high << 32 | low;
    } else if (size) {
        word = (uint64_t)at[0] << 16 | (uint64_t)at[size / 2] << 8 | at[size - 1];
    }
    return word;
}

/* SIZE bytes, and how many they are. */
static inline uint64_t ss_hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    size_t left = size;

    for (; left > 8; at += 8, left -= 8)
        hash = ss_hash_word(hash, ss_hash_tail(at, 8));
    return ss_hash_word(ss_hash_word(hash, ss_hash_tail(at, left)), size);
}

static inline uint32_t ss_hash_words(const uintptr_t *words, size_t count)
{
    uint64_t hash = SS_HASH_START;

    for (size_t i = 0; i < count; i++)
        hash = ss_hash_word(hash, words[i]);
    return (uint32_t)hash;
}

#endif
