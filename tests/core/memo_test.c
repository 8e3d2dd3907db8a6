/* What was found out before is found again as it was, or not at all: texts of each length, entries that
 * others took, and those that other threads are writing. */
#include "base/memo.h"
#include "support.h"
#include "threads.h"

#include <string.h>

enum { KEYS = 4000, THREADS = 4, LONGEST = (SS_MEMO_WORDS - 2) * 8 };

static ss_memo memo;
static atomic_int wrong, found;

/* The text of KEY: its length and its bytes follow from it. */
static size_t text_of(uint64_t key, char text[LONGEST])
{
    size_t length = key % (LONGEST + 1);

    memset(text, (int)(key % 251), LONGEST);
    return length;
}

static void put(uint64_t key)
{
    char text[LONGEST];
    size_t length = text_of(key, text);

    ss_memo_put(&memo, &key, 1, (uint32_t)key, text, length);
}

/* Whether KEY is known; what is wrong is counted. */
static bool look(uint64_t key)
{
    char text[LONGEST];
    size_t length = text_of(key, text);
    ss_memo_value value;

    if (!ss_memo_get(&memo, &key, 1, &value))
        return false;
    wrong += value.is != (uint32_t)key || value.length != length ||
             (length && memcmp(value.text, text, length) != 0);
    return true;
}

TEST(test_each_length)
{
    for (uint64_t key = 0; key <= LONGEST; key++) {
        assert_false(look(key));
        put(key);
        assert_true(look(key));
    }
    assert_int_equal(wrong, 0);
}

TEST(test_what_is_too_long_is_not_kept)
{
    static const char text[LONGEST + 1];
    const uint64_t key = UINT64_C(1) << 40;
    ss_memo_value value;

    ss_memo_put(&memo, &key, 1, 0, text, sizeof text);
    assert_false(ss_memo_get(&memo, &key, 1, &value));
}

/* The length of a key is a part of its first word. */
TEST(test_texts_are_keys)
{
    static const char text[] = "0123456789abcdefghijklmnop";
    uint64_t words[8], others[8];

    for (size_t a = 0; a < sizeof text; a++) {
        size_t count = ss_memo_text(text, a, words);

        assert_true(count <= a / 8 + 1);
        for (size_t b = 0; b < a; b++) {
            char changed[sizeof text];

            memcpy(changed, text, sizeof text);
            changed[b]++;
            assert_int_equal(ss_memo_text(changed, a, others), count);
            assert_memory_not_equal(words, others, count * sizeof *words);
        }
    }
}

static void *put_and_look(void *data)
{
    for (uint64_t i = 0; i < 20 * KEYS; i++) {
        uint64_t key = i * 7919 % KEYS;

        if (i % 2)
            put(key);
        else
            found += look(key);
    }
    return data;
}

TEST(test_threads)
{
    pthread_t threads[THREADS];

    for (int t = 0; t < THREADS; t++)
        threads[t] = thread_start(put_and_look, NULL);
    for (int t = 0; t < THREADS; t++)
        (void)thread_end(threads[t]);
    assert_int_equal(wrong, 0);
    assert_true(found > 0);
}
