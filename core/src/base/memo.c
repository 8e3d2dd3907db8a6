#include "base/memo.h"

#include "base/hash.h"

static uint64_t hash_of(const uint64_t *key, size_t count)
{
    uint64_t hash = SS_HASH_START;

    for (size_t i = 0; i < count; i++)
        hash = ss_hash_word(hash, key[i]);
    return hash | 1;
}

static ss_memo_entry *set_of(ss_memo *memo, uint64_t hash)
{
    return memo->entries[hash >> (64 - SS_MEMO_SETS_LOG2)];
}

static size_t words_of(size_t bytes)
{
    return (bytes + 7) / 8;
}

/* Every word is an acquire: none is read after the turn is looked at again. */
static bool read_entry(ss_memo_entry *e, const uint64_t *key, size_t count, ss_memo_value *value)
{
    unsigned turn = atomic_load_explicit(&e->turn, memory_order_acquire);
    const _Atomic uint64_t *word = e->words;
    uint64_t head;
    size_t words;

    if (turn % 2)
        return false;
    for (size_t i = 0; i < count; i++)
        if (atomic_load_explicit(word++, memory_order_acquire) != key[i])
            return false;
    head = atomic_load_explicit(word++, memory_order_acquire);
    value->is = (uint32_t)(head >> 32);
    value->length = (uint32_t)head;
    words = words_of(value->length);
    if (words > SS_MEMO_WORDS - 1 - count)
        return false; /* of two entries */
    for (size_t i = 0; i < words; i++)
        value->text[i] = atomic_load_explicit(word++, memory_order_acquire);
    return atomic_load_explicit(&e->turn, memory_order_relaxed) == turn;
}

bool ss_memo_get(ss_memo *memo, const uint64_t *key, size_t count, ss_memo_value *value)
{
    uint64_t hash = hash_of(key, count);
    ss_memo_entry *e = set_of(memo, hash);

    for (unsigned way = 0; way < SS_MEMO_WAYS; way++, e++)
        if (atomic_load_explicit(&e->hash, memory_order_relaxed) == hash)
            return read_entry(e, key, count, value);
    return false;
}

/* A release: who reads it sees that the turn is odd. */
static void write_word(_Atomic uint64_t *to, uint64_t word)
{
    atomic_store_explicit(to, word, memory_order_release);
}

static void write_text(_Atomic uint64_t *to, const char *text, size_t length)
{
    for (size_t at = 0; at < length; at += 8) {
        uint64_t word = 0;

        memcpy(&word, text + at, length - at < 8 ? length - at : 8);
        write_word(to++, word);
    }
}

void ss_memo_put(ss_memo *memo, const uint64_t *key, size_t count, uint32_t is, const char *text,
                 size_t length)
{
    uint64_t hash = hash_of(key, count);
    unsigned way = atomic_fetch_add_explicit(&memo->next, 1, memory_order_relaxed) % SS_MEMO_WAYS;
    ss_memo_entry *e = set_of(memo, hash) + way;
    unsigned turn = atomic_load_explicit(&e->turn, memory_order_relaxed);

    if (count + 1 + words_of(length) > SS_MEMO_WORDS || turn % 2)
        return;
    /* An acquire of the writer before, whose words must not come after ours. */
    if (!atomic_compare_exchange_strong_explicit(&e->turn, &turn, turn + 1, memory_order_acquire,
                                                 memory_order_relaxed))
        return;
    write_word(&e->hash, hash);
    for (size_t i = 0; i < count; i++)
        write_word(&e->words[i], key[i]);
    write_word(&e->words[count], (uint64_t)is << 32 | length);
    write_text(&e->words[count + 1], text, length);
    atomic_store_explicit(&e->turn, turn + 2, memory_order_release);
}

size_t ss_memo_text(const char *text, size_t length, uint64_t *to)
{
    size_t words = 0;

    for (; length > 8; text += 8, length -= 8)
        memcpy(&to[words++], text, 8);
    to[words++] = ss_hash_tail((const unsigned char *)text, length);
    return words;
}
