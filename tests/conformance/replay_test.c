/*
 * What known consumers do, call by call, and every return value they rely on: C++/WinRT, C#/WinRT,
 * windows-rs, WIL.  All of it is written anew from what they are documented to call.
 */
#include "conformance.h"

/* An error object that answers ILanguageExceptionErrorInfo2, or NULL. */
static ILanguageExceptionErrorInfo2 *info2_of(void *object)
{
    void *out = NULL;

    if (FAILED(CALL((IUnknown *)object, QueryInterface, IID_REF(IID_ILanguageExceptionErrorInfo2),
                    &out)))
        return NULL;
    return (ILanguageExceptionErrorInfo2 *)out;
}

/* ---- C++/WinRT -------------------------------------------------------------------------------*/

typedef struct hresult_error {
    HRESULT code;
    IRestrictedErrorInfo *info;
} hresult_error;

/* Its constructor: originate, then take the object out of the slot through the old interface. */
static void cppwinrt_throw_new(hresult_error *error, HRESULT code, PCWSTR message)
{
    HSTRING string = make_hstring(message);
    IErrorInfo *info = NULL;

    /* Asserted in debug builds, with and without a message. */
    assert_int_equal(RoOriginateLanguageException(code, string, NULL), TRUE);
    WindowsDeleteString(string);
    assert_int_equal(GetErrorInfo(0, &info), S_OK);
    error->code = code;
    error->info = query(info, IRestrictedErrorInfo);
    release(info);
}

/* Its check_hresult on a failing code. */
static void cppwinrt_receive(hresult_error *error, HRESULT code)
{
    IErrorInfo *info = NULL;
    BSTR text = NULL;
    ILanguageExceptionErrorInfo2 *info2;
    void *restricted = NULL;

    error->code = code;
    error->info = NULL;
    if (GetErrorInfo(0, &info) == S_OK &&
        CALL(info, QueryInterface, IID_REF(IID_IRestrictedErrorInfo), &restricted) == S_OK) {
        error->info = (IRestrictedErrorInfo *)restricted;
        assert_int_equal(CALL(error->info, GetReference, &text), S_OK);
        SysFreeString(text);
        info2 = info2_of(error->info);
        assert_non_null(info2);
        assert_int_equal(CALL(info2, CapturePropagationContext, NULL), S_OK);
        release(info2);
    } else {
        /* Nothing, or an old error info: its description, without trailing blanks, anew. */
        if (info)
            assert_int_equal(CALL(info, GetDescription, &text), S_OK);
        for (UINT n = SysStringLen(text); n > 0 && text[n - 1] <= ' '; n--)
            text[n - 1] = 0;
        cppwinrt_throw_new(error, code, text);
        SysFreeString(text);
    }
    release(info);
}

/* Its to_abi: the error goes back into the slot. */
static HRESULT cppwinrt_leave(hresult_error *error)
{
    IErrorInfo *info = query(error->info, IErrorInfo);

    assert_int_equal(SetErrorInfo(0, info), S_OK);
    release(info);
    release(error->info);
    error->info = NULL;
    return error->code;
}

static void cppwinrt_message(hresult_error *error, PCWSTR want)
{
    check_details(error->info, error->code, GENERIC_FAIL, want);
}

FRESH_TEST(test_cppwinrt_throw_leave_receive)
{
    hresult_error error;
    ILanguageExceptionErrorInfo2 *info2, *node = NULL;
    IRestrictedErrorInfo *thrown;
    HRESULT code;
    int links = 0;

    cppwinrt_throw_new(&error, E_FAIL, OLESTR("thrown"));
    check_empty();
    cppwinrt_message(&error, OLESTR("thrown"));
    thrown = error.info;
    for (int border = 0; border < 3; border++) {
        code = cppwinrt_leave(&error);
        cppwinrt_receive(&error, code);
        assert_ptr_equal(error.info, thrown);
        check_empty();
    }
    cppwinrt_message(&error, OLESTR("thrown"));
    info2 = info2_of(error.info);
    assert_int_equal(CALL(info2, GetPropagationContextHead, &node), S_OK);
    while (node) {
        ILanguageExceptionErrorInfo2 *next = NULL;

        links++;
        assert_int_equal(CALL(node, GetPreviousLanguageExceptionErrorInfo, &next), S_OK);
        release(node);
        node = next;
    }
    assert_int_equal(links, 3);
    release(info2);
    release(error.info);
}

FRESH_TEST(test_cppwinrt_receives_without_or_with_plain_info)
{
    hresult_error error;
    info_state foreign;
    IErrorInfo *info;

    cppwinrt_receive(&error, E_FAIL);
    cppwinrt_message(&error, GENERIC_FAIL);
    release(error.info);
    foreign.restricted = FALSE;
    info = info_new(&foreign);
    SetErrorInfo(0, info);
    cppwinrt_receive(&error, E_FAIL);
    cppwinrt_message(&error, OLESTR("foreign"));
    release(error.info);
    assert_int_equal(foreign.refs, 1);
    release(info);
}

FRESH_TEST(test_cppwinrt_activation_saves_and_restores)
{
    IErrorInfo *info = NULL;

    assert_int_equal(GetErrorInfo(0, &info), S_FALSE);
    RoOriginateError(REGDB_E_CLASSNOTREG, NULL);
    assert_int_equal(SetErrorInfo(0, info), S_OK); /* NULL: the fallback leaves nothing */
    check_empty();
    RoOriginateErrorW(E_FAIL, 0, OLESTR("before"));
    assert_int_equal(GetErrorInfo(0, &info), S_OK);
    RoOriginateError(REGDB_E_CLASSNOTREG, NULL);
    assert_int_equal(SetErrorInfo(0, info), S_OK);
    release(info);
    check_slot(E_FAIL, GENERIC_FAIL, OLESTR("before"));
}

/* ---- C#/WinRT --------------------------------------------------------------------------------*/

static void csharp_leave_new(IUnknown *exception, HRESULT hr, PCWSTR message)
{
    HSTRING_HEADER header; /* a string on the stack */
    HSTRING string = NULL;

    assert_int_equal(WindowsCreateStringReference(message, text_length(message), &header, &string),
                     S_OK);
    assert_int_equal(RoOriginateLanguageException(hr, string, exception), TRUE);
}

/* Get, and put it back at once. */
static IRestrictedErrorInfo *borrow(void)
{
    IRestrictedErrorInfo *error = NULL;

    assert_true(SUCCEEDED(GetRestrictedErrorInfo(&error)));
    if (error)
        assert_int_equal(SetRestrictedErrorInfo(error), S_OK);
    return error;
}

/* Its own exception on the error or on one of its nodes: it knows its objects by their table. */
static IUnknown *csharp_find(IRestrictedErrorInfo *error, const void *own_table)
{
    ILanguageExceptionErrorInfo2 *info2 = info2_of(error), *node = NULL;
    IUnknown *exception = NULL;

    assert_true(SUCCEEDED(CALL(info2, GetLanguageException, &exception)));
    if (exception && *(const void **)(void *)exception == own_table) {
        release(info2);
        return exception;
    }
    release(exception);
    exception = NULL;
    assert_true(SUCCEEDED(CALL(info2, GetPropagationContextHead, &node)));
    release(info2);
    while (node) {
        ILanguageExceptionErrorInfo2 *next = NULL;

        if (!exception) {
            assert_true(SUCCEEDED(CALL(node, GetLanguageException, &exception)));
            if (exception && *(const void **)(void *)exception != own_table) {
                release(exception);
                exception = NULL;
            }
        }
        assert_true(SUCCEEDED(CALL(node, GetPreviousLanguageExceptionErrorInfo, &next)));
        release(node);
        node = next;
    }
    return exception;
}

FRESH_TEST(test_csharp_raises_the_same_exception_again)
{
    exception_state s;
    IUnknown *exception, *found;
    IRestrictedErrorInfo *error;
    const void *own_table;

    exception_init(&s);
    exception = exception_new(&s);
    own_table = *(const void **)(void *)exception;
    csharp_leave_new(exception, E_FAIL, OLESTR("managed"));
    error = borrow();
    found = csharp_find(error, own_table);
    assert_ptr_equal(found, exception);
    check_details(error, E_FAIL, GENERIC_FAIL, OLESTR("managed"));
    release(found);
    release(error);
    /* Out again: the exception already owns the error object, so it only goes into the slot. */
    error = take();
    assert_int_equal(SetRestrictedErrorInfo(error), S_OK);
    release(error);
    check_slot(E_FAIL, GENERIC_FAIL, OLESTR("managed"));
    assert_int_equal(s.refs, 1);
    release(exception);
}

FRESH_TEST(test_csharp_finds_its_exception_on_a_node)
{
    exception_state s;
    IUnknown *exception, *found;
    IRestrictedErrorInfo *error;
    ILanguageExceptionErrorInfo2 *info2;

    exception_init(&s);
    exception = exception_new(&s);
    RoOriginateErrorW(E_FAIL, 0, OLESTR("native"));
    error = take();
    info2 = info2_of(error);
    assert_int_equal(CALL(info2, CapturePropagationContext, exception), S_OK);
    assert_int_equal(CALL(info2, CapturePropagationContext, NULL), S_OK);
    assert_int_equal(SetRestrictedErrorInfo(error), S_OK);
    found = csharp_find(error, *(const void **)(void *)exception);
    assert_ptr_equal(found, exception);
    release(found);
    release(info2);
    release(error);
    RoClearError();
    assert_int_equal(s.refs, 1);
    release(exception);
}

/* ---- windows-rs ------------------------------------------------------------------------------*/

static IErrorInfo *rust_new(HRESULT code, PCWSTR message, UINT length)
{
    IErrorInfo *info = NULL;

    /* Its buffer has no NUL. */
    if (length)
        assert_int_equal(RoOriginateErrorW(code, length, message), TRUE);
    return GetErrorInfo(0, &info) == S_OK ? info : NULL;
}

FRESH_TEST(test_rust_new_into_hresult_and_back)
{
    static const WCHAR text[] = {'r', 'u', 's', 't', '!'};
    IErrorInfo *info, *again = NULL;
    IRestrictedErrorInfo *restricted;

    info = rust_new(E_FAIL, text, 4);
    assert_non_null(info);
    check_empty();
    assert_int_equal(SetErrorInfo(0, info), S_OK);
    assert_int_equal(GetErrorInfo(0, &again), S_OK);
    assert_ptr_equal(again, info);
    restricted = query(again, IRestrictedErrorInfo);
    check_details(restricted, E_FAIL, GENERIC_FAIL, OLESTR("rust"));
    release(restricted);
    release(again);
    release(info);
    assert_null(rust_new(E_FAIL, text, 0));
}

/* ---- WIL -------------------------------------------------------------------------------------*/

static HRESULT hresult_of(IRestrictedErrorInfo *error)
{
    BSTR description = NULL, message = NULL, sid = NULL;
    HRESULT hr = S_OK;

    assert_int_equal(CALL(error, GetErrorDetails, &description, &hr, &message, &sid), S_OK);
    SysFreeString(description);
    SysFreeString(message);
    SysFreeString(sid);
    return hr;
}

static void wil_originate(HRESULT hr, PCWSTR message)
{
    IRestrictedErrorInfo *error = NULL;
    BOOL same = FALSE;

    if (GetRestrictedErrorInfo(&error) == S_OK) {
        same = hresult_of(error) == hr;
        if (same)
            assert_int_equal(SetRestrictedErrorInfo(error), S_OK);
        release(error);
    }
    if (!same)
        RoOriginateErrorW(hr, 0, message);
}

FRESH_TEST(test_wil_keeps_the_first_message_of_equal_codes)
{
    wil_originate(E_FAIL, OLESTR("first"));
    wil_originate(E_FAIL, OLESTR("second"));
    check_slot(E_FAIL, GENERIC_FAIL, OLESTR("first"));
    wil_originate(E_FAIL, OLESTR("first"));
    wil_originate(E_INVALIDARG, NULL);
    check_slot(E_INVALIDARG, GENERIC_INVALIDARG, GENERIC_INVALIDARG);
}

GROUP(NULL, fresh)
