/*
 * Texts in which the rules found no secret.  Reports show the same names, paths and lines of source again
 * and again, and what the rules say of a text depends on nothing but its bytes, its kind and the rules: so
 * an entry is never out of date, and rules that were replaced have another number.
 *
 * A bounded table without locks, of whole texts, because a hash that is equal by chance would let a secret
 * out.  Whoever reads what another thread writes has found nothing.  A place whose writer ended within (a
 * fork by another thread) is never used again.  Signal safe.
 */
#include "redact/redact.h"
#include "base/hash.h"

#include <stdatomic.h>

enum { SETS_LOG2 = 7, WAYS = 4, WORDS = 22, LONGEST = WORDS * 8 };

typedef struct entry {
    atomic_uint turn;              /* (ATOMIC) odd while somebody writes */
    _Atomic uint64_t hash;         /* (ATOMIC) of it all; 0: none */
    _Atomic uint64_t facts;        /* (ATOMIC) see facts_of */
    _Atomic uint64_t words[WORDS]; /* (ATOMIC) */
} entry;

/* No page of it is in memory before a report is. */
static entry table[1 << SETS_LOG2][WAYS];
static atomic_uint next_way; /* (ATOMIC) */

/* The rules, the kind and the length, and whether it is PLAIN. */
static uint64_t facts_of(const ss_rules *rules, const ss_text *text, stacksplice_text_kind kind,
                         bool is_plain)
{
    return (uint64_t)rules->number << 32 | (uint64_t)text->length << 16 | (uint64_t)kind << 8 |
           is_plain;
}

static uint64_t word_at(const ss_text *text, size_t at)
{
    size_t left = text->length - at;

    return ss_hash_tail((const unsigned char *)text->utf8 + at, left < 8 ? left : 8);
}

static uint64_t hash_of(const ss_text *text, uint64_t facts)
{
    uint64_t hash = ss_hash_word(SS_HASH_START, facts);

    for (size_t at = 0; at < text->length; at += 8)
        hash = ss_hash_word(hash, word_at(text, at));
    return hash | 1;
}

static entry *set_of(uint64_t hash)
{
    return table[hash >> (64 - SETS_LOG2)];
}

static bool is_for_table(const ss_rules *rules, const ss_text *text, stacksplice_text_kind kind)
{
    return rules && text->utf8 && text->length - 1 < LONGEST && kind != STACKSPLICE_TEXT_LOCAL;
}

/* An acquire of every word: none is read after the turn is looked at again. */
static bool is_equal(entry *e, const ss_text *text, uint64_t facts, bool *is_plain)
{
    unsigned turn = atomic_load_explicit(&e->turn, memory_order_acquire);
    uint64_t found = atomic_load_explicit(&e->facts, memory_order_acquire);
    _Atomic uint64_t *word = e->words;

    if (turn % 2 || (found & ~UINT64_C(1)) != facts)
        return false;
    for (size_t at = 0; at < text->length; at += 8)
        if (atomic_load_explicit(word++, memory_order_acquire) != word_at(text, at))
            return false;
    *is_plain = found & 1;
    return atomic_load_explicit(&e->turn, memory_order_relaxed) == turn;
}

bool ss_clean_has(const ss_rules *rules, const ss_text *text, stacksplice_text_kind kind,
                  bool *is_plain)
{
    uint64_t facts, hash;
    entry *e;

    if (!is_for_table(rules, text, kind))
        return false;
    facts = facts_of(rules, text, kind, false);
    hash = hash_of(text, facts);
    e = set_of(hash);
    for (unsigned way = 0; way < WAYS; way++, e++)
        if (atomic_load_explicit(&e->hash, memory_order_relaxed) == hash)
            return is_equal(e, text, facts, is_plain);
    return false;
}

static bool is_plain(const ss_text *text)
{
    size_t at = 0;

    while (at < text->length && text->utf8[at] >= ' ' && text->utf8[at] <= '~')
        at++;
    return at == text->length;
}

void ss_clean_add(const ss_rules *rules, const ss_text *text, stacksplice_text_kind kind)
{
    uint64_t hash;
    unsigned turn;
    size_t word = 0;
    entry *e;

    if (!is_for_table(rules, text, kind))
        return;
    hash = hash_of(text, facts_of(rules, text, kind, false));
    e = set_of(hash) + atomic_fetch_add_explicit(&next_way, 1, memory_order_relaxed) % WAYS;
    turn = atomic_load_explicit(&e->turn, memory_order_relaxed);
    if (turn % 2 || !atomic_compare_exchange_strong_explicit(
                        &e->turn, &turn, turn + 1, memory_order_acquire, memory_order_relaxed))
        return;
    /* Releases: who reads one of these sees that the turn is odd. */
    atomic_store_explicit(&e->hash, hash, memory_order_release);
    atomic_store_explicit(&e->facts, facts_of(rules, text, kind, is_plain(text)),
                          memory_order_release);
    for (size_t at = 0; at < text->length; at += 8)
        atomic_store_explicit(&e->words[word++], word_at(text, at), memory_order_release);
    atomic_store_explicit(&e->turn, turn + 2, memory_order_release);
}
