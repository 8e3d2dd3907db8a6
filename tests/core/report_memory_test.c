/* Every allocation of resolve, format and fingerprint fails in turn: reports degrade, no more. */
#include "failing_allocator.h"
#include "report_fixture.h"
#include "support.h"

#include <stacksplice/read.h>

#include <stdlib.h>
#include <string.h>

static int set_up(void **state)
{
    return memory_use();
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

TEST(test_resolve_degrades_to_the_module)
{
    for (int all_after = 0; all_after < 2; all_after++) {
        atomic_store(&memory_all_after, all_after);
        for (long i = 1; i <= 12; i++) {
            int modules = 0;

            memory_arm(i);
            assert_int_equal(stacksplice_resolve(fresh_address(), count_module, &modules), S_OK);
            memory_disarm();
            assert_true(modules >= 1);
        }
    }
}

TEST(test_reports_are_complete_without_memory)
{
    uintptr_t frames[2] = {fixture_script("python", "f", "x.py", 1)};
    fixture_error contents = {.hr = E_FAIL,
                              .type = "ValueError",
                              .message = "text",
                              .message_length = 4,
                              .frames = frames,
                              .frame_count = 2};

    for (int all_after = 0; all_after < 2; all_after++) {
        atomic_store(&memory_all_after, all_after);
        for (long i = 1; i <= 12; i++) {
            IRestrictedErrorInfo *error;
            char first[33], second[33];
            const char *text;

            frames[1] = fresh_address();
            error = fixture_originate(&contents);
            memory_arm(i);
            assert_int_equal(stacksplice_fingerprint((IUnknown *)error, first), S_OK);
            memory_arm(i);
            text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL);
            memory_disarm();
            assert_non_null(strstr(text, "ValueError: text\n"));
            assert_non_null(strstr(text, "    (Python) File \"x.py\", line 1, in f\n"));
            memory_arm(i);
            text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_JSON, NULL);
            memory_disarm();
            assert_non_null(strstr(text, "\"message\":\"text\""));
            assert_string_equal(text + strlen(text) - 2, "}\n");
            memory_arm(i);
            text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_BRIEF_JSON, NULL);
            memory_disarm();
            assert_non_null(strstr(text, "\"message\":\"text\""));
            assert_string_equal(text + strlen(text) - 2, "}\n");
            memory_arm(i);
            text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_SENTRY, NULL);
            memory_disarm();
            assert_non_null(strstr(text, "\"type\":\"ValueError\",\"value\":\"text\""));
            assert_string_equal(text + strlen(text) - 2, "}\n");
            assert_int_equal(stacksplice_fingerprint((IUnknown *)error, second), S_OK);
            assert_string_equal(first, second);
            error->lpVtbl->Release(error);
        }
    }
}

TEST(test_a_report_that_cannot_be_read_leaves_nothing)
{
    static const char json[] =
        "{\"hresult_signed\":1,\"message\":\"m\",\"propagation\":[{\"language\":\"lua\","
        "\"thread_id\":1,\"stack\":[]}],\"reference\":\"r\",\"notes\":[\"n\"],"
        "\"process\":{\"id\":1,\"host\":\"h\"},\"exceptions\":[],"
        "\"stack\":[{\"kind\":\"script\",\"language\":\"c\",\"locals\":{\"x\":\"1\"}}],"
        "\"transformed\":[{\"hresult_signed\":1,\"message\":\"m\",\"propagation\":[],"
        "\"stack\":[]}]}";
    long before = atomic_load(&memory_live);
    stacksplice_hresult hr = E_OUTOFMEMORY;
    long failures = 0;

    while (hr != S_OK) {
        const stacksplice_document *document = NULL;

        assert_int_equal(hr, E_OUTOFMEMORY);
        memory_arm(++failures);
        hr = stacksplice_document_read(json, sizeof json - 1, &document, NULL);
        memory_disarm();
        assert_int_equal(document != NULL, hr == S_OK);
        stacksplice_document_free(document);
        assert_int_equal(atomic_load(&memory_live), before);
    }
    assert_true(failures > 10);
}

GROUP(set_up, NULL)
