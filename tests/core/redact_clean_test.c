/* Texts in which no secret was found are known by that: only as long as it is true, and of that text. */
#include <stacksplice/redact.h>
#include "forks.h"
#include "support.h"
#include "threads.h"
#include "kept_text.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const char *redacted(const char *text, stacksplice_text_kind kind)
{
    static _Thread_local written out;

    out = (written){"", 0};
    assert_int_equal(stacksplice_redact(text, strlen(text), kind, keep, &out), S_OK);
    return out.text;
}

static int use_usual_rules(void **state)
{
    (void)state;
    return stacksplice_set_redaction(NULL);
}

static void use_name(const char *name, uint32_t rules)
{
    const stacksplice_redaction all = {
        .size = sizeof all, .rules = rules, .names = &name, .name_count = name != NULL};

    assert_int_equal(stacksplice_set_redaction(&all), S_OK);
}

TEST_WITH(test_other_rules_find_a_secret_in_it, use_usual_rules, use_usual_rules)
{
    const uint32_t usual = STACKSPLICE_REDACT_DEFAULT;

    for (int round = 0; round < 3; round++) {
        assert_string_equal(redacted("shoe_size=42x9 a@b.example", 1),
                            "shoe_size=42x9 a@b.example");
        use_name("shoesize", usual);
        assert_string_equal(redacted("shoe_size=42x9 a@b.example", 1),
                            "shoe_size=[redacted: secret] a@b.example");
        use_name(NULL, usual | STACKSPLICE_REDACT_EMAILS);
        assert_string_equal(redacted("shoe_size=42x9 a@b.example", 1),
                            "shoe_size=42x9 [redacted: e-mail]");
        assert_int_equal(stacksplice_set_redaction(NULL), S_OK);
    }
}

/* What is no secret in code is one in a message. */
TEST(test_each_kind_is_judged_by_itself)
{
    static const char text[] = "login(password=hunter2)";

    for (int round = 0; round < 3; round++) {
        assert_string_equal(redacted(text, STACKSPLICE_TEXT_SOURCE), text);
        assert_string_equal(redacted(text, STACKSPLICE_TEXT_MESSAGE),
                            "login(password=[redacted: password])");
    }
}

/* Longer than a word or not, at any place of it and behind the last whole one. */
TEST(test_a_text_that_differs_in_one_byte_is_another_one)
{
    char text[200], name[] = "password=hunter2";
    const size_t length = sizeof name - 1;

    for (size_t all = length; all < sizeof text; all++) {
        memset(text, ' ', all);
        text[all] = '\0';
        memcpy(text + all - length, name, length);
        text[all - length] = 'b'; /* bassword */
        assert_string_equal(redacted(text, STACKSPLICE_TEXT_MESSAGE), text);
        assert_string_equal(redacted(text, STACKSPLICE_TEXT_MESSAGE), text);
        text[all - length] = 'p';
        assert_non_null(strstr(redacted(text, STACKSPLICE_TEXT_MESSAGE), "[redacted: password]"));
        text[all] = '\0';
    }
}

static int count_calls(const char *text, size_t length, stacksplice_text_kind kind,
                       stacksplice_write_callback write, void *write_data, void *data)
{
    int *calls = data;

    (void)text, (void)length, (void)kind;
    return write(&"12"[(*calls)++], 1, write_data);
}

TEST_WITH(test_a_hook_sees_it_each_time, use_usual_rules, use_usual_rules)
{
    int calls = 0;
    const stacksplice_redaction with_hook = {.size = sizeof with_hook,
                                             .rules = STACKSPLICE_REDACT_DEFAULT,
                                             .hook = count_calls,
                                             .hook_data = &calls};

    assert_int_equal(stacksplice_set_redaction(&with_hook), S_OK);
    assert_string_equal(redacted("plain", STACKSPLICE_TEXT_MESSAGE), "1");
    assert_string_equal(redacted("plain", STACKSPLICE_TEXT_MESSAGE), "2");
}

/* ---- More texts than there is room for, by several threads ------------------------------------*/

enum { TEXTS = 3000, THREADS = 4, ROUNDS = 4 };

static atomic_int wrong;

/* Every third has a secret; all have the same length. */
static void *redact_all(void *data)
{
    char text[64], want[64];

    (void)data;
    for (int i = 0; i < TEXTS * ROUNDS; i++) {
        bool is_secret = i % 3 == 0;

        (void)snprintf(text, sizeof text, "%s: hunter%04d", is_secret ? "password" : "bassword",
                       i % TEXTS);
        (void)snprintf(want, sizeof want, is_secret ? "password: [redacted: password]" : "%s",
                       text);
        for (int again = 0; again < 2; again++)
            wrong += strcmp(redacted(text, STACKSPLICE_TEXT_MESSAGE), want) != 0;
    }
    return NULL;
}

TEST(test_threads_share_what_is_known)
{
    pthread_t threads[THREADS];

    for (int t = 0; t < THREADS; t++)
        threads[t] = thread_start(redact_all, NULL);
    for (int i = 0; i < 20; i++) { /* whatever they are at, a child goes on */
        pid_t child = fork();

        if (!child) {
            (void)redact_all(NULL);
            _exit(wrong != 0);
        }
        assert_int_equal(child_status(child), 0);
    }
    for (int t = 0; t < THREADS; t++)
        (void)thread_end(threads[t]);
    assert_int_equal(wrong, 0);
}
