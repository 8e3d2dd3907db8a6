/* Hashes of contents, by which what was made of equal contents is found again. */
#ifndef SS_SHARED_MIX_H
#define SS_SHARED_MIX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

__extension__ typedef unsigned __int128 ss_mix_product;

/* Both halves of a product: each bit of the result depends on all bits of A and B. */
static inline uint64_t ss_mix(uint64_t a, uint64_t b)
{
    ss_mix_product whole = (ss_mix_product)a * b;

    return (uint64_t)whole ^ (uint64_t)(whole >> 64);
}

static inline uint64_t ss_mix_word_at(const unsigned char *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof word);
    return word;
}

static inline uint64_t ss_mix_bytes(uint64_t hash, const void *data, size_t length)
{
    const uint64_t odd = UINT64_C(0xA0761D6478BD642F), last = UINT64_C(0xE7037ED1A0B428DB);
    const unsigned char *at = data;
    uint64_t rest = 0;
    size_t left = length;

    for (; left >= 16; at += 16, left -= 16)
        hash = ss_mix(hash ^ ss_mix_word_at(at), odd ^ ss_mix_word_at(at + 8));
    if (left >= 8) {
        hash = ss_mix(hash ^ ss_mix_word_at(at), odd);
        at += 8;
        left -= 8;
    }
    while (left > 0)
        rest = rest << 8 | at[--left];
    return ss_mix(hash ^ rest, last ^ length);
}

/* TEXT may be NULL, which is not "". */
static inline uint64_t ss_mix_text(uint64_t hash, const char *text)
{
    return text ? ss_mix_bytes(hash, text, strlen(text))
                : ss_mix(hash, UINT64_C(0xA0761D6478BD642F));
}

#endif
