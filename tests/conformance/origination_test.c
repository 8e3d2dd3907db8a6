/* RoOriginateError, RoOriginateErrorW, RoTransformError, RoTransformErrorW and the flags. */
#include "conformance.h"

#define ABSENT ((HRESULT)0x8a5a5a5a) /* no text in the system */

/* Run in its own first test, before anything sets them. */
TEST(test_flags_default_to_use_set_error_info)
{
    UINT32 flags = 0;

    assert_int_equal(RoGetErrorReportingFlags(&flags), S_OK);
    assert_int_equal(flags, RO_ERROR_REPORTING_USESETERRORINFO);
}

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

FRESH_TEST(test_originate_keeps_message_or_takes_the_generic_text)
{
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

FRESH_TEST(test_originate_of_a_success_code_changes_nothing)
{
    static const HRESULT codes[] = {S_OK, S_FALSE, 0x00270001};

    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        RoOriginateErrorW(E_ABORT, 0, OLESTR("kept"));
        check_row(i, RoOriginateError(codes[i], NULL), FALSE);
        check_row(i, RoOriginateErrorW(codes[i], 0, OLESTR("no")), FALSE);
        check_row(i, RoOriginateLanguageException(codes[i], NULL, NULL), FALSE);
        check_slot(E_ABORT, OLESTR("Operation aborted\r\n"), OLESTR("kept"));
    }
}

FRESH_TEST(test_message_is_cut_at_the_first_nul)
{
    static const WCHAR text[] = OLESTR("one\0two");
    HSTRING message = NULL;

    assert_int_equal(WindowsCreateString(text, 7, &message), S_OK);
    RoOriginateError(E_FAIL, message);
    WindowsDeleteString(message);
    check_slot(E_FAIL, GENERIC_FAIL, OLESTR("one"));
    RoOriginateErrorW(E_FAIL, 7, text);
    check_slot(E_FAIL, GENERIC_FAIL, OLESTR("one"));
}

/* As Rust's buffers are: nothing behind them is read. */
FRESH_TEST(test_message_needs_no_nul)
{
    static const WCHAR text[] = {'r', 'u', 's', 't'};

    RoOriginateErrorW(E_FAIL, 4, text);
    check_slot(E_FAIL, GENERIC_FAIL, OLESTR("rust"));
}

FRESH_TEST(test_message_is_copied)
{
    WCHAR text[] = OLESTR("before");
    HSTRING_HEADER header;
    HSTRING message = NULL;

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

FRESH_TEST(test_message_is_cut_at_511_units)
{
    static WCHAR text[5001];

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

FRESH_TEST(test_cut_can_split_a_surrogate_pair)
{
    WCHAR text[600];
    BSTR description = NULL, message = NULL, sid = NULL;
    HRESULT hr;
    IRestrictedErrorInfo *error;

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
FRESH_TEST(test_message_is_not_read_behind_max_chars)
{
    WCHAR *text = (WCHAR *)test_malloc(4 * sizeof(WCHAR));

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

FRESH_TEST(test_transform_replaces_clears_or_refuses)
{
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

FRESH_TEST(test_transform_messages_follow_originate)
{
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

FRESH_TEST(test_flags_outside_of_0xF_are_refused)
{
    for (size_t i = 0; i < COUNT_OF(flag_cases); i++) {
        UINT32 flags = 0x99;

        assert_int_equal(RoSetErrorReportingFlags(0x5), S_OK);
        check_row(i, RoSetErrorReportingFlags(flag_cases[i].flags), flag_cases[i].want);
        assert_int_equal(RoGetErrorReportingFlags(&flags), S_OK);
        check_row(i, flags, flag_cases[i].want == S_OK ? flag_cases[i].flags : 0x5);
    }
    assert_int_equal(RoGetErrorReportingFlags(NULL), E_POINTER);
}

static const struct {
    UINT32 flags;
    BOOL stored;
} store_cases[] = {
    {0x0, FALSE}, {0x4, TRUE}, {0x8, FALSE}, {0xC, FALSE},
    {0x5, TRUE},  {0x6, TRUE}, {0x2, FALSE}, {0xE, FALSE},
};

FRESH_TEST(test_suppressed_origination_is_true_and_leaves_the_slot)
{
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

FRESH_TEST(test_propagation_is_always_enabled)
{
    assert_int_equal(IsErrorPropagationEnabled(), TRUE);
}

GROUP(NULL, fresh)
