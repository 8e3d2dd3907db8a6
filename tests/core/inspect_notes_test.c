/* What cannot be had of a process is said once each; the last of many notes says that there are more. */
#include "support.h"
#include "target/frame.h"

#include <stdio.h>

static void test_each_note_is_kept_once(void **unused)
{
    static ssi_scripts scripts;

    (void)unused;
    ssi_scripts_note(&scripts, "first");
    ssi_scripts_note(&scripts, "second");
    ssi_scripts_note(&scripts, "first");
    ssi_scripts_note(&scripts, NULL);
    assert_int_equal(scripts.note_count, 2);
    assert_string_equal(scripts.notes[0], "first");
    assert_string_equal(scripts.notes[1], "second");
}

static void test_the_last_says_that_there_are_more(void **unused)
{
    enum { ROOM = sizeof((ssi_scripts *)NULL)->notes / sizeof(const char *) };
    static ssi_scripts scripts;
    static char texts[2 * ROOM][8];

    (void)unused;
    for (size_t i = 0; i < 2 * ROOM; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "%zu", i);
        ssi_scripts_note(&scripts, texts[i]);
    }
    assert_int_equal(scripts.note_count, ROOM);
    for (size_t i = 0; i + 1 < ROOM; i++)
        assert_ptr_equal(scripts.notes[i], texts[i]);
    assert_string_equal(scripts.notes[ROOM - 1], "there are more such notes than are shown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_note_is_kept_once),
        cmocka_unit_test(test_the_last_says_that_there_are_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
