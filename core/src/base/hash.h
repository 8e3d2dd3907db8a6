/* Hashes of words and bytes. */
#ifndef SS_HASH_H
#define SS_HASH_H

#include "base/platform.h"

#include <string.h>

/* Add one word to a hash; start with SS_HASH_START. */
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

/* Add SIZE bytes, and their count. */
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
