/*
 * Texts in which the rules found no secret.  Reports show the same names, paths and lines of source again
 * and again, and what the rules say of a text depends on nothing but its bytes, its kind and the rules.
 */
#include "base/memo.h"
#include "redact/redact.h"

enum { LONGEST = (SS_MEMO_KEY - 1) * 8 };

static ss_memo table;

/* The key of TEXT, in words; 0: there is none.  Values of variables seldom come again. */
static size_t key_of(const ss_rules *rules, const ss_text *text, stacksplice_text_kind kind,
                     uint64_t key[SS_MEMO_KEY])
{
    if (!rules || !text->utf8 || text->length - 1 >= LONGEST || kind == STACKSPLICE_TEXT_LOCAL)
        return 0;
    key[0] = (uint64_t)rules->number << 32 | (uint64_t)kind << 16 | text->length;
    return 1 + ss_memo_text(text->utf8, text->length, key + 1);
}

bool ss_clean_has(const ss_rules *rules, const ss_text *text, stacksplice_text_kind kind,
                  bool *is_plain)
{
    uint64_t key[SS_MEMO_KEY];
    size_t count = key_of(rules, text, kind, key);
    ss_memo_value value;

    if (!count || !ss_memo_get(&table, key, count, &value))
        return false;
    *is_plain = value.is;
    return true;
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
    uint64_t key[SS_MEMO_KEY];
    size_t count = key_of(rules, text, kind, key);

    if (count)
        ss_memo_put(&table, key, count, is_plain(text), NULL, 0);
}
