/* Storms: what is new, what is counted, and that each error is one of the two. */
#include "failing_allocator.h"
#include "report_fixture.h"
#include "support.h"

#include <stacksplice/dedup.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int set_up(void **state)
{
    return memory_use();
}

static stacksplice_dedup *table(uint32_t window, uint32_t entries)
{
    const stacksplice_dedup_options options = {sizeof options, window, entries};
    stacksplice_dedup *dedup = NULL;

    assert_int_equal(stacksplice_dedup_new(&options, &dedup), S_OK);
    return dedup;
}

static IRestrictedErrorInfo *raised_at(const char *function, uint32_t line, const char *message)
{
    const uintptr_t frames[] = {fixture_script("lua", function, "f.lua", line)};
    const fixture_error contents = {.hr = E_FAIL,
                                    .language = "lua",
                                    .type = "app.error",
                                    .message = message,
                                    .message_length = strlen(message),
                                    .frames = frames,
                                    .frame_count = 1};

    return fixture_originate(&contents);
}

static HRESULT add(stacksplice_dedup *dedup, IRestrictedErrorInfo *error)
{
    return stacksplice_dedup_add(dedup, (IUnknown *)error);
}

static HRESULT add_once(stacksplice_dedup *dedup, const char *function, uint32_t line,
                        const char *message)
{
    IRestrictedErrorInfo *error = raised_at(function, line, message);
    HRESULT hr = add(dedup, error);

    error->lpVtbl->Release(error);
    return hr;
}

typedef struct lines {
    char text[16384];
    size_t used, count;
    uint64_t errors;
    const char *only; /* count the errors of this fingerprint alone; or NULL */
} lines;

static int keep(const char *text, size_t length, void *data)
{
    lines *to = data;
    const char *count = strstr(text, "\"count\":");

    assert_true(count && length && text[length - 1] == '\n');
    if (!to->only || strstr(text, to->only))
        to->errors += strtoul(count + strlen("\"count\":"), NULL, 10);
    to->count++;
    if (to->used + length < sizeof to->text) {
        memcpy(to->text + to->used, text, length);
        to->used += length;
        to->text[to->used] = 0;
    }
    return 0;
}

static lines flushed(stacksplice_dedup *dedup, int all)
{
    lines got = {.used = 0};

    assert_int_equal(stacksplice_dedup_flush(dedup, all, keep, &got), S_OK);
    return got;
}

#define assert_has(lines, part) assert_non_null(strstr((lines).text, part))

TEST(test_the_first_is_new_and_the_rest_is_one_line)
{
    stacksplice_dedup *dedup = table(0, 0);
    char fingerprint[33];
    IRestrictedErrorInfo *error = raised_at("f", 1, "no \"rate\" for EUR");
    lines got;

    assert_int_equal(stacksplice_fingerprint((IUnknown *)error, fingerprint), S_OK);
    assert_int_equal(add(dedup, error), S_OK);
    assert_int_equal(flushed(dedup, 1).count, 0);
    assert_int_equal(add(dedup, error), S_FALSE);
    assert_int_equal(add_once(dedup, "f", 1, "no \"rate\" for USD"), S_FALSE);
    assert_int_equal(flushed(dedup, 0).count, 0); /* the window goes on */
    got = flushed(dedup, 1);
    assert_int_equal(got.count, 1);
    assert_int_equal(strncmp(got.text, "{\"schema\":\"stacksplice-repeats/1\",\"count\":2,", 44),
                     0);
    assert_has(got, fingerprint);
    assert_has(got, "\"hresult\":\"0x80004005\",\"type\":\"app.error\",");
    assert_has(got, "\"message\":\"no \\\"rate\\\" for USD\"}\n");
    assert_null(strstr(got.text, "\"first_ns\":0"));
    assert_int_equal(flushed(dedup, 1).count, 0); /* once */
    assert_int_equal(add(dedup, error), S_FALSE);
    got = flushed(dedup, 1);
    assert_has(got, "\"count\":1,");
    assert_has(got, "EUR");
    error->lpVtbl->Release(error);
    stacksplice_dedup_free(dedup);
}

TEST(test_another_line_is_no_other_error_and_another_function_is)
{
    stacksplice_dedup *dedup = table(0, 0);

    assert_int_equal(add_once(dedup, "f", 1, "a"), S_OK);
    assert_int_equal(add_once(dedup, "f", 2, "a"), S_FALSE);
    assert_int_equal(add_once(dedup, "f", 2, "a"), S_FALSE);
    assert_int_equal(add_once(dedup, "g", 1, "a"), S_OK);
    assert_int_equal(flushed(dedup, 1).errors, 2);
    stacksplice_dedup_free(dedup);
}

TEST(test_after_its_window_it_is_new_and_the_counts_are_told)
{
    const struct timespec moment = {0, 30000000};
    stacksplice_dedup *dedup = table(20, 1);

    assert_int_equal(add_once(dedup, "f", 1, "a"), S_OK);
    while (add_once(dedup, "f", 1, "b") == S_FALSE)
        ; /* the table is full as long as nobody has taken what it counted */
    (void)nanosleep(&moment, NULL);
    assert_int_equal(add_once(dedup, "f", 1, "c"), S_OK);
    assert_int_equal(add_once(dedup, "f", 1, "c"), S_OK);
    assert_true(flushed(dedup, 0).errors > 0);
    while (add_once(dedup, "f", 1, "d") == S_OK)
        ; /* at most twice: counted again, unless this took longer than the window */
    assert_true(flushed(dedup, 1).errors > 0);
    (void)nanosleep(&moment, NULL);
    assert_int_equal(add_once(dedup, "g", 1, "d"),
                     S_OK); /* in its place: nothing is counted there */
    stacksplice_dedup_free(dedup);
}

TEST(test_what_does_not_fit_is_new_each_time)
{
    stacksplice_dedup *dedup = table(0, 2);

    for (int i = 0; i < 3; i++) {
        assert_int_equal(add_once(dedup, "f", 1, "a"), i ? S_FALSE : S_OK);
        assert_int_equal(add_once(dedup, "g", 1, "a"), i ? S_FALSE : S_OK);
        assert_int_equal(add_once(dedup, "h", 1, "a"), S_OK);
    }
    assert_int_equal(flushed(dedup, 1).errors, 4);
    stacksplice_dedup_free(dedup);
}

TEST(test_messages_are_redacted_and_end_between_words)
{
    char text[400] = "password=hunter2 ";
    stacksplice_dedup *dedup = table(0, 0);
    lines got;

    memset(text + strlen(text), 'x', 200);
    strcpy(text + 217, " AKIAIOSFODNN7EXAMPLE0123456789012345678901234567890123456789");
    (void)add_once(dedup, "f", 1, text);
    assert_int_equal(add_once(dedup, "f", 1, text), S_FALSE);
    got = flushed(dedup, 1);
    assert_null(strstr(got.text, "hunter2"));
    assert_null(strstr(got.text, "AKIA"));
    assert_has(got, "xxx\"}\n");
    stacksplice_dedup_free(dedup);
}

/* Those of C are UTF-16, and the HRESULT's own where they have none. */
TEST(test_messages_of_c_are_kept)
{
    stacksplice_dedup *dedup = table(0, 0);
    WCHAR text[300] = {0};
    IRestrictedErrorInfo *error;

    for (int i = 0; i < 299; i++)
        text[i] = i % 10 == 9 ? ' ' : 0x20AC;
    for (int i = 0; i < 3; i++) {
        const WCHAR *message = i == 0 ? u"no rate \u20ac" : i == 1 ? text : NULL;
        lines got;

        (void)RoOriginateErrorW(E_FAIL, 0, message);
        assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
        (void)add(dedup, error);
        assert_int_equal(add(dedup, error), S_FALSE);
        got = flushed(dedup, 1);
        if (i == 0)
            assert_has(got, "\"message\":\"no rate \xe2\x82\xac\"}");
        else if (i == 1)
            assert_has(got,
                       " \xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac"
                       "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\"}\n");
        else
            assert_has(got, "\"message\":\"Unspecified error\"}");
        error->lpVtbl->Release(error);
    }
    stacksplice_dedup_free(dedup);
}

static int stop(const char *text, size_t length, void *data)
{
    ++*(int *)data;
    return 1;
}

TEST(test_a_stopped_flush_keeps_the_rest)
{
    stacksplice_dedup *dedup = table(0, 0);
    int calls = 0;

    for (int i = 0; i < 2; i++) {
        (void)add_once(dedup, "f", 1, "a");
        (void)add_once(dedup, "g", 1, "a");
    }
    assert_int_equal(stacksplice_dedup_flush(dedup, 1, stop, &calls), S_FALSE);
    assert_int_equal(calls, 1);
    assert_int_equal(flushed(dedup, 1).errors, 1);
    stacksplice_dedup_free(dedup);
}

/* ---- Threads ---------------------------------------------------------------------------------*/

enum { THREADS = 4, ROUNDS = 30000, KINDS = 8 };

static struct {
    stacksplice_dedup *dedup;
    IRestrictedErrorInfo *errors[KINDS];
    atomic_ulong whole; /* of the first kind */
    atomic_int running;
} storm;

static void *raise_many(void *unused)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        if (add(storm.dedup, storm.errors[i % KINDS]) != S_FALSE && !(i % KINDS))
            atomic_fetch_add(&storm.whole, 1);
    atomic_fetch_sub(&storm.running, 1);
    return unused;
}

static void flush_storm(lines *to, int all)
{
    to->used = 0;
    assert_int_equal(stacksplice_dedup_flush(storm.dedup, all, keep, to), S_OK);
}

/* Windows of a millisecond and fewer entries than errors: entries change hands all the time. */
TEST(test_threads_lose_no_error_and_count_none_for_another)
{
    char fingerprint[33];
    lines of_first = {.only = fingerprint};
    pthread_t threads[THREADS];
    unsigned before;

    atomic_store(&storm.whole, 0);
    storm.dedup = table(1, KINDS - 2);
    atomic_store(&storm.running, THREADS);
    for (unsigned i = 0; i < KINDS; i++)
        storm.errors[i] = raised_at((const char[]){(char)('a' + (int)i), 0}, 1, "a message");
    assert_int_equal(stacksplice_fingerprint((IUnknown *)storm.errors[0], fingerprint), S_OK);
    /* The threads may leave no entry for the first kind, so one of it is counted before. */
    for (before = 1; add(storm.dedup, storm.errors[0]) != S_FALSE; before++)
        atomic_fetch_add(&storm.whole, 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, raise_many, NULL), 0);
    while (atomic_load(&storm.running))
        flush_storm(&of_first, 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    flush_storm(&of_first, 1);
    assert_true(of_first.errors > 0);
    assert_int_equal(atomic_load(&storm.whole) + of_first.errors,
                     THREADS * ROUNDS / KINDS + before);
    for (unsigned i = 0; i < KINDS; i++)
        storm.errors[i]->lpVtbl->Release(storm.errors[i]);
    stacksplice_dedup_free(storm.dedup);
}

/* ---- Forks -----------------------------------------------------------------------------------*/

TEST(test_a_child_counts_its_own)
{
    stacksplice_dedup *dedup = table(0, 0);
    int status = 1;
    pid_t child;

    for (int i = 0; i < 4; i++)
        (void)add_once(dedup, "f", 1, "parent");
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool is_new = add_once(dedup, "f", 1, "child") == S_OK;
        bool is_counted = add_once(dedup, "f", 1, "child") == S_FALSE;

        _exit(is_new && is_counted && flushed(dedup, 1).errors == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(flushed(dedup, 1).errors, 3);
    stacksplice_dedup_free(dedup);
}

TEST(test_a_child_that_counts_nothing_tells_nothing)
{
    stacksplice_dedup *dedup = table(0, 0);
    int status = 1;
    pid_t child;

    for (int i = 0; i < 4; i++)
        (void)add_once(dedup, "f", 1, "parent");
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(flushed(dedup, 1).count == 0 ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    stacksplice_dedup_free(dedup);
}

/* ---- Arguments and memory --------------------------------------------------------------------*/

TEST(test_bad_arguments)
{
    stacksplice_dedup_options options = {.size = sizeof options - 1};
    stacksplice_dedup *dedup = (stacksplice_dedup *)&options, *untouched = dedup;
    IRestrictedErrorInfo *error = raised_at("f", 1, "a");

    assert_int_equal(stacksplice_dedup_new(NULL, NULL), E_POINTER);
    assert_int_equal(stacksplice_dedup_new(&options, &dedup), E_INVALIDARG);
    options.size = sizeof options;
    options.entries = STACKSPLICE_DEDUP_ENTRIES_MAX + 1;
    assert_int_equal(stacksplice_dedup_new(&options, &dedup), E_INVALIDARG);
    assert_ptr_equal(dedup, untouched);
    assert_int_equal(stacksplice_dedup_new(NULL, &dedup), S_OK);
    assert_int_equal(stacksplice_dedup_add(NULL, (IUnknown *)error), E_POINTER);
    assert_int_equal(stacksplice_dedup_add(dedup, NULL), E_POINTER);
    assert_int_equal(stacksplice_dedup_flush(NULL, 1, keep, NULL), E_POINTER);
    assert_int_equal(stacksplice_dedup_flush(dedup, 1, NULL, NULL), E_POINTER);
    stacksplice_dedup_free(dedup);
    stacksplice_dedup_free(NULL);
    error->lpVtbl->Release(error);
}

TEST(test_without_memory_there_is_no_table_and_the_counts_go_on)
{
    stacksplice_dedup *dedup = NULL;

    memory_arm(1);
    assert_int_equal(stacksplice_dedup_new(NULL, &dedup), E_OUTOFMEMORY);
    memory_disarm();
    assert_null(dedup);
    dedup = table(0, 0);
    for (uint32_t i = 1; i <= 12; i++) {
        IRestrictedErrorInfo *error = raised_at("f", i, "a");

        atomic_store(&memory_all_after, 1);
        memory_arm(1);
        assert_int_equal(add(dedup, error), i == 1 ? S_OK : S_FALSE);
        memory_disarm();
        error->lpVtbl->Release(error);
    }
    assert_int_equal(flushed(dedup, 1).errors, 11);
    stacksplice_dedup_free(dedup);
}

GROUP(set_up, NULL)
