/* Frames in reports: their source lines, and whose they are. */
#include "report_text.h"

#include <stdlib.h>

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
    text = text_of(error);
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
    text = text_of(error);
    assert_non_null(strstr(text, whole));
    memcpy(cut + 496, "...\n", 5); /* é begins behind them, and would not fit */
    assert_non_null(strstr(text, cut));
    unlink(path);
    release(error);
}

/* "[C]" is what Lua says of its functions in C: there is no file of that name. */
TEST(test_a_function_without_a_file_is_shown_as_by_its_language)
{
    static const char want[] = "    (Lua) [C]: in function 'error'\n"
                               "    (Lua) [C]: in metamethod 'index'\n"
                               "    (Lua) [C]: in ?\n"
                               "    (Lua) File \"[C]\", line 1, in f\n"
                               "    (Lua) File \"[C].lua\", in g\n";
    const uintptr_t frames[] = {
        fixture_script("lua", "error", "[C]", 0),
        fixture_script("lua", "metamethod 'index'", "[C]", 0), fixture_script("lua", "?", "[C]", 0),
        fixture_script("lua", "f", "[C]", 1), fixture_script("lua", "g", "[C].lua", 0)};
    const fixture_error contents = value_error(frames, 5);
    IRestrictedErrorInfo *error = fixture_originate(&contents);

    assert_non_null(strstr(text_of(error), want));
    release(error);
}

TEST(test_report_hides_glue)
{
    /* The return addresses need not be right: each is looked up by what it lies in. */
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1),
                                (uintptr_t)stacksplice_version + 1,
                                (uintptr_t)stacksplice_resolve + 1, (uintptr_t)abort + 1};
    const fixture_error contents = value_error(frames, 4);
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    const char *text = text_of(error);

    assert_non_null(strstr(text, "abort"));
    assert_null(strstr(text, "stacksplice_version"));
    text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, &all_frames);
    assert_non_null(strstr(text, "stacksplice_version"));
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
    const char *text = text_of(error);

    assert_non_null(strstr(text, "lua_open_window"));
    assert_non_null(strstr(text, "lua_call_python"));
    assert_null(strstr(text, "lua_error"));
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
