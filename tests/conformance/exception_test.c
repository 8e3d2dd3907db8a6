/* RoOriginateLanguageException and what it asks of the language exception. */
#include "conformance.h"

#include <pthread.h>
#include <string.h>

static const UINT_PTR some_frames[] = {0x1001, 0x2002, 0x3003, 0x4004, 0x5005};

/* The exception that ERROR (or a node) was made with, with a reference. */
static IUnknown *exception_of(void *error)
{
    ILanguageExceptionErrorInfo *info = query(error, ILanguageExceptionErrorInfo);
    IUnknown *exception = NULL;

    assert_int_equal(CALL(info, GetLanguageException, NULL), E_POINTER);
    assert_int_equal(CALL(info, GetLanguageException, &exception), S_OK);
    release(info);
    return exception;
}

static ILanguageExceptionErrorInfo2 *previous_of(void *error)
{
    ILanguageExceptionErrorInfo2 *info = query(error, ILanguageExceptionErrorInfo2);
    ILanguageExceptionErrorInfo2 *previous = NULL;

    assert_int_equal(CALL(info, GetPreviousLanguageExceptionErrorInfo, NULL), E_POINTER);
    assert_int_equal(CALL(info, GetPreviousLanguageExceptionErrorInfo, &previous), S_OK);
    release(info);
    return previous;
}

/* ---- Identity --------------------------------------------------------------------------------*/

FRESH_TEST(test_exception_comes_back_by_pointer)
{
    exception_state s;
    IUnknown *exception, *got;
    IRestrictedErrorInfo *error;

    exception_init(&s);
    exception = exception_new(&s);
    assert_int_equal(RoOriginateLanguageException(E_FAIL, NULL, exception), TRUE);
    assert_int_equal(s.refs, 2);
    error = take();
    got = exception_of(error);
    assert_ptr_equal(got, exception);
    assert_int_equal(s.refs, 3);
    release(got);
    release(exception);
    assert_int_equal(s.refs, 1);
    release(error);
    assert_int_equal(s.refs, 0);
}

FRESH_TEST(test_no_exception_is_ok_and_null)
{
    IRestrictedErrorInfo *error;

    error = originated_with(E_FAIL, NULL);
    assert_null(exception_of(error));
    assert_null(previous_of(error));
    release(error);
    error = originated(E_FAIL);
    assert_null(exception_of(error));
    release(error);
}

static void *originate_and_end(void *data)
{
    HRESULT hr;

    RoOriginateLanguageException(E_BOUNDS, NULL, (IUnknown *)data);
    IRestrictedErrorInfo *error = NULL;
    hr = GetRestrictedErrorInfo(&error);
    return hr == S_OK ? error : NULL;
}

static void *release_elsewhere(void *data)
{
    release(data);
    return NULL;
}

FRESH_TEST(test_exception_outlives_its_thread_and_is_released_on_any)
{
    exception_state s;
    IUnknown *exception, *got;
    pthread_t thread;
    void *error = NULL;

    exception_init(&s);
    exception = exception_new(&s);
    assert_int_equal(pthread_create(&thread, NULL, originate_and_end, exception), 0);
    assert_int_equal(pthread_join(thread, &error), 0);
    assert_non_null(error);
    got = exception_of(error);
    assert_ptr_equal(got, exception);
    release(got);
    release(exception);
    assert_int_equal(pthread_create(&thread, NULL, release_elsewhere, error), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(s.refs, 0);
}

/* ---- What is asked ---------------------------------------------------------------------------*/

static const struct {
    BOOL has_stack, has_cause;
    const char *calls; /* Agile, Stack, stack taken, Transform, transform taken */
} order_cases[] = {
    {FALSE, FALSE, "AST"},
    {TRUE, FALSE, "ASsT"},
    {FALSE, TRUE, "ASTt"},
    {TRUE, TRUE, "ASsTt"},
};

FRESH_TEST(test_exception_is_asked_in_order)
{
    for (size_t i = 0; i < COUNT_OF(order_cases); i++) {
        exception_state s;
        IUnknown *exception;

        exception_init(&s);
        s.has_stack = order_cases[i].has_stack;
        s.has_cause = order_cases[i].has_cause;
        s.frames = some_frames;
        s.frame_count = COUNT_OF(some_frames);
        exception = exception_new(&s);
        RoOriginateLanguageException(E_FAIL, NULL, exception);
        assert_string_equal(s.calls, order_cases[i].calls);
        if (s.has_stack)
            check_row(i, s.room, 512);
        RoClearError();
        release(exception);
        check_row(i, s.refs, 0);
    }
}

FRESH_TEST(test_suppressed_origination_asks_nothing)
{
    exception_state s;
    IUnknown *exception;

    exception_init(&s);
    s.has_stack = TRUE;
    exception = exception_new(&s);
    RoSetErrorReportingFlags(RO_ERROR_REPORTING_SUPPRESSSETERRORINFO);
    assert_int_equal(RoOriginateLanguageException(E_FAIL, NULL, exception), TRUE);
    assert_string_equal(s.calls, "");
    assert_int_equal(s.refs, 1);
    release(exception);
}

/* ---- The cause -------------------------------------------------------------------------------*/

FRESH_TEST(test_cause_is_the_previous_error)
{
    exception_state s;
    IUnknown *exception;
    IRestrictedErrorInfo *cause, *error;
    ILanguageExceptionErrorInfo2 *previous;
    IRestrictedErrorInfo *again;

    RoOriginateErrorW(E_BOUNDS, 0, OLESTR("cause"));
    cause = take();
    exception_init(&s);
    s.has_cause = TRUE;
    s.cause = cause;
    exception = exception_new(&s);
    error = originated_with(E_FAIL, exception);
    previous = previous_of(error);
    again = query(previous, IRestrictedErrorInfo);
    assert_ptr_equal(again, cause);
    release(again);
    release(previous);
    assert_int_equal(refs_of(cause), 2);
    release(error);
    assert_int_equal(refs_of(cause), 1);
    release(cause);
    release(exception);
}

FRESH_TEST(test_failing_or_missing_cause_is_none)
{
    for (int i = 0; i < 2; i++) {
        exception_state s;
        IUnknown *exception;
        IRestrictedErrorInfo *error;

        exception_init(&s);
        s.has_cause = TRUE;
        s.cause_hr = i ? E_FAIL : S_OK;
        exception = exception_new(&s);
        assert_int_equal(RoOriginateLanguageException(E_FAIL, NULL, exception), TRUE);
        error = take();
        assert_null(previous_of(error));
        release(error);
        release(exception);
    }
}

FRESH_TEST(test_foreign_cause_is_none)
{
    exception_state s;
    info_state foreign;
    IErrorInfo *info;
    IUnknown *exception;
    IRestrictedErrorInfo *error;

    exception_init(&s);
    foreign.restricted = TRUE;
    info = info_new(&foreign);
    s.has_cause = TRUE;
    s.cause = query(info, IRestrictedErrorInfo);
    exception = exception_new(&s);
    assert_int_equal(RoOriginateLanguageException(E_FAIL, NULL, exception), TRUE);
    error = take();
    assert_null(previous_of(error));
    release(error);
    release(exception);
    release(s.cause);
    assert_int_equal(foreign.refs, 1);
    release(info);
}

FRESH_TEST(test_transform_links_the_old_error_if_it_matches)
{
    IRestrictedErrorInfo *old_error, *error, *again;
    ILanguageExceptionErrorInfo2 *previous;

    RoOriginateErrorW(E_BOUNDS, 0, OLESTR("old"));
    old_error = take();
    SetRestrictedErrorInfo(old_error);
    RoTransformErrorW(E_BOUNDS, E_FAIL, 0, OLESTR("new"));
    error = take();
    check_details(error, E_FAIL, GENERIC_FAIL, OLESTR("new"));
    previous = previous_of(error);
    again = query(previous, IRestrictedErrorInfo);
    assert_ptr_equal(again, old_error);
    release(again);
    release(previous);
    release(error);
    SetRestrictedErrorInfo(old_error);
    RoTransformErrorW(E_ABORT, E_FAIL, 0, OLESTR("new"));
    error = take();
    assert_null(previous_of(error));
    release(error);
    assert_int_equal(refs_of(old_error), 1);
    release(old_error);
}

static unsigned chain_length(IRestrictedErrorInfo *error)
{
    ILanguageExceptionErrorInfo2 *at = previous_of(error);
    unsigned length = 0;

    while (at) {
        ILanguageExceptionErrorInfo2 *next = previous_of(at);

        release(at);
        at = next;
        length++;
    }
    return length;
}

FRESH_TEST(test_transformation_list_is_bounded)
{
    IRestrictedErrorInfo *error;
    unsigned longest = 0;

    RoOriginateError(E_FAIL, NULL);
    for (int i = 0; i < 400; i++) {
        unsigned length;

        RoTransformError(i % 2 ? E_ABORT : E_FAIL, i % 2 ? E_FAIL : E_ABORT, NULL);
        error = take();
        length = chain_length(error);
        longest = length > longest ? length : longest;
        SetRestrictedErrorInfo(error);
        release(error);
    }
    assert_int_equal(longest, 150);
}

/* ---- Re-entrance -----------------------------------------------------------------------------*/

static void originate_inside(exception_state *state)
{
    RoOriginateErrorW(E_ABORT, 0, OLESTR("from inside"));
}

static void clear_inside(exception_state *state)
{
    RoClearError();
}

static void originate_with_it_inside(exception_state *state)
{
    exception_state inner;
    IUnknown *exception;

    exception_init(&inner);
    inner.in_stack = originate_inside;
    inner.in_release = originate_inside;
    inner.has_stack = TRUE;
    exception = exception_new(&inner);
    RoOriginateLanguageException(E_PENDING, NULL, exception);
    release(exception);
    RoClearError();
}

static void (*const inside[])(exception_state *) = {originate_inside, clear_inside,
                                                    originate_with_it_inside};

FRESH_TEST(test_callbacks_cannot_change_the_result)
{
    for (size_t i = 0; i < COUNT_OF(inside); i++) {
        exception_state s;
        IUnknown *exception;
        HSTRING message = make_hstring(OLESTR("outer"));

        exception_init(&s);
        s.has_stack = s.has_cause = TRUE;
        s.in_stack = s.in_cause = inside[i];
        exception = exception_new(&s);
        RoOriginateErrorW(E_BOUNDS, 0, OLESTR("before"));
        assert_int_equal(RoOriginateLanguageException(E_FAIL, message, exception), TRUE);
        WindowsDeleteString(message);
        check_slot(E_FAIL, GENERIC_FAIL, OLESTR("outer"));
        release(exception);
        check_row(i, s.refs, 0);
    }
}

/* The old error's exception originates while it is released to make place for the new one. */
FRESH_TEST(test_release_of_the_old_error_cannot_change_the_result)
{
    for (size_t i = 0; i < COUNT_OF(inside); i++) {
        exception_state s;
        IUnknown *exception;

        exception_init(&s);
        s.in_release = inside[i];
        exception = exception_new(&s);
        RoOriginateLanguageException(E_ABORT, NULL, exception);
        release(exception);
        RoOriginateErrorW(E_FAIL, 0, OLESTR("newer"));
        check_row(i, s.refs, 0);
        check_slot(E_FAIL, GENERIC_FAIL, OLESTR("newer"));
        exception = exception_new(&s);
        RoOriginateLanguageException(E_ABORT, NULL, exception);
        release(exception);
        RoClearError();
        check_empty();
    }
}

static exception_state chain[5];
static int chain_next;

static void originate_next(exception_state *state)
{
    IUnknown *exception;

    if (chain_next == (int)COUNT_OF(chain))
        return;
    exception_init(&chain[chain_next]);
    chain[chain_next].in_release = originate_next;
    exception = exception_new(&chain[chain_next++]);
    RoOriginateLanguageException(E_ABORT, NULL, exception);
    release(exception);
}

/* Each error that a release leaves has an exception whose release leaves one more. */
FRESH_TEST(test_chain_of_releases_cannot_change_the_result)
{
    for (int clear = 0; clear < 2; clear++) {
        chain_next = 0;
        originate_next(NULL);
        if (clear)
            RoClearError();
        else
            RoOriginateErrorW(E_FAIL, 0, OLESTR("newer"));
        assert_int_equal(chain_next, COUNT_OF(chain));
        for (size_t i = 0; i < COUNT_OF(chain); i++)
            assert_int_equal(chain[i].refs, 0);
        if (clear)
            check_empty();
        else
            check_slot(E_FAIL, GENERIC_FAIL, OLESTR("newer"));
    }
}

GROUP(NULL, fresh)
