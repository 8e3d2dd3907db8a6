/* Formatting that is stopped or refused, and fingerprints. */
#include "error_double.h"
#include "report_text.h"

static int stop_at_second(const char *text, size_t length, void *data)
{
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
    calls = 0;
    assert_int_equal(stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_BRIEF_JSON, NULL,
                                        stop_at_second, &calls),
                     S_FALSE);
    assert_int_equal(calls, 2);
    release(error);
}

TEST(test_format_in_brief)
{
    uintptr_t frames[3] = {fixture_script("python", "f", "x.py", 1), fixture_gap("why"),
                           fixture_script("lua", "g", "t.lua", 2)};
    fixture_error contents = value_error(frames, 3);
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    char want[1024], strict[33];
    const char *text, *loose;

    fixture_propagate(error, "lua", frames, 3);
    text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_BRIEF_JSON, &all_frames);
    loose = strstr(text, "\"loose_fingerprint\":");
    assert_non_null(loose);
    assert_int_equal(stacksplice_fingerprint((IUnknown *)error, strict), S_OK);
    snprintf(want, sizeof want,
             "{\"schema\":\"stacksplice-error/1\",\"hresult\":\"0x80070057\","
             "\"hresult_signed\":-2147024809,\"symbol\":\"E_INVALIDARG\","
             "\"description\":\"The parameter is incorrect.\",\"message\":\"bad amount 'x'\","
             "\"type\":\"ValueError\",\"language\":\"python\",\"thread_id\":@,"
             "\"fingerprint\":\"%s\",%.55s\"stack\":["
             "{\"language\":\"python\",\"function\":\"f\",\"file\":\"x.py\",\"line\":1},"
             "{\"kind\":\"gap\",\"language\":\"python\",\"reason\":\"why\"},"
             "{\"language\":\"lua\",\"function\":\"g\",\"file\":\"t.lua\",\"line\":2}],"
             "\"propagation\":[{\"language\":\"lua\",\"thread_id\":@,\"stack\":["
             "{\"language\":\"python\",\"function\":\"f\",\"file\":\"x.py\",\"line\":1}]}],"
             "\"transformed_above\":null}\n",
             strict, loose);
    assert_string_equal(text, with_thread(want));
    release(error);
}

TEST(test_format_refuses_bad_arguments)
{
    error_double foreign;
    const fixture_error contents = value_error(NULL, 0);
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    IUnknown *ours = (IUnknown *)error;
    stacksplice_format_options options = newest_last;
    char out[33] = "kept";
    int calls = 0;

    error_double_init(&foreign, 0);
    assert_int_equal(
        stacksplice_format(NULL, STACKSPLICE_FORMAT_TEXT, NULL, stop_at_second, &calls), E_POINTER);
    assert_int_equal(stacksplice_format(ours, STACKSPLICE_FORMAT_TEXT, NULL, NULL, NULL),
                     E_POINTER);
    assert_int_equal(
        stacksplice_format(ours, (stacksplice_format_kind)0, NULL, stop_at_second, &calls),
        E_INVALIDARG);
    assert_int_equal(stacksplice_format(error_double_unknown(&foreign), STACKSPLICE_FORMAT_TEXT,
                                        NULL, stop_at_second, &calls),
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
    assert_int_equal(stacksplice_fingerprint(error_double_unknown(&foreign), out), E_INVALIDARG);
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

TEST(test_functions_of_lua_without_a_name_are_equal_in_each_folder)
{
    uintptr_t frames[1] = {fixture_script("lua", "function </a/t.lua:2>", "/a/t.lua", 2)};
    fixture_error contents = value_error(frames, 1);
    char first[33], other[33];

    fingerprint_of(&contents, first);
    frames[0] = fixture_script("lua", "function </b/t.lua:7>", "/b/t.lua", 7);
    fingerprint_of(&contents, other);
    assert_string_equal(first, other);
    frames[0] = fixture_script("lua", "f", "/b/t.lua", 7);
    fingerprint_of(&contents, other);
    assert_string_not_equal(first, other);
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
