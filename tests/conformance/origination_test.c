/* RoOriginateError, RoOriginateErrorW, RoTransformError, RoTransformErrorW and the flags. */
#include "conformance.h"

#define ABSENT ((HRESULT)0x8a5a5a5a) /* no text in the system */

/* ---- Messages --------------------------------------------------------------------------------*/

static const struct {
    HRESULT hr;
    PCWSTR message; /* as given */
    PCWSTR description, restricted;
} message_cases[] = {
    {E_FAIL, OLESTR("it broke"), GENERIC_FAIL, OLESTR("it broke")},
    {E_FAIL, NULL, GENERIC_FAIL, GENERIC_FAIL},
    {E_FAIL, OLESTR(""), GENERIC_FAIL, GENERIC_FAIL},
    {E_INVALIDARG, NULL, GENERIC_INVALIDARG, GENERIC_INVALIDARG},
    {ABSENT, NULL, GENERIC_UNKNOWN, GENERIC_UNKNOWN},
    {ABSENT, OLESTR("mine"), GENERIC_UNKNOWN, OLESTR("mine")},
    {E_FAIL, OLESTR("\x00e9\x4e2d\xd83d\xde00"), GENERIC_FAIL, OLESTR("\x00e9\x4e2d\xd83d\xde00")},
};

static void test_originate_keeps_message_or_takes_the_generic_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(message_cases); i++) {
        HSTRING message = make_hstring(message_cases[i].message);

        check_row(i, RoOriginateError(message_cases[i].hr, message), TRUE);
        WindowsDeleteString(message);
        check_slot(message_cases[i].hr, message_cases[i].description, message_cases[i].restricted);
        check_row(i, RoOriginateErrorW(message_cases[i].hr, 0, message_cases[i].message), TRUE);
        check_slot(message_cases[i].hr, message_cases[i].description, message_cases[i].restricted);
        message = make_hstring(message_cases[i].message);
        check_row(i, RoOriginateLanguageException(message_cases[i].hr, message, NULL), TRUE);
        WindowsDeleteString(message);
        check_slot(message_cases[i].hr, message_cases[i].description, message_cases[i].restricted);
    }
}

static void test_originate_without_message_is_true(void **state)
{
    (void)state;
    assert_int_equal(RoOriginateError(E_FAIL, NULL), TRUE);
    assert_int_equal(RoOriginateErrorW(E_FAIL, 0, NULL), TRUE);
    assert_int_equal(RoOriginateErrorW(E_FAIL, 0, OLESTR("")), TRUE);
    assert_int_equal(RoOriginateErrorW(E_FAIL, 9, NULL), TRUE);
}

static void test_originate_of_a_success_code_changes_nothing(void **state)
{
    static const HRESULT codes[] = {S_OK, S_FALSE, 0x00270001};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        RoOriginateErrorW(E_ABORT, 0, OLESTR("kept"));
        check_row(i, RoOriginateError(codes[i], NULL), FALSE);
        check_row(i, RoOriginateErrorW(codes[i], 0, OLESTR("no")), FALSE);
        check_row(i, RoOriginateLanguageException(codes[i], NULL, NULL), FALSE);
        check_slot(E_ABORT, OLESTR("Operation aborted\r\n"), OLESTR("kept"));
    }
}

static void test_last_originate_wins(void **state)
{
    (void)state;
    RoOriginateErrorW(E_FAIL, 0, OLESTR("a"));
    RoOriginateErrorW(E_FAIL, 0, OLESTR("b"));
    check_slot(E_FAIL, GENERIC_FAIL, OLESTR("b"));
}

static void test_message_is_cut_at_the_first_nul(void **state)
{
    static const WCHAR text[] = OLESTR("one\0two");
    HSTRING message = NULL;

    (void)state;
    assert_int_equal(WindowsCreateString(text, 7, &message), S_OK);
    RoOriginateError(E_FAIL, message);
    WindowsDeleteString(message);
    check_slot(E_FAIL, GENERIC_FAIL, OLESTR("one"));
    RoOriginateErrorW(E_FAIL, 7, text);
    check_slot(E_FAIL, GENERIC_FAIL, OLESTR("one"));
}

static void test_message_is_copied(void **state)
{
    WCHAR text[] = OLESTR("before");
    HSTRING_HEADER header;
    HSTRING message = NULL;

    (void)state;
    assert_int_equal(WindowsCreateStringReference(text, 6, &header, &message), S_OK);
    RoOriginateError(E_FAIL, message);
    text[0] = 'B';
    check_slot(E_FAIL, GENERIC_FAIL, OLESTR("before"));
}

static const struct {
    UINT max_chars;
    UINT given; /* units before the NUL */
    UINT stored;
} length_cases[] = {
    {0, 1, 1}, {0, 510, 510},   {0, 511, 511},   {0, 512, 511},    {0, 5000, 511},  {3, 5, 3},
    {5, 3, 3}, {511, 600, 511}, {512, 600, 511}, {9000, 600, 511}, {512, 511, 511},
};

static void test_message_is_cut_at_511_units(void **state)
{
    static WCHAR text[5001];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(length_cases); i++) {
        BSTR description = NULL, message = NULL, sid = NULL;
        HRESULT hr;
        IRestrictedErrorInfo *error;

        for (UINT at = 0; at < length_cases[i].given; at++)
            text[at] = 'x';
        text[length_cases[i].given] = 0;
        RoOriginateErrorW(E_FAIL, length_cases[i].max_chars, text);
        error = take();
        assert_int_equal(CALL(error, GetErrorDetails, &description, &hr, &message, &sid), S_OK);
        check_row(i, SysStringLen(message), length_cases[i].stored);
        check_row(i, text_length(message), length_cases[i].stored);
        SysFreeString(description);
        SysFreeString(message);
        release(error);
    }
    assert_int_equal(MAX_ERROR_MESSAGE_CHARS, 512);
}

static void test_cut_can_split_a_surrogate_pair(void **state)
{
    WCHAR text[600];
    BSTR description = NULL, message = NULL, sid = NULL;
    HRESULT hr;
    IRestrictedErrorInfo *error;

    (void)state;
    for (UINT i = 0; i < COUNT_OF(text); i += 2) {
        text[i] = (WCHAR)0xD83D;
        text[i + 1] = (WCHAR)0xDE00;
    }
    RoOriginateErrorW(E_FAIL, COUNT_OF(text), text);
    error = take();
    CALL(error, GetErrorDetails, &description, &hr, &message, &sid);
    assert_int_equal(SysStringLen(message), 511);
    assert_int_equal(message[510], 0xD83D);
    SysFreeString(description);
    SysFreeString(message);
    release(error);
}

/* The buffer is exactly as long as it says, so that an analyzer sees any unit read behind it. */
static void test_message_is_not_read_behind_max_chars(void **state)
{
    WCHAR *text = (WCHAR *)test_malloc(4 * sizeof(WCHAR));

    (void)state;
    for (int i = 0; i < 4; i++)
        text[i] = (WCHAR)('a' + i);
    RoOriginateErrorW(E_FAIL, 4, text);
    check_slot(E_FAIL, GENERIC_FAIL, OLESTR("abcd"));
    RoTransformErrorW(E_ABORT, E_FAIL, 4, text);
    check_slot(E_FAIL, GENERIC_FAIL, OLESTR("abcd"));
    test_free(text);
}

/* ---- Transformation --------------------------------------------------------------------------*/

static const struct {
    HRESULT before; /* what the slot holds, 0: nothing */
    HRESULT old_error, new_error;
    BOOL want;
    HRESULT after;
} transform_cases[] = {
    {E_ABORT, E_FAIL, E_FAIL, FALSE, E_ABORT}, /* equal: nothing happens */
    {E_ABORT, S_OK, S_FALSE, FALSE, E_ABORT},  /* both succeed: nothing happens */
    {E_ABORT, S_OK, S_OK, FALSE, E_ABORT},
    {E_FAIL, E_FAIL, E_ACCESSDENIED, TRUE, E_ACCESSDENIED},
    {E_ABORT, E_FAIL, E_ACCESSDENIED, TRUE, E_ACCESSDENIED}, /* another error is replaced */
    {0, E_FAIL, E_ACCESSDENIED, TRUE, E_ACCESSDENIED},
    {E_FAIL, E_FAIL, S_OK, TRUE, 0}, /* "it was handled" */
    {E_ABORT, E_FAIL, S_FALSE, TRUE, 0},
    {E_ABORT, S_OK, E_FAIL, TRUE, E_FAIL}, /* an ordinary origination */
};

static void test_transform_replaces_clears_or_refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * COUNT_OF(transform_cases); i++) {
        size_t row = i / 2;
        IRestrictedErrorInfo *error = NULL;
        BSTR description = NULL, message = NULL, sid = NULL;
        HRESULT hr = 0;
        BOOL got;

        RoClearError();
        if (transform_cases[row].before)
            RoOriginateError(transform_cases[row].before, NULL);
        got = i % 2 ? RoTransformErrorW(transform_cases[row].old_error,
                                        transform_cases[row].new_error, 0, NULL)
                    : RoTransformError(transform_cases[row].old_error,
                                       transform_cases[row].new_error, NULL);
        check_row(row, got, transform_cases[row].want);
        if (GetRestrictedErrorInfo(&error) == S_OK)
            CALL(error, GetErrorDetails, &description, &hr, &message, &sid);
        check_row(row, hr, transform_cases[row].after);
        SysFreeString(description);
        SysFreeString(message);
        release(error);
    }
}

static void test_transform_messages_follow_originate(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(message_cases); i++) {
        HSTRING message = make_hstring(message_cases[i].message);

        RoTransformError(E_PENDING, message_cases[i].hr, message);
        WindowsDeleteString(message);
        check_slot(message_cases[i].hr, message_cases[i].description, message_cases[i].restricted);
        RoTransformErrorW(E_PENDING, message_cases[i].hr, 0, message_cases[i].message);
        check_slot(message_cases[i].hr, message_cases[i].description, message_cases[i].restricted);
    }
}

/* ---- Flags -----------------------------------------------------------------------------------*/

static const struct {
    UINT32 flags;
    HRESULT want;
} flag_cases[] = {
    {0x0, S_OK},          {0x1, S_OK},          {0x2, S_OK},
    {0x4, S_OK},          {0x8, S_OK},          {0xF, S_OK},
    {0x10, E_INVALIDARG}, {0x14, E_INVALIDARG}, {0x80000000, E_INVALIDARG},
};

static void test_flags_outside_of_0xF_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(flag_cases); i++) {
        UINT32 flags = 0x99;

        assert_int_equal(RoSetErrorReportingFlags(0x5), S_OK);
        check_row(i, RoSetErrorReportingFlags(flag_cases[i].flags), flag_cases[i].want);
        assert_int_equal(RoGetErrorReportingFlags(&flags), S_OK);
        check_row(i, flags, flag_cases[i].want == S_OK ? flag_cases[i].flags : 0x5);
    }
    assert_int_equal(RoGetErrorReportingFlags(NULL), E_POINTER);
}

/* Run in its own first test, before anything sets them. */
static void test_flags_default_to_use_set_error_info(void **state)
{
    UINT32 flags = 0;

    (void)state;
    assert_int_equal(RoGetErrorReportingFlags(&flags), S_OK);
    assert_int_equal(flags, RO_ERROR_REPORTING_USESETERRORINFO);
}

static const struct {
    UINT32 flags;
    BOOL stored;
} store_cases[] = {
    {0x0, FALSE}, {0x4, TRUE}, {0x8, FALSE}, {0xC, FALSE},
    {0x5, TRUE},  {0x6, TRUE}, {0x2, FALSE}, {0xE, FALSE},
};

static void test_suppressed_origination_is_true_and_leaves_the_slot(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(store_cases); i++) {
        assert_int_equal(RoSetErrorReportingFlags(0x4), S_OK);
        RoOriginateErrorW(E_ABORT, 0, OLESTR("old"));
        assert_int_equal(RoSetErrorReportingFlags(store_cases[i].flags), S_OK);
        check_row(i, RoOriginateErrorW(E_FAIL, 0, OLESTR("new")), TRUE);
        check_row(i, RoTransformErrorW(E_ABORT, E_FAIL, 0, OLESTR("new")), TRUE);
        if (store_cases[i].stored)
            check_slot(E_FAIL, GENERIC_FAIL, OLESTR("new"));
        else
            check_slot(E_ABORT, OLESTR("Operation aborted\r\n"), OLESTR("old"));
    }
}

static void test_propagation_is_always_enabled(void **state)
{
    (void)state;
    assert_int_equal(IsErrorPropagationEnabled(), TRUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags_default_to_use_set_error_info),
        cmocka_unit_test_setup(test_originate_keeps_message_or_takes_the_generic_text, fresh),
        cmocka_unit_test_setup(test_originate_without_message_is_true, fresh),
        cmocka_unit_test_setup(test_originate_of_a_success_code_changes_nothing, fresh),
        cmocka_unit_test_setup(test_last_originate_wins, fresh),
        cmocka_unit_test_setup(test_message_is_cut_at_the_first_nul, fresh),
        cmocka_unit_test_setup(test_message_is_copied, fresh),
        cmocka_unit_test_setup(test_message_is_cut_at_511_units, fresh),
        cmocka_unit_test_setup(test_cut_can_split_a_surrogate_pair, fresh),
        cmocka_unit_test_setup(test_message_is_not_read_behind_max_chars, fresh),
        cmocka_unit_test_setup(test_transform_replaces_clears_or_refuses, fresh),
        cmocka_unit_test_setup(test_transform_messages_follow_originate, fresh),
        cmocka_unit_test_setup(test_flags_outside_of_0xF_are_refused, fresh),
        cmocka_unit_test_setup(test_suppressed_origination_is_true_and_leaves_the_slot, fresh),
        cmocka_unit_test_setup(test_propagation_is_always_enabled, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, fresh);
}
