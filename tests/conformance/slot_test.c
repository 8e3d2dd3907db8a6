/* The thread's slot: Get and Set in both forms, clearing, threads. */
#include "conformance.h"

#include <pthread.h>

FRESH_TEST(test_get_takes)
{
    IRestrictedErrorInfo *error = originated(E_FAIL);

    assert_int_equal(refs_of(error), 1);
    check_empty();
    release(error);
}

FRESH_TEST(test_set_null_empties)
{
    RoOriginateError(E_FAIL, NULL);
    assert_int_equal(SetRestrictedErrorInfo(NULL), S_OK);
    check_empty();
    RoOriginateError(E_FAIL, NULL);
    assert_int_equal(SetErrorInfo(0, NULL), S_OK);
    check_empty();
    RoOriginateError(E_FAIL, NULL);
    RoClearError();
    check_empty();
    RoClearError();
    check_empty();
}

FRESH_TEST(test_get_then_set_keeps_identity)
{
    IRestrictedErrorInfo *error, *again;

    RoOriginateErrorW(E_FAIL, 0, OLESTR("one"));
    error = take();
    assert_int_equal(SetRestrictedErrorInfo(error), S_OK);
    assert_int_equal(refs_of(error), 2);
    again = take();
    assert_ptr_equal(error, again);
    release(again);
    assert_int_equal(refs_of(error), 1);
    check_details(error, E_FAIL, GENERIC_FAIL, OLESTR("one"));
    release(error);
}

FRESH_TEST(test_set_releases_what_was_there)
{
    info_state first, second;
    IErrorInfo *a, *b;

    first.restricted = second.restricted = FALSE;
    a = info_new(&first);
    b = info_new(&second);
    assert_int_equal(SetErrorInfo(0, a), S_OK);
    assert_int_equal(first.refs, 2);
    assert_int_equal(SetErrorInfo(0, b), S_OK);
    assert_int_equal(first.refs, 1);
    RoOriginateError(E_FAIL, NULL);
    assert_int_equal(second.refs, 1);
    release(a);
    release(b);
}

FRESH_TEST(test_set_of_the_error_in_the_slot)
{
    IRestrictedErrorInfo *error = originated(E_FAIL);

    SetRestrictedErrorInfo(error);
    assert_int_equal(SetRestrictedErrorInfo(error), S_OK);
    assert_int_equal(refs_of(error), 2);
    RoClearError();
    release(error);
}

FRESH_TEST(test_both_views_are_one_slot)
{
    IErrorInfo *info = NULL;
    IRestrictedErrorInfo *error;

    RoOriginateErrorW(E_FAIL, 0, OLESTR("one"));
    assert_int_equal(GetErrorInfo(0, &info), S_OK);
    check_empty();
    assert_int_equal(SetErrorInfo(0, info), S_OK);
    error = take();
    check_details(error, E_FAIL, GENERIC_FAIL, OLESTR("one"));
    assert_int_equal(refs_of(error), 2);
    release(info);
    release(error);
    assert_int_equal(GetErrorInfo(0, &info), S_FALSE);
    assert_null(info);
}

FRESH_TEST(test_argument_errors_leave_the_slot)
{
    IErrorInfo *info = NULL;

    RoOriginateErrorW(E_FAIL, 0, OLESTR("kept"));
    assert_int_equal(GetRestrictedErrorInfo(NULL), E_POINTER);
    assert_int_equal(GetErrorInfo(0, NULL), E_INVALIDARG);
    assert_int_equal(GetErrorInfo(1, &info), E_INVALIDARG);
    assert_int_equal(SetErrorInfo(1, NULL), E_INVALIDARG);
    check_slot(E_FAIL, GENERIC_FAIL, OLESTR("kept"));
}

FRESH_TEST(test_plain_error_info_is_dropped_by_get_restricted)
{
    info_state foreign;
    IErrorInfo *info;

    foreign.restricted = FALSE;
    info = info_new(&foreign);
    assert_int_equal(SetErrorInfo(0, info), S_OK);
    check_empty();
    assert_int_equal(foreign.refs, 1);
    assert_int_equal(SetErrorInfo(0, info), S_OK);
    release(info);
    assert_int_equal(GetErrorInfo(0, &info), S_OK);
    assert_int_equal(foreign.refs, 1);
    release(info);
    assert_int_equal(foreign.refs, 0);
}

FRESH_TEST(test_foreign_restricted_error_info_is_refused)
{
    info_state foreign;
    IErrorInfo *info;
    IRestrictedErrorInfo *restricted;

    foreign.restricted = TRUE;
    info = info_new(&foreign);
    restricted = query(info, IRestrictedErrorInfo);
    RoOriginateErrorW(E_FAIL, 0, OLESTR("kept"));
    assert_int_equal(SetRestrictedErrorInfo(restricted), E_INVALIDARG);
    check_slot(E_FAIL, GENERIC_FAIL, OLESTR("kept"));
    assert_int_equal(SetErrorInfo(0, info), S_OK);
    check_empty();
    release(restricted);
    assert_int_equal(foreign.refs, 1);
    release(info);
}

/* ---- The object ------------------------------------------------------------------------------*/

FRESH_TEST(test_error_has_one_identity_and_its_interfaces)
{
    IRestrictedErrorInfo *error = originated(E_FAIL);
    IUnknown *unknown, *again;
    IErrorInfo *info;
    ILanguageExceptionErrorInfo *language;
    ILanguageExceptionErrorInfo2 *language2;

    unknown = query(error, IUnknown);
    info = query(error, IErrorInfo);
    language = query(info, ILanguageExceptionErrorInfo);
    language2 = query(language, ILanguageExceptionErrorInfo2);
    again = query(language2, IUnknown);
    assert_ptr_equal(unknown, again);
    release(again);
    again = query(info, IUnknown);
    assert_ptr_equal(unknown, again);
    release(again);
    assert_true(answers(error, IID_REF(IID_IAgileObject)));
    assert_false(answers(error, IID_REF(IID_ILanguageExceptionTransform)));
    assert_int_equal(CALL(error, QueryInterface, IID_REF(IID_IUnknown), NULL), E_POINTER);
    release(language2);
    release(language);
    release(info);
    release(unknown);
    assert_int_equal(refs_of(error), 1);
    release(error);
}

FRESH_TEST(test_error_info_describes_the_code_not_the_message)
{
    IErrorInfo *info = NULL;
    BSTR text = NULL;
    GUID guid = IID_IUnknown;
    DWORD context = 7;

    RoOriginateErrorW(E_INVALIDARG, 0, OLESTR("message"));
    assert_int_equal(GetErrorInfo(0, &info), S_OK);
    assert_int_equal(CALL(info, GetDescription, &text), S_OK);
    check_text(text, GENERIC_INVALIDARG);
    SysFreeString(text);
    assert_int_equal(CALL(info, GetSource, &text), S_OK);
    assert_null(text);
    assert_int_equal(CALL(info, GetHelpFile, &text), S_OK);
    assert_null(text);
    assert_int_equal(CALL(info, GetGUID, &guid), S_OK);
    assert_true(IsEqualGUID(IID_REF(guid), IID_REF(GUID_NULL)));
    assert_int_equal(CALL(info, GetHelpContext, &context), S_OK);
    assert_int_equal(context, 0);
    assert_int_equal(CALL(info, GetDescription, NULL), E_POINTER);
    assert_int_equal(CALL(info, GetSource, NULL), E_POINTER);
    assert_int_equal(CALL(info, GetHelpFile, NULL), E_POINTER);
    assert_int_equal(CALL(info, GetGUID, NULL), E_POINTER);
    assert_int_equal(CALL(info, GetHelpContext, NULL), E_POINTER);
    release(info);
}

FRESH_TEST(test_get_error_details_checks_every_pointer)
{
    WCHAR marker[1];
    BSTR a = marker, b = marker, c = marker;
    HRESULT hr = S_FALSE;
    IRestrictedErrorInfo *error = originated(E_FAIL);

    assert_int_equal(CALL(error, GetErrorDetails, NULL, &hr, &b, &c), E_POINTER);
    assert_int_equal(CALL(error, GetErrorDetails, &a, NULL, &b, &c), E_POINTER);
    assert_int_equal(CALL(error, GetErrorDetails, &a, &hr, NULL, &c), E_POINTER);
    assert_int_equal(CALL(error, GetErrorDetails, &a, &hr, &b, NULL), E_POINTER);
    assert_int_equal(CALL(error, GetReference, NULL), E_POINTER);
    assert_true(a == marker && b == marker && c == marker && hr == S_FALSE);
    release(error);
}

/* ---- References ------------------------------------------------------------------------------*/

FRESH_TEST(test_reference_resolves_while_the_error_lives)
{
    BSTR reference = NULL, other = NULL;
    IRestrictedErrorInfo *error, *second, *found = NULL;

    error = originated(E_FAIL);
    second = originated(E_FAIL);
    assert_int_equal(CALL(error, GetReference, &reference), S_OK);
    assert_int_equal(CALL(second, GetReference, &other), S_OK);
    assert_false(same_text(reference, other));
    assert_int_equal(RoResolveRestrictedErrorInfoReference(reference, &found), S_OK);
    assert_ptr_equal(found, error);
    assert_int_equal(refs_of(error), 2);
    release(found);
    release(error);
    assert_int_equal(RoResolveRestrictedErrorInfoReference(reference, &found), E_INVALIDARG);
    assert_null(found);
    assert_int_equal(RoResolveRestrictedErrorInfoReference(other, &found), S_OK);
    assert_ptr_equal(found, second);
    release(found);
    release(second);
    SysFreeString(reference);
    SysFreeString(other);
}

FRESH_TEST(test_bad_references_are_refused)
{
    static const PCWSTR bad[] = {
        NULL,
        OLESTR(""),
        OLESTR("x"),
        OLESTR("0000000000000000"),
        OLESTR("0000000000000000-0000000000000001"),
        OLESTR("zzzzzzzzzzzzzzzz-zzzzzzzzzzzzzzzz"),
        OLESTR("0000000000000000-00000000000000011"),
    };
    IRestrictedErrorInfo *error = NULL, *found = NULL;

    error = originated(E_FAIL);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        check_row(i, RoResolveRestrictedErrorInfoReference(bad[i], &found), E_INVALIDARG);
        assert_null(found);
    }
    assert_int_equal(RoResolveRestrictedErrorInfoReference(OLESTR("x"), NULL), E_POINTER);
    release(error);
}

/* ---- Threads ---------------------------------------------------------------------------------*/

static void *originate_elsewhere(void *data)
{
    IRestrictedErrorInfo *error = NULL;

    /* A thread's slot is its own and needs no initialisation. */
    if (GetRestrictedErrorInfo(&error) != S_FALSE || error)
        return NULL;
    RoOriginateErrorW(E_FAIL, 0, OLESTR("elsewhere"));
    GetRestrictedErrorInfo((IRestrictedErrorInfo **)data);
    RoOriginateErrorW(E_ABORT, 0, OLESTR("left behind"));
    return data;
}

FRESH_TEST(test_error_outlives_its_thread_and_slots_are_apart)
{
    IRestrictedErrorInfo *error = NULL;
    pthread_t thread;
    void *result = NULL;

    RoOriginateErrorW(E_ABORT, 0, OLESTR("here"));
    assert_int_equal(pthread_create(&thread, NULL, originate_elsewhere, &error), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &error);
    check_details(error, E_FAIL, GENERIC_FAIL, OLESTR("elsewhere"));
    check_slot(E_ABORT, OLESTR("Operation aborted\r\n"), OLESTR("here"));
    assert_int_equal(SetRestrictedErrorInfo(error), S_OK);
    release(error);
    check_slot(E_FAIL, GENERIC_FAIL, OLESTR("elsewhere"));
}

static void *set_foreign(void *data)
{
    SetErrorInfo(0, (IErrorInfo *)data);
    return NULL;
}

FRESH_TEST(test_thread_exit_releases_the_slot)
{
    info_state foreign;
    IErrorInfo *info;
    pthread_t thread;

    foreign.restricted = FALSE;
    info = info_new(&foreign);
    assert_int_equal(pthread_create(&thread, NULL, set_foreign, info), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(foreign.refs, 1);
    release(info);
}

GROUP(NULL, fresh)
