/* Every allocation of resolve, format and fingerprint fails in turn: reports degrade, no more. */
#include "report_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static long countdown = -1; /* allocations until one fails; negative: none does */
static int all_after;       /* and every one after it */

static int must_fail(void)
{
    if (countdown < 0)
        return 0;
    if (countdown)
        return countdown--, 0;
    if (!all_after)
        countdown = -1;
    return 1;
}

static void *counted_alloc(size_t bytes, void *data)
{
    (void)data;
    return must_fail() ? NULL : malloc(bytes);
}

static void *counted_realloc(void *block, size_t bytes, void *data)
{
    (void)data;
    return must_fail() ? NULL : realloc(block, bytes);
}

static void counted_free(void *block, void *data)
{
    (void)data;
    free(block);
}

static int set_up(void **state)
{
    static const stacksplice_allocator allocator = {sizeof allocator, counted_alloc,
                                                    counted_realloc, counted_free, NULL};

    (void)state;
    return stacksplice_set_allocator(&allocator) != S_OK;
}

/* Addresses that were not resolved before: a new one for each failure. */
static uintptr_t fresh_address(void)
{
    static uintptr_t next = 1;

    return (uintptr_t)fixture_format + next++;
}

static int count_module(const stacksplice_frame *frame, void *data)
{
    *(int *)data += frame->module != NULL;
    return 0;
}

static void test_resolve_degrades_to_the_module(void **state)
{
    (void)state;
    for (all_after = 0; all_after < 2; all_after++) {
        for (long i = 0; i < 12; i++) {
            int modules = 0;

            countdown = i;
            assert_int_equal(stacksplice_resolve(fresh_address(), count_module, &modules), S_OK);
            countdown = -1;
            assert_true(modules >= 1);
        }
    }
}

static void test_reports_are_complete_without_memory(void **state)
{
    uintptr_t frames[2] = {fixture_script("python", "f", "x.py", 1)};
    fixture_error contents = {.hr = E_FAIL,
                              .type = "ValueError",
                              .message = "text",
                              .message_length = 4,
                              .frames = frames,
                              .frame_count = 2};

    (void)state;
    for (all_after = 0; all_after < 2; all_after++) {
        for (long i = 0; i < 12; i++) {
            IRestrictedErrorInfo *error;
            char first[33], second[33];
            const char *text;

            frames[1] = fresh_address();
            error = fixture_originate(&contents);
            countdown = i;
            assert_int_equal(stacksplice_fingerprint((IUnknown *)error, first), S_OK);
            countdown = i;
            text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL);
            countdown = -1;
            assert_non_null(strstr(text, "ValueError: text (0x80004005)\n"));
            assert_non_null(strstr(text, "    (Python) File \"x.py\", line 1, in f\n"));
            countdown = i;
            text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_JSON, NULL);
            countdown = -1;
            assert_non_null(strstr(text, "\"message\":\"text\""));
            assert_string_equal(text + strlen(text) - 2, "}\n");
            assert_int_equal(stacksplice_fingerprint((IUnknown *)error, second), S_OK);
            assert_string_equal(first, second);
            error->lpVtbl->Release(error);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resolve_degrades_to_the_module),
        cmocka_unit_test(test_reports_are_complete_without_memory),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
