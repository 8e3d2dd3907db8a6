/*
 * What a report only counts it does not look up: reading debug information is most of the time of
 * a process's first report.  In a program of its own, whose libdw has read nothing yet.
 */
#include "report_text.h"

#include <stdio.h>

/* How many mappings there are of this library's file: libdw makes another. */
static unsigned count_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned count = 0;
    char line[4096];

    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        count += strstr(line, "/libstacksplice.so") != NULL;
    fclose(maps);
    return count;
}

TEST(test_no_file_is_read_for_frames_that_are_hidden)
{
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1),
                                (uintptr_t)stacksplice_version + 1,
                                (uintptr_t)stacksplice_resolve + 1};
    const fixture_error contents = value_error(frames, 3);
    const stacksplice_format_options all = {.size = sizeof all, .all_frames = 1};
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    unsigned before = count_mappings();
    const char *text;

    assert_true(before > 0);
    assert_null(strstr(text_of(error), "stacksplice_version"));
    assert_int_equal(count_mappings(), before);
    text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, &all);
    assert_non_null(strstr(text, "stacksplice_version"));
    if (!stacksplice_lines_missing())
        assert_true(count_mappings() > before);
    assert_null(strstr(text_of(error), "stacksplice_version"));
    release(error);
}
