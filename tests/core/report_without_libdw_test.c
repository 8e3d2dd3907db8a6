/* A machine on which libdw is not installed: what then is not known is said, and where it is. */
#include "report_fixture.h"
#include "support.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Found before the C library's by all libraries of the process. */
__attribute__((visibility("default"))) void *dlopen(const char *name, int flags)
{
    void *next = dlsym(RTLD_NEXT, "dlopen");
    void *(*real)(const char *, int);

    memcpy(&real, &next, sizeof real);
    return name && strstr(name, "libdw") ? NULL : real(name, flags);
}

static IRestrictedErrorInfo *make_error(const uintptr_t *frames, uint32_t count)
{
    const fixture_error contents = {.hr = E_FAIL, .frames = frames, .frame_count = count};

    return fixture_originate(&contents);
}

TEST(test_why_there_are_no_lines_is_said_once_a_stack)
{
    uintptr_t frames[3] = {fixture_script("lua", "f", "x.lua", 1), (uintptr_t)dlopen + 1,
                           (uintptr_t)strstr + 1};
    const char *reason = stacksplice_lines_missing();
    IRestrictedErrorInfo *error = make_error(frames, 3);
    const char *text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL);
    const char *said = strstr(text, "    ... no files and lines of C frames: ");

    assert_non_null(reason);
    assert_non_null(strstr(text, "(C) dlopen+0x1 ("));
    assert_non_null(said);
    assert_non_null(strstr(said, reason));
    assert_null(strstr(strstr(said, reason), "no files and lines"));
    error->lpVtbl->Release(error);
}

/* What calls main is in no brief report. */
TEST(test_nothing_is_said_of_frames_that_are_not_shown)
{
    uintptr_t begin = (uintptr_t)dlsym(RTLD_DEFAULT, "__libc_start_main");
    uintptr_t frames[2] = {fixture_script("lua", "f", "x.lua", 1), begin + 1};
    IRestrictedErrorInfo *error = make_error(frames, 2);
    const char *text;

    assert_true(begin);
    text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL);
    assert_null(strstr(text, "(C)"));
    assert_null(strstr(text, "no files and lines"));
    error->lpVtbl->Release(error);
}

TEST(test_nothing_is_said_where_no_line_is_missing)
{
    uintptr_t frames[2] = {fixture_script("lua", "f", "x.lua", 1), 0x1234}; /* of no module */
    IRestrictedErrorInfo *error = make_error(frames, 2);
    const char *text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL);

    assert_null(strstr(text, "no files and lines"));
    error->lpVtbl->Release(error);
}
