/* Frames that a report has shown are not put together again: the text is the same, or it is another one
 * because something that decides on it has changed. */
#include "calls.h"
#include "report_text.h"
#include "threads.h"
#include "kept_text.h"

#include <fcntl.h>
#include <stacksplice/redact.h>
#include <stacksplice/script.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

enum { MOST = 64, SCRIPTS = 24, OTHERS = SCRIPTS + 1 };

typedef struct stack {
    uintptr_t frames[MOST];
    uint32_t count;
} stack;

/* Without libdw only what is exported has a name. */
#define NAMED NOINLINE __attribute__((visibility("default")))

NAMED void again_of_the_host(stack *s);
NAMED void again_capture(stack *s);

NOINLINE void again_capture(stack *s)
{
    assert_int_equal(stacksplice_capture(0, MOST - OTHERS, s->frames, &s->count, NULL), S_OK);
    AFTER();
}

NOINLINE void again_of_the_host(stack *s)
{
    again_capture(s);
    AFTER();
}

/* Native frames with files and lines, where there is debug information, and those of scripts. */
static IRestrictedErrorInfo *make_error(void)
{
    static const stacksplice_token_info with_source = {
        SCRIPT_TOKEN, .language = "lua", .file = "none.lua", .line = 2, .source = "its own line"};
    static stack s;
    fixture_error contents;

    again_of_the_host(&s);
    for (int i = 0; i < SCRIPTS; i++) {
        const char *file = i % 2 ? __FILE__ : "none.lua";
        char name[400];

        (void)snprintf(name, sizeof name, "f%d%*s", i, i * 14, ".long"); /* the last do not fit */
        s.frames[s.count++] = fixture_script(i % 3 ? "lua" : "python", name, file, 1 + (uint32_t)i);
    }
    assert_int_equal(stacksplice_intern(&with_source, &s.frames[s.count++]), S_OK);
    contents = value_error(s.frames, s.count);
    return fixture_originate(&contents);
}

static const stacksplice_format_options cases[] = {
    {.size = sizeof cases[0]},
    {.size = sizeof cases[0], .color = 1},
    {.size = sizeof cases[0], .all_frames = 1},
    {.size = sizeof cases[0], .all_frames = 1, .color = 1},
    {.size = sizeof cases[0], .without_source = 1},
    {.size = sizeof cases[0], .shorten = 1},
    {.size = sizeof cases[0], .order = STACKSPLICE_ORDER_NEWEST_LAST},
    {.size = sizeof cases[0], .order = STACKSPLICE_ORDER_NEWEST_LAST, .color = 1},
};
enum { CASES = sizeof cases / sizeof *cases, LONGEST = 1 << 14 };

/* What a report is where nothing is known from before. */
static void first_of(IRestrictedErrorInfo *error, int i, char text[LONGEST])
{
    int ends[2];
    size_t length = 0;
    ssize_t got;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (!child) {
        const char *made = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, &cases[i]);

        _exit(write(ends[1], made, strlen(made)) < 0);
    }
    close(ends[1]);
    while ((got = read(ends[0], text + length, LONGEST - 1 - length)) > 0)
        length += (size_t)got;
    close(ends[0]);
    assert_int_equal(child_status(child), 0);
}

TEST(test_it_is_the_same_in_each_way)
{
    IRestrictedErrorInfo *error = make_error();
    static char first[CASES][LONGEST];

    for (int i = 0; i < CASES; i++)
        first_of(error, i, first[i]);
    assert_non_null(strstr(first[0], "in f23"));
    assert_string_not_equal(first[0], first[1]);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < CASES; i++)
            assert_string_equal(
                fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, &cases[i]), first[i]);
    release(error);
}

/* The first error whose text is not the same each time, or NULL. */
static void *format_often(void *error)
{
    written *first = calloc(2, sizeof *first), *again = first + 1;
    void *wrong = NULL;

    for (int i = 0; i < 200; i++) {
        written *w = i ? again : first;

        w->length = 0;
        if (stacksplice_format(error, STACKSPLICE_FORMAT_TEXT, NULL, keep, w) != S_OK ||
            strcmp(w->text, first->text) != 0 || !strstr(w->text, "in f23"))
            wrong = error;
    }
    free(first);
    return wrong;
}

TEST(test_threads_share_it)
{
    IRestrictedErrorInfo *errors[3];
    pthread_t threads[3];

    for (int i = 0; i < 3; i++) {
        errors[i] = make_error();
        threads[i] = thread_start(format_often, errors[i]);
    }
    for (int i = 0; i < 3; i++) {
        assert_null(thread_end(threads[i]));
        release(errors[i]);
    }
}

/* ---- What decides on it -----------------------------------------------------------------------*/

static int hook(const char *text, size_t length, stacksplice_text_kind kind,
                stacksplice_write_callback write, void *write_data, void *data)
{
    (void)text, (void)length, (void)kind;
    ++*(int *)data;
    return write("[hook]", 6, write_data);
}

TEST(test_the_rules_for_secrets_decide)
{
    uintptr_t frame = fixture_script("lua", "shoe_size=42x9", "none.lua", 1);
    const fixture_error contents = value_error(&frame, 1);
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    const char *names[] = {"shoesize"};
    int calls = 0, before;
    stacksplice_redaction redaction = {.size = sizeof redaction,
                                       .rules = STACKSPLICE_REDACT_DEFAULT,
                                       .names = names,
                                       .name_count = 1};

    for (int round = 0; round < 3; round++) {
        assert_non_null(strstr(text_of(error), "in shoe_size=42x9\n"));
        assert_int_equal(stacksplice_set_redaction(&redaction), S_OK);
        assert_non_null(strstr(text_of(error), "in shoe_size=[redacted: secret]\n"));
        assert_int_equal(stacksplice_set_redaction(NULL), S_OK);
    }
    redaction.hook = hook;
    redaction.hook_data = &calls;
    assert_int_equal(stacksplice_set_redaction(&redaction), S_OK);
    assert_non_null(strstr(text_of(error), "in [hook]\n"));
    before = calls;
    assert_non_null(strstr(text_of(error), "in [hook]\n"));
    assert_int_equal(calls, 2 * before);
    assert_int_equal(stacksplice_set_redaction(NULL), S_OK);
    assert_non_null(strstr(text_of(error), "in shoe_size=42x9\n"));
    release(error);
}

TEST(test_glue_that_is_added_hides_it)
{
    static const char *const functions[] = {"again_of_the_host", NULL};
    static const stacksplice_glue glue = {
        .size = sizeof glue, .language = "toy", .functions = functions};
    const stacksplice_format_options without = {.size = sizeof without, .without_source = 1};
    IRestrictedErrorInfo *error;
    const char *text;

    NEEDS_NATIVE_FRAMES();
    error = make_error();
    for (int round = 0; round < 2; round++) {
        text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, &without);
        assert_non_null(strstr(text, "again_of_the_host"));
    }
    assert_int_equal(stacksplice_add_glue(&glue), S_OK);
    text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, &without);
    assert_null(strstr(text, "again_of_the_host"));
    assert_non_null(strstr(text, "again_capture"));
    release(error);
}

static void write_file(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CREAT, 0600);

    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* It has the same length, inode and time of writing, and the code was loaded anew. */
TEST(test_a_file_that_was_changed_has_other_lines)
{
    static const struct timespec times[2] = {{1000000000, 0}, {1000000000, 0}}, settling = {3, 0};
    char name[] = "/tmp/stacksplice-again-XXXXXX";
    uintptr_t frame;
    fixture_error contents = value_error(&frame, 1);
    IRestrictedErrorInfo *error;

    close(mkstemp(name));
    for (int round = 0; round < 2; round++) {
        const char *lines[] = {"one\n", "two\n"};

        write_file(name, lines[round]);
        assert_int_equal(utimensat(AT_FDCWD, name, times, 0), 0);
        nanosleep(&settling, NULL); /* nothing is kept of what was changed just now */
        frame = fixture_script("lua", "f", name, 1);
        stacksplice_renew(frame);
        error = fixture_originate(&contents);
        for (int again = 0; again < 2; again++)
            assert_non_null(strstr(text_of(error), lines[round]));
        release(error);
    }
    unlink(name);
}

TEST(test_a_file_that_came_or_went_is_looked_for)
{
    char name[] = "/tmp/stacksplice-again-XXXXXX";
    uintptr_t frame = fixture_script("lua", "f", name, 1);
    fixture_error contents = value_error(&frame, 1);
    IRestrictedErrorInfo *error;

    close(mkstemp(name));
    write_file(name, "a line\n");
    frame = fixture_script("lua", "f", name, 1);
    error = fixture_originate(&contents);
    assert_non_null(strstr(text_of(error), "a line"));
    assert_int_equal(chmod(name, 0600), 0);
    assert_int_equal(unlink(name), 0);
    assert_null(strstr(text_of(error), "a line"));
    assert_null(strstr(text_of(error), "a line"));
    release(error);
}

/* More frames than are kept. */
TEST(test_a_flood_of_frames)
{
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 3000; i++) {
            uintptr_t frame = fixture_script("lua", "flood", "none.lua", i + 1);
            const fixture_error contents = value_error(&frame, 1);
            IRestrictedErrorInfo *error = fixture_originate(&contents);
            char want[32];

            (void)snprintf(want, sizeof want, "line %u, in flood\n", i + 1);
            assert_non_null(strstr(text_of(error), want));
            assert_non_null(strstr(text_of(error), want));
            release(error);
        }
}
