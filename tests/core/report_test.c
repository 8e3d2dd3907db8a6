/* Text reports as a whole, fingerprints, bad arguments. */
#include "report_fixture.h"

#include "error_double.h"
#include "frames.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const stacksplice_format_options newest_last = {.size = sizeof newest_last,
                                                       .order = STACKSPLICE_ORDER_NEWEST_LAST};
static const stacksplice_format_options all_frames = {.size = sizeof all_frames, .all_frames = 1};
static const stacksplice_format_options coloured = {.size = sizeof coloured, .color = 1};

/* TEMPLATE with each "@" replaced by this thread's id. */
static const char *with_thread(const char *template)
{
    static char text[16384];
    char id[24];
    size_t used = 0;

    snprintf(id, sizeof id, "%ld", syscall(SYS_gettid));
    for (const char *at = template; *at; at++) {
        size_t bytes = *at == '@' ? strlen(id) : 1;

        assert_true(used + bytes < sizeof text);
        memcpy(text + used, *at == '@' ? id : at, bytes);
        used += bytes;
    }
    text[used] = 0;
    return text;
}

static fixture_error value_error(const uintptr_t *frames, uint32_t count)
{
    return (fixture_error){.hr = E_INVALIDARG,
                           .type = "ValueError",
                           .message = "bad amount 'x'",
                           .message_length = strlen("bad amount 'x'"),
                           .frames = frames,
                           .frame_count = count};
}

static void assert_report(IRestrictedErrorInfo *error, const stacksplice_format_options *options,
                          const char *want)
{
    assert_string_equal(fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, options),
                        with_thread(want));
}

static void release(IRestrictedErrorInfo *error)
{
    error->lpVtbl->Release(error);
}

TEST(test_report_shows_one_stack_in_either_order)
{
    const uintptr_t frames[] = {fixture_script("python", "f", "/nowhere/x.py", 17),
                                fixture_script("lua", "function 'g'", "t.lua", 3),
                                fixture_gap(STACKSPLICE_GAP_RETURNED), 0x1234};
    const fixture_error contents = value_error(frames, 4);
    IRestrictedErrorInfo *error = fixture_originate(&contents);

    assert_report(error, NULL,
                  "ValueError: bad amount 'x' (0x80070057)\n"
                  "HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect.\n"
                  "Stack of thread @ (most recent call first):\n"
                  "    (Python) File \"/nowhere/x.py\", line 17, in f\n"
                  "    (Lua) File \"t.lua\", line 3, in function 'g'\n"
                  "    [gap: " STACKSPLICE_GAP_RETURNED "]\n"
                  "    (C) ??? (0x1234)\n");
    assert_report(error, &newest_last,
                  "Traceback for thread @ (most recent call last):\n"
                  "    (C) ??? (0x1234)\n"
                  "    [gap: " STACKSPLICE_GAP_RETURNED "]\n"
                  "    (Lua) File \"t.lua\", line 3, in function 'g'\n"
                  "    (Python) File \"/nowhere/x.py\", line 17, in f\n"
                  "ValueError: bad amount 'x' (0x80070057)\n"
                  "HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect.\n");
    release(error);
}

TEST(test_report_marks_what_is_not_plain)
{
    const stacksplice_token_info info = {.size = sizeof info,
                                         .kind = STACKSPLICE_FRAME_SCRIPT,
                                         .trust = STACKSPLICE_TRUST_INFERRED,
                                         .language = "lua",
                                         .function = "a\nb\033[1m",
                                         .file = "\xff\xc3\xa9",
                                         .interpreter = "worker-1"};
    stacksplice_token_info tracked = info;
    uintptr_t frames[3] = {0};
    fixture_error contents = value_error(frames, 3);
    IRestrictedErrorInfo *error;

    tracked.trust = STACKSPLICE_TRUST_TRACEBACK;
    tracked.interpreter = tracked.file = NULL;
    tracked.function = "h";
    assert_int_equal(stacksplice_intern(&info, &frames[0]), S_OK);
    assert_int_equal(stacksplice_intern(&tracked, &frames[1]), S_OK);
    tracked.function = NULL;
    assert_int_equal(stacksplice_intern(&tracked, &frames[2]), S_OK);
    contents.message = "two\nlines \x1b[31m\xed\xa0\x80";
    contents.message_length = strlen(contents.message);
    error = fixture_originate(&contents);
    assert_report(error, NULL,
                  "ValueError: two (0x80070057)\n"
                  "| lines \\x1b[31m\xef\xbf\xbd\n"
                  "HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect.\n"
                  "Stack of thread @ (most recent call first):\n"
                  "    (Lua) [worker-1] File \"\xef\xbf\xbd\xc3\xa9\", in a\\x0ab\\x1b[1m "
                  "[inferred]\n"
                  "    (Lua) h [traceback]\n"
                  "    (Lua) ??? [traceback]\n");
    release(error);
}

/* Each is what a reader would take for another text: it turns the direction, or begins a line. */
#define DECEPTIVE                                                                          \
    "\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\xe2\x80\xab"     \
    "\xe2\x80\xac\xe2\x80\xad\xe2\x80\xae\xe2\x81\xa6\xe2\x81\xa7\xe2\x81\xa8\xe2\x81\xa9" \
    "\xc2\x85\xc2\x9b\x7f\r"
#define ESCAPED                                                                                   \
    "\\u061c\\u200e\\u200f\\u2028\\u2029\\u202a\\u202b\\u202c\\u202d\\u202e\\u2066\\u2067\\u2068" \
    "\\u2069\\x85\\x9b\\x7f\\x0d"

TEST(test_report_shows_deceptive_characters_by_number)
{
    const stacksplice_token_info info = {SCRIPT_TOKEN, .language = "lua",
                                         .function = "f" DECEPTIVE "\n\t",
                                         .file = "x" DECEPTIVE "\n\t"};
    uintptr_t frames[1] = {0};
    fixture_error contents = value_error(frames, 1);
    IRestrictedErrorInfo *error;

    assert_int_equal(stacksplice_intern(&info, &frames[0]), S_OK);
    contents.type = "T" DECEPTIVE "\n\t";
    contents.message = "m" DECEPTIVE "\t";
    contents.message_length = strlen(contents.message);
    error = fixture_originate(&contents);
    assert_int_equal(stacksplice_add_note((IUnknown *)error, "n" DECEPTIVE, strlen("n" DECEPTIVE)),
                     S_OK);
    assert_report(error, NULL,
                  "T" ESCAPED "\\x0a\\x09: m" ESCAPED "\t (0x80070057)\n"
                  "note: n" ESCAPED "\n"
                  "HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect.\n"
                  "Stack of thread @ (most recent call first):\n"
                  "    (Lua) File \"x" ESCAPED "\\x0a\\x09\", in f" ESCAPED "\\x0a\\x09\n");
    assert_non_null(strstr(fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_JSON, NULL),
                           "\"message\":\"m\xd8\x9c\xe2\x80\x8e")); /* data stay as they are */
    release(error);
}

TEST(test_a_message_forges_no_line_of_the_report)
{
    static const char forged[] = "bad\n"
                                 "HRESULT 0x80070057 E_INVALIDARG: forged\n"
                                 "Stack of thread 1 (most recent call first):\n"
                                 "    (C) File \"/forged.c\", line 1, in innocent\n"
                                 "\n"
                                 "Caused by:\n";
    uintptr_t frames[1] = {fixture_script("python", "f", "x.py", 1)};
    fixture_error contents = value_error(frames, 1);
    IRestrictedErrorInfo *error;

    contents.message = forged;
    contents.message_length = strlen(forged);
    error = fixture_originate(&contents);
    assert_int_equal(stacksplice_add_note((IUnknown *)error, forged, strlen(forged)), S_OK);
    assert_report(error, NULL,
                  "ValueError: bad (0x80070057)\n"
                  "| HRESULT 0x80070057 E_INVALIDARG: forged\n"
                  "| Stack of thread 1 (most recent call first):\n"
                  "|     (C) File \"/forged.c\", line 1, in innocent\n"
                  "|\n"
                  "| Caused by:\n"
                  "note: bad\n"
                  "| HRESULT 0x80070057 E_INVALIDARG: forged\n"
                  "| Stack of thread 1 (most recent call first):\n"
                  "|     (C) File \"/forged.c\", line 1, in innocent\n"
                  "|\n"
                  "| Caused by:\n"
                  "HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect.\n"
                  "Stack of thread @ (most recent call first):\n"
                  "    (Python) File \"x.py\", line 1, in f\n");
    release(error);
}

TEST(test_report_marks_where_two_stacks_meet)
{
    const stacksplice_token_info seam = {GAP_TOKEN, .language = "python", .reason = "awaited",
                                         .asynchronous = 1};
    uintptr_t frames[] = {fixture_script("python", "f", "/nowhere/x.py", 17),
                          fixture_gap("awaited"), 0};
    const fixture_error contents = value_error(frames, 3);
    IRestrictedErrorInfo *error;
    const char *json;

    assert_int_equal(stacksplice_intern(&seam, &frames[2]), S_OK);
    error = fixture_originate(&contents);
    assert_report(error, NULL,
                  "ValueError: bad amount 'x' (0x80070057)\n"
                  "HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect.\n"
                  "Stack of thread @ (most recent call first):\n"
                  "    (Python) File \"/nowhere/x.py\", line 17, in f\n"
                  "    [gap: awaited]\n"
                  "    [async: awaited]\n");
    json = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_JSON, NULL);
    assert_non_null(strstr(json, "\"reason\":\"awaited\",\"address\""));
    assert_non_null(strstr(json, "\"reason\":\"awaited\",\"asynchronous\":true,\"address\""));
    release(error);
}

TEST(test_report_folds_repeated_frames)
{
    uintptr_t frames[11] = {0};
    fixture_error contents = value_error(frames, 11);
    IRestrictedErrorInfo *error;

    frames[0] = fixture_script("python", "inner", "r.py", 1);
    for (int i = 1; i < 10; i++)
        frames[i] = fixture_script("python", "again", "r.py", 2);
    frames[10] = fixture_script("python", "outer", "r.py", 3);
    error = fixture_originate(&contents);
    assert_report(error, NULL,
                  "ValueError: bad amount 'x' (0x80070057)\n"
                  "HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect.\n"
                  "Stack of thread @ (most recent call first):\n"
                  "    (Python) File \"r.py\", line 1, in inner\n"
                  "    (Python) File \"r.py\", line 2, in again\n"
                  "    (Python) File \"r.py\", line 2, in again\n"
                  "    (Python) File \"r.py\", line 2, in again\n"
                  "    [Previous frame repeated 6 more times]\n"
                  "    (Python) File \"r.py\", line 3, in outer\n");
    release(error);
}

TEST(test_report_tells_the_chain_and_the_causes)
{
    const uintptr_t inner[] = {fixture_script("lua", "main chunk", "c.lua", 1)};
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1)};
    const uintptr_t node[] = {fixture_gap("none"),
                              fixture_script("lua", "a", "a.lua", 1),
                              fixture_script("lua", "b", "a.lua", 2),
                              fixture_script("python", "c", "x.py", 3),
                              fixture_script("python", "d", "x.py", 4),
                              fixture_script("python", "e", "x.py", 5)};
    const uintptr_t last[] = {frames[0], 0x10, 0x20};
    const fixture_error cause = {.hr = E_FAIL, .message = "", .frames = inner, .frame_count = 1};
    fixture_error contents = value_error(frames, 1);
    IRestrictedErrorInfo *first = fixture_originate(&cause), *error;

    contents.cause = first;
    error = fixture_originate(&contents);
    release(first);
    fixture_propagate(error, "lua", node, 6);
    fixture_propagate(error, NULL, last, 3);
    assert_report(error, NULL,
                  "ValueError: bad amount 'x' (0x80070057)\n"
                  "HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect.\n"
                  "Stack of thread @ (most recent call first):\n"
                  "    (Python) File \"x.py\", line 1, in f\n"
                  "Propagation:\n"
                  "  1. received by lua on thread @ at:\n"
                  "        [gap: none]\n"
                  "        (Lua) File \"a.lua\", line 1, in a\n"
                  "        (Lua) File \"a.lua\", line 2, in b\n"
                  "        (Python) File \"x.py\", line 3, in c\n"
                  "        ... 2 outer frames not shown\n"
                  "  2. received by native on thread @ at:\n"
                  "        (Python) File \"x.py\", line 1, in f\n"
                  "        ... 2 outer frames not shown\n"
                  "\n"
                  "Caused by:\n"
                  "Unspecified error (0x80004005)\n"
                  "HRESULT 0x80004005 E_FAIL: Unspecified error\n"
                  "Stack of thread @ (most recent call first):\n"
                  "    (Lua) File \"c.lua\", line 1, in main chunk\n");
    assert_non_null(strstr(fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, &all_frames),
                           "        (Python) File \"x.py\", line 5, in e\n"));
    release(error);
}

static unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;

    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        count++;
    return count;
}

TEST(test_report_bounds_the_causes)
{
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1)};
    fixture_error contents = value_error(frames, 1);
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    const char *text;

    for (int i = 0; i < 16; i++) {
        contents.cause = error;
        error = fixture_originate(&contents);
        release(contents.cause);
    }
    text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL);
    assert_int_equal(count_of(text, "\nCaused by:\n"), 16);
    assert_null(strstr(text, "not shown"));
    contents.cause = error;
    error = fixture_originate(&contents);
    release(contents.cause);
    text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL);
    assert_int_equal(count_of(text, "\nCaused by:\n"), 16);
    assert_non_null(strstr(text, "\nCaused by more errors that are not shown.\n"));
    text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_JSON, NULL);
    assert_int_equal(count_of(text, "\"hresult\":"), 18);
    release(error);
}

/* An error of a group of COUNT members, in which all have two notes: "DoubleError: two". */
static IRestrictedErrorInfo *originate_group(IRestrictedErrorInfo *const *members, uint32_t count)
{
    static const char *const notes[] = {"first", "two\nlines"};
    static error_double doubles[16];
    static unsigned next;
    error_double *x = &doubles[next++ % 16];
    IRestrictedErrorInfo *error = NULL;

    error_double_init(x, 1);
    x->has_details = 1;
    x->members = members;
    x->member_count = count;
    x->members_left_out = count > 1 ? 2 : 0;
    x->notes = notes;
    x->note_count = 2;
    x->has_stack = 1;
    x->frames = (const uintptr_t[]){0x1234};
    x->frame_count = 1;
    assert_int_equal(stacksplice_originate(E_FAIL, NULL, 0, error_double_unknown(x), &error), S_OK);
    RoClearError();
    return error;
}

TEST(test_report_shows_groups_in_a_margin)
{
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1)};
    fixture_error contents = value_error(frames, 1);
    IRestrictedErrorInfo *inner[1], *members[3], *error;

    inner[0] = fixture_originate(&contents);
    contents.cause = inner[0];
    members[0] = fixture_originate(&contents);
    members[1] = inner[0];
    members[2] = originate_group(inner, 1);
    error = originate_group(members, 3);
    assert_report(error, &newest_last,
                  "  + Exception Group Traceback for thread @ (most recent call last):\n"
                  "  |     (C) ??? (0x1234)\n"
                  "  | DoubleError: two (0x80004005)\n"
                  "  | note: first\n"
                  "  | note: two\n"
                  "  | | lines\n"
                  "  | HRESULT 0x80004005 E_FAIL: Unspecified error\n"
                  "  +-+---------------- 1 ----------------\n"
                  "    | Traceback for thread @ (most recent call last):\n"
                  "    |     (Python) File \"x.py\", line 1, in f\n"
                  "    | ValueError: bad amount 'x' (0x80070057)\n"
                  "    | HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect.\n"
                  "    |\n"
                  "    | Caused by:\n"
                  "    | Traceback for thread @ (most recent call last):\n"
                  "    |     (Python) File \"x.py\", line 1, in f\n"
                  "    | ValueError: bad amount 'x' (0x80070057)\n"
                  "    | HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect.\n"
                  "    +---------------- 2 ----------------\n"
                  "    | an error above\n"
                  "    +---------------- 3 ----------------\n"
                  "    | Exception Group Traceback for thread @ (most recent call last):\n"
                  "    |     (C) ??? (0x1234)\n"
                  "    | DoubleError: two (0x80004005)\n"
                  "    | note: first\n"
                  "    | note: two\n"
                  "    | | lines\n"
                  "    | HRESULT 0x80004005 E_FAIL: Unspecified error\n"
                  "    +-+---------------- 1 ----------------\n"
                  "      | an error above\n"
                  "      +------------------------------------\n"
                  "    +---------------- ... ----------------\n"
                  "    | and 2 more errors\n"
                  "    +------------------------------------\n");
    assert_int_equal(count_of(fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_JSON, NULL),
                              "\"notes\":[\"first\",\"two\\nlines\"]"),
                     2);
    release(error);
    for (int i = 0; i < 3; i++)
        release(members[i]);
}

TEST(test_report_of_one_error_alone)
{
    const stacksplice_format_options alone = {.size = sizeof alone, .alone = 1};
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1)};
    fixture_error contents = value_error(frames, 1);
    IRestrictedErrorInfo *cause = fixture_originate(&contents), *error;

    contents.cause = cause;
    error = fixture_originate(&contents);
    assert_report(error, &alone,
                  "ValueError: bad amount 'x' (0x80070057)\n"
                  "HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect.\n"
                  "Stack of thread @ (most recent call first):\n"
                  "    (Python) File \"x.py\", line 1, in f\n");
    release(error);
    release(cause);
}

TEST(test_report_shows_source_lines)
{
    char path[] = "/tmp/stacksplice-report-XXXXXX";
    int file = mkstemp(path);
    static const char source[] = "opening\n\t  second = 1  \r\n";
    uintptr_t frames[2];
    fixture_error contents = value_error(frames, 2);
    IRestrictedErrorInfo *error;
    const char *text;

    assert_true(file >= 0);
    assert_int_equal(write(file, source, sizeof source - 1), sizeof source - 1);
    close(file);
    frames[0] = fixture_script("python", "f", path, 2);
    frames[1] = fixture_script("python", "g", path, 3); /* behind the end */
    error = fixture_originate(&contents);
    text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL);
    assert_non_null(strstr(text, ", line 2, in f\n        second = 1\n    (Python)"));
    assert_non_null(strstr(text, ", line 3, in g\n"));
    assert_null(strstr(text, "opening"));
    unlink(path);
    release(error);
}

TEST(test_a_long_source_line_says_that_it_goes_on)
{
    char path[] = "/tmp/stacksplice-report-XXXXXX", whole[520], cut[520];
    int file = mkstemp(path);
    uintptr_t frames[2];
    fixture_error contents = value_error(frames, 2);
    IRestrictedErrorInfo *error;
    const char *text;

    assert_true(file >= 0);
    memset(whole, 'w', 500);
    memset(cut, 'c', 496);
    memcpy(whole + 500, "\n", 2);
    memcpy(cut + 496, "\xc3\xa9\xc3\xa9\xc3\xa9\n", 8);
    assert_int_equal(write(file, whole, 501), 501);
    assert_int_equal(write(file, cut, 503), 503);
    close(file);
    frames[0] = fixture_script("python", "f", path, 1);
    frames[1] = fixture_script("python", "g", path, 2);
    error = fixture_originate(&contents);
    text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL);
    assert_non_null(strstr(text, whole));
    memcpy(cut + 496, "...\n", 5); /* é begins behind them, and would not fit */
    assert_non_null(strstr(text, cut));
    unlink(path);
    release(error);
}

TEST(test_report_hides_and_counts_glue)
{
    /* The return addresses need not be right: each is looked up by what it lies in. */
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1),
                                (uintptr_t)stacksplice_version + 1,
                                (uintptr_t)stacksplice_resolve + 1, (uintptr_t)abort + 1};
    const fixture_error contents = value_error(frames, 4);
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    const char *text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL);

    assert_non_null(strstr(text, "abort"));
    assert_null(strstr(text, "stacksplice_version"));
    assert_non_null(strstr(text, "    ... 2 glue frames hidden\n"));
    text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, &all_frames);
    assert_non_null(strstr(text, "stacksplice_version"));
    assert_null(strstr(text, "hidden"));
    release(error);
}

/* A name of Lua's API, and names that hosts give their own functions.  Exported, so that they have
 * names without debug information, too. */
#define EXPORTED __attribute__((visibility("default")))
EXPORTED void lua_error(void);
EXPORTED void lua_open_window(void);
EXPORTED void lua_call_python(void);

NOINLINE void lua_error(void)
{
    abort();
}

NOINLINE void lua_open_window(void)
{
    lua_error();
}

NOINLINE void lua_call_python(void)
{
    lua_open_window();
}

TEST(test_only_what_is_of_lua_is_glue_by_its_name)
{
    const uintptr_t frames[] = {(uintptr_t)lua_error + 1, (uintptr_t)lua_open_window + 1,
                                (uintptr_t)lua_call_python + 1};
    const fixture_error contents = value_error(frames, 3);
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    const char *text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL);

    assert_non_null(strstr(text, "lua_open_window"));
    assert_non_null(strstr(text, "lua_call_python"));
    assert_null(strstr(text, "lua_error"));
    assert_non_null(strstr(text, "    ... 1 glue frame hidden\n"));
    release(error);
}

static int ask_role(const stacksplice_frame *frame, void *data)
{
    *(int *)data = (int)stacksplice_frame_role(frame);
    return 1;
}

static int role_at(uintptr_t address)
{
    int answer = -1;

    (void)stacksplice_resolve(address, ask_role, &answer);
    return answer;
}

TEST(test_what_reports_hide_can_be_asked)
{
    assert_int_equal(role_at((uintptr_t)lua_error + 1), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role_at((uintptr_t)stacksplice_resolve + 1), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role_at((uintptr_t)lua_open_window + 1), STACKSPLICE_ROLE_OWN);
    assert_int_equal(role_at(fixture_script("python", "f", "x.py", 1)), STACKSPLICE_ROLE_OWN);
}

static stacksplice_role role(const char *module, const char *function)
{
    const stacksplice_frame frame = {.size = sizeof frame,
                                     .kind = STACKSPLICE_FRAME_NATIVE,
                                     .language = "native",
                                     .function = function,
                                     .module = module};

    return stacksplice_frame_role(&frame);
}

TEST(test_whose_code_a_frame_is)
{
    assert_int_equal(role("/lib/libprice.so", "price"), STACKSPLICE_ROLE_OWN);
    assert_int_equal(role("/lib/libprice.so", NULL), STACKSPLICE_ROLE_OWN);
    assert_int_equal(role("/lib/libprice.so", "lua_callk"), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role("/usr/bin/python3.11", "list_sort"), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role("/lib/liblua5.4.so.0", "luaB_error"), STACKSPLICE_ROLE_BUILTIN);
    assert_int_equal(role("/lib/liblua5.4.so.0", NULL), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role(NULL, NULL), STACKSPLICE_ROLE_OWN);
    assert_int_equal(stacksplice_frame_role(NULL), STACKSPLICE_ROLE_OWN);
}

TEST(test_report_colours_names)
{
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1)};
    const fixture_error contents = value_error(frames, 1);
    IRestrictedErrorInfo *error = fixture_originate(&contents);

    assert_report(error, &coloured,
                  "\033[1;35mValueError\033[0m: \033[35mbad amount 'x'\033[0m (0x80070057)\n"
                  "HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect.\n"
                  "Stack of thread @ (most recent call first):\n"
                  "    (Python) File \033[35m\"x.py\"\033[0m, line \033[35m1\033[0m, in "
                  "\033[35mf\033[0m\n");
    release(error);
}

TEST(test_report_of_a_node_is_its_own_stack)
{
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1)};
    const uintptr_t node_frames[] = {fixture_script("lua", "n", "n.lua", 9)};
    const fixture_error contents = value_error(frames, 1);
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    ILanguageExceptionErrorInfo2 *info, *node = NULL;
    void *out = NULL;
    const char *text;

    fixture_propagate(error, "lua", node_frames, 1);
    assert_int_equal(error->lpVtbl->QueryInterface(error, &IID_ILanguageExceptionErrorInfo2, &out),
                     S_OK);
    info = out;
    assert_int_equal(info->lpVtbl->GetPropagationContextHead(info, &node), S_OK);
    text = fixture_format((IUnknown *)node, STACKSPLICE_FORMAT_TEXT, NULL);
    assert_non_null(strstr(text, "bad amount 'x' (0x80070057)\n"));
    assert_non_null(strstr(text, "    (Lua) File \"n.lua\", line 9, in n\n"));
    assert_null(strstr(text, "Propagation"));
    node->lpVtbl->Release(node);
    info->lpVtbl->Release(info);
    release(error);
}

static int stop_at_second(const char *text, size_t length, void *data)
{
    (void)text;
    (void)length;
    return ++*(int *)data == 2;
}

TEST(test_format_stops_when_told)
{
    uintptr_t frames[200] = {0};
    fixture_error contents = value_error(frames, 200);
    IRestrictedErrorInfo *error;
    int calls = 0;

    for (uint32_t i = 0; i < 200; i++)
        frames[i] = fixture_script("python", "f", "x.py", i + 1);
    error = fixture_originate(&contents);
    assert_int_equal(stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL,
                                        stop_at_second, &calls),
                     S_FALSE);
    assert_int_equal(calls, 2);
    calls = 0;
    assert_int_equal(stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_JSON, NULL,
                                        stop_at_second, &calls),
                     S_FALSE);
    assert_int_equal(calls, 2);
    release(error);
}

static HRESULT foreign_query(IUnknown *p, REFIID iid, void **out)
{
    *out = NULL;
    if (!IsEqualIID(iid, &IID_IUnknown))
        return E_NOINTERFACE;
    *out = p;
    return S_OK;
}

static ULONG foreign_count(IUnknown *p)
{
    (void)p;
    return 1;
}

TEST(test_format_refuses_bad_arguments)
{
    static const IUnknownVtbl vtbl = {foreign_query, foreign_count, foreign_count};
    IUnknown foreign = {&vtbl};
    const fixture_error contents = value_error(NULL, 0);
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    IUnknown *ours = (IUnknown *)error;
    stacksplice_format_options options = newest_last;
    char out[33] = "kept";
    int calls = 0;

    assert_int_equal(
        stacksplice_format(NULL, STACKSPLICE_FORMAT_TEXT, NULL, stop_at_second, &calls), E_POINTER);
    assert_int_equal(stacksplice_format(ours, STACKSPLICE_FORMAT_TEXT, NULL, NULL, NULL),
                     E_POINTER);
    assert_int_equal(
        stacksplice_format(ours, (stacksplice_format_kind)0, NULL, stop_at_second, &calls),
        E_INVALIDARG);
    assert_int_equal(
        stacksplice_format(&foreign, STACKSPLICE_FORMAT_TEXT, NULL, stop_at_second, &calls),
        E_INVALIDARG);
    options.size = 3;
    assert_int_equal(
        stacksplice_format(ours, STACKSPLICE_FORMAT_TEXT, &options, stop_at_second, &calls),
        E_INVALIDARG);
    options = newest_last;
    options.order = (stacksplice_order)7;
    assert_int_equal(
        stacksplice_format(ours, STACKSPLICE_FORMAT_TEXT, &options, stop_at_second, &calls),
        E_INVALIDARG);
    assert_int_equal(calls, 0);
    assert_int_equal(stacksplice_fingerprint(NULL, out), E_POINTER);
    assert_int_equal(stacksplice_fingerprint(ours, NULL), E_POINTER);
    assert_int_equal(stacksplice_fingerprint(&foreign, out), E_INVALIDARG);
    assert_string_equal(out, "kept");
    release(error);
}

static void fingerprint_of(const fixture_error *contents, char out[33])
{
    IRestrictedErrorInfo *error = fixture_originate(contents);

    assert_int_equal(stacksplice_fingerprint((IUnknown *)error, out), S_OK);
    assert_int_equal(strspn(out, "0123456789abcdef"), 32);
    release(error);
}

TEST(test_fingerprint_groups_by_place)
{
    uintptr_t frames[3] = {fixture_script("python", "f", "/a/x.py", 1),
                           fixture_script("lua", "g", "t.lua", 2)};
    fixture_error contents = value_error(frames, 2);
    char first[33], other[33];

    fingerprint_of(&contents, first);
    /* FNV-1a, 128 bits, of this error: worked out apart from this library. */
    assert_string_equal(first, "483b3a659ec65b499f82d785f4235742");
    contents.message = "another message";
    contents.message_length = strlen(contents.message);
    frames[0] = fixture_script("python", "f", "/b/x.py", 77);
    fingerprint_of(&contents, other);
    assert_string_equal(first, other);
    frames[2] = frames[1]; /* the same recursion, one deeper */
    contents.frame_count = 3;
    fingerprint_of(&contents, other);
    assert_string_equal(first, other);
    contents.frame_count = 1;
    fingerprint_of(&contents, other);
    assert_string_not_equal(first, other);
    contents.frame_count = 2;
    contents.type = "KeyError";
    fingerprint_of(&contents, other);
    assert_string_not_equal(first, other);
}
