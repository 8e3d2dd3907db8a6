/*
 * An append-only hash set of pointers: found without a lock, added to under its owner's lock.
 *
 * Every entry is a structure that begins with its 32-bit hash and never changes or moves.
 */
#ifndef SS_SET_H
#define SS_SET_H

#include "base/platform.h"

#include <stdatomic.h>

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

/* FNV-1a over SIZE bytes, going on from HASH; begin with SS_HASH_START. */
#define SS_HASH_START UINT32_C(2166136261)
static inline uint32_t ss_hash(uint32_t hash, const void *bytes, size_t size)
{
    for (const unsigned char *b = bytes; size; b++, size--)
        hash = (hash ^ *b) * UINT32_C(16777619);
    return hash;
}

/* The same with one number. */
static inline uint32_t ss_hash_number(uint32_t hash, uint32_t number)
{
    for (unsigned shift = 0; shift < 32; shift += 8)
        hash = (hash ^ (number >> shift & 0xff)) * UINT32_C(16777619);
    return hash;
}

#endif
