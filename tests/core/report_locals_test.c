/* Local variables in reports: what a language tells of them, and what is left out. */
#include "failing_allocator.h"
#include "report_text.h"

#include <stacksplice/script.h>

#include <stdlib.h>

static IRestrictedErrorInfo *known; /* the error that has variables */
static unsigned asked;

static void read_locals(IUnknown *error, const uintptr_t *frames, uint32_t count,
                        stacksplice_local_callback put, void *put_data)
{
    asked++;
    if (error != (IUnknown *)known)
        return;
    assert_int_equal(count, 3);
    assert_int_equal(frames[2], fixture_script("lua", "outer", "t.lua", 3));
    (void)(put(2, "x", "1", 1, put_data) || put(2, "y\"\n", "'\n'", 3, put_data) ||
           put(0, "db_password", "'hunter2'", 9, put_data) ||
           put(0, "text", "'token=hunter2'", 15, put_data));
}

static int set_up(void **state)
{
    return memory_use();
}

/* The frames of an error; the first two are equal. */
static IRestrictedErrorInfo *make_error(void)
{
    const uintptr_t inner = fixture_script("python", "f", "/nowhere/x.py", 17);
    const uintptr_t frames[] = {inner, inner, fixture_script("lua", "outer", "t.lua", 3)};
    const fixture_error contents = value_error(frames, 3);

    asked = 0;
    return fixture_originate(&contents);
}

#define IN_JSON                                 \
    "\"locals\":{\"db_password\":\"[redacted: " \
    "password]\",\"text\":\"'token=[redacted: token]'\"}"

TEST(test_reports_without_them)
{
    IRestrictedErrorInfo *error = make_error();

    assert_null(strstr(json_of(error), "locals"));
    assert_int_equal(asked, 0);
    release(error);
}

TEST(test_a_reader_is_added_once)
{
    assert_int_equal(stacksplice_add_locals(NULL), E_POINTER);
    assert_int_equal(stacksplice_add_locals(read_locals), S_OK);
    assert_int_equal(stacksplice_add_locals(read_locals), S_FALSE);
}

TEST(test_text_has_them_below_their_frame)
{
    IRestrictedErrorInfo *error = known = make_error();

    assert_report(error, NULL,
                  VALUE_ERROR STACK "    (Python) File \"/nowhere/x.py\", line 17, in f\n"
                                    "        db_password = [redacted: password]\n"
                                    "        text = 'token=[redacted: token]'\n"
                                    "    (Python) File \"/nowhere/x.py\", line 17, in f\n"
                                    "    (Lua) File \"t.lua\", line 3, in outer\n"
                                    "        x = 1\n"
                                    "        y\"\\x0a = '\\x0a'\n");
    assert_report(error, &newest_last,
                  "Traceback (most recent call last):\n"
                  "  (Lua) File \"t.lua\", line 3, in outer\n"
                  "    x = 1\n"
                  "    y\"\\x0a = '\\x0a'\n"
                  "  File \"/nowhere/x.py\", line 17, in f\n"
                  "  File \"/nowhere/x.py\", line 17, in f\n"
                  "    db_password = [redacted: password]\n"
                  "    text = 'token=[redacted: token]'\n" VALUE_ERROR);
    release(error);
}

TEST(test_another_error_has_none)
{
    IRestrictedErrorInfo *error = make_error();

    known = NULL;
    assert_null(strstr(json_of(error), "\"locals\""));
    assert_true(asked > 0);
    release(error);
}

TEST(test_reports_without_memory_for_them)
{
    IRestrictedErrorInfo *error = known = make_error();
    long live = atomic_load(&memory_live);

    for (long i = 1; i <= 12; i++) {
        memory_arm(i);
        assert_non_null(strstr(json_of(error), "\"function\":\"outer\""));
        memory_disarm();
        assert_int_equal(atomic_load(&memory_live), live);
    }
    assert_non_null(strstr(json_of(error), IN_JSON));
    release(error);
}

GROUP(set_up, NULL)
