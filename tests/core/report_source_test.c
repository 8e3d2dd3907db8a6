/* Lines of source in reports: of long files, in any order, without memory, and with a careless
 * host. */
#include "error_double.h"
#include "failing_allocator.h"
#include "report_text.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

enum { LINES = 3000, FRAMES = 24 };

static char names[2][40];

static int make_files(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        FILE *file;

        strcpy(names[i], "/tmp/stacksplice-source-XXXXXX");
        file = fdopen(mkstemp(names[i]), "w");
        if (!file)
            return -1;
        for (int line = 1; line <= LINES; line++) /* longer than what is read at once */
            fprintf(file, "%*sline %d of file %d\n", line % 40, "", line, i);
        fclose(file);
    }
    return memory_use();
}

static int remove_files(void **state)
{
    (void)state;
    return unlink(names[0]) | unlink(names[1]);
}

/* The file and the line of frame I: near and far ones, up and down. */
static uint32_t line_of(int i, int *file)
{
    static const uint32_t lines[] = {LINES, 1, 1500, 1501, 1500, 3, LINES - 1, LINES + 1};

    *file = i / 3 % 2;
    return lines[i % 8];
}

static IRestrictedErrorInfo *make_error(void)
{
    uintptr_t frames[FRAMES];
    const fixture_error contents = value_error(frames, FRAMES);

    for (int i = 0; i < FRAMES; i++) {
        char name[16];
        int file;
        uint32_t line = line_of(i, &file);

        (void)snprintf(name, sizeof name, "f%d", i);
        frames[i] = fixture_script("lua", name, names[file], line);
    }
    return fixture_originate(&contents);
}

static void assert_lines(const char *text)
{
    for (int i = 0; i < FRAMES; i++) {
        char want[120];
        int file;
        uint32_t line = line_of(i, &file);

        if (line > LINES)
            (void)snprintf(want, sizeof want, "line %u, in f%d\n    %s", line, i,
                           i + 1 < FRAMES ? "(Lua)" : "");
        else
            (void)snprintf(want, sizeof want, "line %u, in f%d\n        line %u of file %d\n", line,
                           i, line, file);
        if (i + 1 < FRAMES || line <= LINES)
            assert_non_null(strstr(text, want));
    }
}

TEST(test_lines_are_found_in_any_order)
{
    IRestrictedErrorInfo *error = make_error();

    assert_lines(text_of(error));
    release(error);
}

TEST(test_lines_are_found_without_memory)
{
    IRestrictedErrorInfo *error = make_error();

    for (int all_after = 0; all_after < 2; all_after++) {
        atomic_store(&memory_all_after, all_after);
        for (long i = 1; i <= 12; i++) {
            const char *text;

            memory_arm(i);
            text = text_of(error);
            memory_disarm();
            assert_lines(text);
        }
    }
    release(error);
}

/* ---- A line that the language itself has -----------------------------------------------------*/

TEST(test_the_line_of_a_chunk_is_shown_where_lines_are)
{
    const stacksplice_token_info info = {
        SCRIPT_TOKEN, .language = "lua", .file = "[string \"a\"]",
        .line = 2,    .chunk = 1,        .source = "password = 'hunter2'"};
    const stacksplice_format_options without = {.size = sizeof without, .without_source = 1};
    uintptr_t frame;
    const fixture_error contents = value_error(&frame, 1);
    IRestrictedErrorInfo *error;

    assert_int_equal(stacksplice_intern(&info, &frame), S_OK);
    error = fixture_originate(&contents);
    assert_non_null(strstr(text_of(error), "\", line 2\n        password = '[redacted"));
    assert_null(
        strstr(fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, &without), "password"));
    assert_non_null(strstr(json_of(error), "\"source\":\"password = '[redacted"));
    release(error);
}

/* ---- Marks -----------------------------------------------------------------------------------*/

TEST(test_a_part_of_a_line_is_marked_where_it_is_certain)
{
    static const struct {
        const char *function, *calls, *source, *mark; /* NULL: there is none */
    } cases[] = {
        {"f", "rate", "return rate (a)", "       ^^^^"},
        {"f", "rate", "rates(rate(a))", "      ^^^^"},
        {"f", "rate", "return a:rate(b)", "         ^^^^"},
        {"f", "rate", "rate(rate(a))", NULL},
        {"f", "rate", "return rate", NULL},
        {"f", "rate", "ä(rate(a))", NULL},
        {"f", "rate", "\x01(rate(a))", "     ^^^^"}, /* which is shown as four signs */
        {NULL, "=", "x = == y", NULL},
        {NULL, "then", "if then", "   ^^^^"},
        {NULL, "+", "1 + 2", "  ^"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const stacksplice_token_info info = {SCRIPT_TOKEN,
                                             .language = "lua",
                                             .function = cases[i].function,
                                             .file = "a chunk",
                                             .chunk = 1,
                                             .line = 2,
                                             .source = cases[i].source,
                                             .calls = cases[i].calls};
        uintptr_t frame;
        const fixture_error contents = value_error(&frame, 1);
        IRestrictedErrorInfo *error;
        char want[64];
        const char *text;

        assert_int_equal(stacksplice_intern(&info, &frame), S_OK);
        error = fixture_originate(&contents);
        (void)snprintf(want, sizeof want, "\n        %.*s\033[1;31m%s\033[0m\n",
                       cases[i].mark ? (int)strspn(cases[i].mark, " ") : 0,
                       cases[i].mark ? cases[i].mark : "",
                       cases[i].mark ? cases[i].mark + strspn(cases[i].mark, " ") : "");
        text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, &coloured);
        assert_int_equal(strstr(text, cases[i].mark ? want : "\033[1;31m") != NULL,
                         cases[i].mark != NULL);
        /* Without colours as before, but that nothing else shows where syntax is wrong. */
        assert_int_equal(strstr(text_of(error), "^") != NULL, cases[i].mark && !info.function);
        release(error);
    }
}

/* ---- A host that closes what it did not open -------------------------------------------------*/

typedef struct host {
    int own; /* descriptor, which has the number of one that was closed; -1: not yet */
    char text[16384];
    size_t length;
} host;

static int close_all(const char *bytes, size_t length, void *data)
{
    host *h = data;

    assert_true(h->length + length < sizeof h->text);
    memcpy(h->text + h->length, bytes, length);
    h->length += length;
    h->text[h->length] = '\0';
    if (h->own < 0) {
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        h->own = open("/dev/null", O_RDONLY);
    }
    return 0;
}

TEST(test_a_descriptor_of_the_host_is_neither_read_nor_closed)
{
    static host h = {.own = -1};
    IRestrictedErrorInfo *error = make_error();
    struct stat status;

    assert_int_equal(
        stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, close_all, &h), S_OK);
    assert_true(h.own >= 3);
    assert_int_equal(fstat(h.own, &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    assert_int_equal(close(h.own), 0);
    assert_non_null(strstr(h.text, "in f23\n"));
    release(error);
}

TEST(test_a_report_leaves_no_descriptor_open)
{
    IRestrictedErrorInfo *error = make_error();
    int before = open("/dev/null", O_RDONLY), after;

    close(before);
    (void)text_of(error);
    (void)fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_JSON, NULL);
    after = open("/dev/null", O_RDONLY);
    assert_int_equal(after, before);
    close(after);
    release(error);
}

/* An error in line 1 of a new file, whose name goes to NAME. */
static IRestrictedErrorInfo *make_error_in(char name[40])
{
    uintptr_t frame;
    const fixture_error contents = value_error(&frame, 1);
    int fd;

    strcpy(name, "/tmp/stacksplice-source-XXXXXX");
    fd = mkstemp(name);
    assert_int_equal(write(fd, "as it ran\n", 10), 10);
    close(fd);
    frame = fixture_script("lua", "f", name, 1);
    return fixture_originate(&contents);
}

static void assert_refused(IRestrictedErrorInfo *error, const char *name, const char *why)
{
    const char *text = text_of(error), *reason = NULL;

    assert_null(strstr(text, "as it ran"));
    assert_null(strstr(text, "another"));
    assert_non_null(strstr(text, why));
    assert_int_equal(stacksplice_error_source_reason((IUnknown *)error, name, &reason), S_OK);
    assert_string_equal(reason, why);
}

TEST(test_a_file_that_an_older_one_replaced_has_other_lines)
{
    const struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
    const struct timespec step = {0, 20000000}; /* of the clock of file systems */
    char name[40], other[40];
    IRestrictedErrorInfo *error = make_error_in(name), *made = make_error_in(other);
    FILE *file = fopen(other, "w");

    assert_non_null(strstr(text_of(error), "as it ran"));
    assert_non_null(file);
    fputs("another version\n", file);
    fclose(file);
    assert_int_equal(utimensat(AT_FDCWD, other, old, 0), 0);
    nanosleep(&step, NULL);
    assert_int_equal(rename(other, name), 0);
    assert_refused(error, name, "no lines of files that were changed after this");
    release(made);
    release(error);
    unlink(name);
}

/* Write TEXT to the file of NAME, later than what was met before. */
static void edit(const char *name, const char *text)
{
    const struct timespec step = {0, 20000000}; /* of the clock of file systems */
    FILE *file;

    nanosleep(&step, NULL);
    file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    nanosleep(&step, NULL);
}

TEST(test_an_error_after_an_edit_is_of_the_code_from_before)
{
    uintptr_t frame;
    const fixture_error contents = value_error(&frame, 1);
    char name[40];
    IRestrictedErrorInfo *error = make_error_in(name);

    release(error);
    edit(name, "another version\n");
    frame = fixture_script("lua", "f", name, 1); /* the same token */
    error = fixture_originate(&contents);
    assert_refused(error, name, "no lines of files that were changed after their code ran first");
    stacksplice_renew(frame);
    assert_non_null(strstr(text_of(error), "another version"));
    release(error);
    edit(name, "a third one\n");
    error = fixture_originate(&contents);
    assert_refused(error, name, "no lines of files that were changed after their code ran first");
    stacksplice_renew(0x1000); /* none of ours: nothing happens */
    release(error);
    frame = fixture_script("lua", "of code that was met after the edit", name, 1);
    error = fixture_originate(&contents);
    assert_non_null(strstr(text_of(error), "a third one"));
    release(error);
    unlink(name);
}

TEST(test_a_long_file_is_not_read)
{
    char name[40];
    IRestrictedErrorInfo *error;

    release(make_error_in(name));
    assert_int_equal(stacksplice_is_source_file(name), 1);
    assert_int_equal(truncate(name, (off_t)16 << 20), 0);
    assert_int_equal(stacksplice_is_source_file(name), 1);
    assert_int_equal(truncate(name, ((off_t)16 << 20) + 1), 0);
    assert_int_equal(stacksplice_is_source_file(name), 0);
    {
        uintptr_t frame = fixture_script("lua", "f", name, 1);
        const fixture_error contents = value_error(&frame, 1);

        error = fixture_originate(&contents);
    }
    assert_refused(error, name, "no lines of files that are longer than 16 MB");
    release(error);
    unlink(name);
}

TEST(test_arguments_of_a_reason)
{
    IRestrictedErrorInfo *error = make_error();
    const char *reason = "unset";
    error_double foreign;
    IUnknown *other;

    error_double_init(&foreign, 0);
    other = error_double_unknown(&foreign);
    assert_int_equal(stacksplice_error_source_reason(NULL, names[0], &reason), E_POINTER);
    assert_int_equal(stacksplice_error_source_reason((IUnknown *)error, NULL, &reason), E_POINTER);
    assert_int_equal(stacksplice_error_source_reason((IUnknown *)error, names[0], NULL), E_POINTER);
    assert_int_equal(stacksplice_error_source_reason(other, names[0], &reason), E_INVALIDARG);
    assert_string_equal(reason, "unset");
    release(error);
}

GROUP(make_files, remove_files)
