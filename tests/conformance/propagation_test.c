/* The propagation chain; RoGetMatchingRestrictedErrorInfo and RoCaptureErrorContext. */
#include "conformance.h"

#include <pthread.h>

enum { MOST_NODES = 200 };

/* The nodes of ERROR, newest first, each with a reference; their number. */
static unsigned nodes_of(void *error, ILanguageExceptionErrorInfo2 *nodes[MOST_NODES])
{
    ILanguageExceptionErrorInfo2 *info = query(error, ILanguageExceptionErrorInfo2);
    ILanguageExceptionErrorInfo2 *node = NULL;
    unsigned count = 0;

    assert_int_equal(CALL(info, GetPropagationContextHead, NULL), E_POINTER);
    assert_int_equal(CALL(info, GetPropagationContextHead, &node), S_OK);
    while (node) {
        assert_true(count < MOST_NODES);
        nodes[count++] = node;
        assert_int_equal(CALL(node, GetPreviousLanguageExceptionErrorInfo, &node), S_OK);
    }
    release(info);
    return count;
}

static void release_all(ILanguageExceptionErrorInfo2 *nodes[], unsigned count)
{
    while (count > 0)
        release(nodes[--count]);
}

static unsigned count_nodes(void *error)
{
    ILanguageExceptionErrorInfo2 *nodes[MOST_NODES];
    unsigned count = nodes_of(error, nodes);

    release_all(nodes, count);
    return count;
}

static HRESULT capture(void *error, IUnknown *exception)
{
    ILanguageExceptionErrorInfo2 *info = query(error, ILanguageExceptionErrorInfo2);
    HRESULT hr = CALL(info, CapturePropagationContext, exception);

    release(info);
    return hr;
}

FRESH_TEST(test_nodes_are_captures_newest_first)
{
    exception_state s[3];
    IUnknown *exceptions[3], *got;
    ILanguageExceptionErrorInfo2 *nodes[MOST_NODES];
    IRestrictedErrorInfo *error, *restricted;
    unsigned count;

    RoOriginateErrorW(E_FAIL, 0, OLESTR("message"));
    error = take();
    assert_int_equal(count_nodes(error), 0);
    for (unsigned i = 0; i < 3; i++) {
        exception_init(&s[i]);
        exceptions[i] = i == 1 ? NULL : exception_new(&s[i]); /* NULL stays NULL */
        assert_int_equal(capture(error, exceptions[i]), S_OK);
    }
    count = nodes_of(error, nodes);
    assert_int_equal(count, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(CALL(nodes[i], GetLanguageException, &got), S_OK);
        assert_ptr_equal(got, exceptions[2 - i]);
        release(got);
        restricted = query(nodes[i], IRestrictedErrorInfo);
        check_details(restricted, E_FAIL, GENERIC_FAIL, OLESTR("message"));
        release(restricted);
    }
    release_all(nodes, count);
    release(error);
    for (unsigned i = 0; i < 3; i++) {
        if (exceptions[i])
            assert_int_equal(s[i].refs, 1);
        release(exceptions[i]);
    }
}

FRESH_TEST(test_node_is_an_object_of_its_own_that_keeps_its_error)
{
    ILanguageExceptionErrorInfo2 *nodes[MOST_NODES], *head = NULL;
    IUnknown *origin, *of_node, *again;
    IRestrictedErrorInfo *error, *restricted;

    RoOriginateErrorW(E_FAIL, 0, OLESTR("message"));
    error = take();
    origin = query(error, IUnknown);
    capture(error, NULL);
    assert_int_equal(nodes_of(error, nodes), 1);
    of_node = query(nodes[0], IUnknown);
    assert_ptr_not_equal(of_node, origin);
    restricted = query(nodes[0], IRestrictedErrorInfo);
    again = query(restricted, IUnknown);
    assert_ptr_equal(of_node, again);
    assert_true(answers(nodes[0], IID_REF(IID_IAgileObject)));
    assert_true(answers(nodes[0], IID_REF(IID_ILanguageExceptionErrorInfo)));
    release(again);
    release(of_node);
    release(origin);
    release(error);
    check_details(restricted, E_FAIL, GENERIC_FAIL, OLESTR("message"));
    release(restricted);
    /* A capture on a node goes to its error. */
    assert_int_equal(capture(nodes[0], NULL), S_OK);
    assert_int_equal(CALL(nodes[0], GetPropagationContextHead, &head), S_OK);
    assert_ptr_not_equal(head, nodes[0]);
    release(head);
    assert_int_equal(count_nodes(nodes[0]), 2);
    release(nodes[0]);
}

FRESH_TEST(test_nodes_are_bounded)
{
    IRestrictedErrorInfo *error = originated(E_FAIL);
    exception_state s;
    IUnknown *exception;

    exception_init(&s);
    exception = exception_new(&s);
    for (int i = 0; i < 170; i++)
        assert_int_equal(capture(error, exception), S_OK);
    assert_int_equal(count_nodes(error), 150);
    assert_int_equal(s.refs, 151);
    release(error);
    assert_int_equal(s.refs, 1);
    release(exception);
}

FRESH_TEST(test_capture_does_nothing_when_suppressed)
{
    IRestrictedErrorInfo *error = originated(E_FAIL);

    RoSetErrorReportingFlags(RO_ERROR_REPORTING_SUPPRESSSETERRORINFO);
    assert_int_equal(capture(error, NULL), S_OK);
    assert_int_equal(count_nodes(error), 0);
    RoSetErrorReportingFlags(RO_ERROR_REPORTING_NONE);
    assert_int_equal(capture(error, NULL), S_OK);
    assert_int_equal(count_nodes(error), 1);
    release(error);
}

static void *capture_often(void *error)
{
    ILanguageExceptionErrorInfo2 *info = NULL;

    CALL((IUnknown *)error, QueryInterface, IID_REF(IID_ILanguageExceptionErrorInfo2),
         (void **)&info);
    for (int i = 0; i < 20; i++) {
        ILanguageExceptionErrorInfo2 *head = NULL;

        CALL(info, CapturePropagationContext, NULL);
        CALL(info, GetPropagationContextHead, &head);
        CALL0(head, Release);
    }
    CALL0(info, Release);
    return NULL;
}

FRESH_TEST(test_threads_may_capture_at_once)
{
    IRestrictedErrorInfo *error = originated(E_FAIL);
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, capture_often, error), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(count_nodes(error), 80);
    assert_int_equal(refs_of(error), 1);
    release(error);
}

/* ---- RoGetMatchingRestrictedErrorInfo --------------------------------------------------------*/

FRESH_TEST(test_matching_error_is_handed_over)
{
    IRestrictedErrorInfo *error, *got = NULL;

    RoOriginateErrorW(E_FAIL, 0, OLESTR("mine"));
    error = take();
    SetRestrictedErrorInfo(error);
    assert_int_equal(RoGetMatchingRestrictedErrorInfo(E_FAIL, &got), S_OK);
    assert_ptr_equal(got, error);
    check_empty();
    release(got);
    /* Also while origination is suppressed. */
    SetRestrictedErrorInfo(error);
    RoSetErrorReportingFlags(RO_ERROR_REPORTING_SUPPRESSSETERRORINFO);
    assert_int_equal(RoGetMatchingRestrictedErrorInfo(E_FAIL, &got), S_OK);
    assert_ptr_equal(got, error);
    release(got);
    release(error);
}

FRESH_TEST(test_stale_error_is_replaced_by_a_generic_one)
{
    IRestrictedErrorInfo *got = NULL;
    info_state foreign;
    IErrorInfo *info;

    for (int i = 0; i < 3; i++) {
        foreign.restricted = i == 2;
        info = info_new(&foreign);
        if (i == 0)
            RoOriginateErrorW(E_FAIL, 0, OLESTR("stale"));
        else
            SetErrorInfo(0, info);
        assert_int_equal(RoGetMatchingRestrictedErrorInfo(E_INVALIDARG, &got), S_OK);
        check_details(got, E_INVALIDARG, GENERIC_INVALIDARG, GENERIC_INVALIDARG);
        check_empty();
        release(got);
        assert_int_equal(foreign.refs, 1);
        release(info);
    }
}

FRESH_TEST(test_matching_error_by_equal_code_may_be_stale)
{
    IRestrictedErrorInfo *got = NULL;

    RoOriginateErrorW(E_FAIL, 0, OLESTR("of an earlier call"));
    assert_int_equal(RoGetMatchingRestrictedErrorInfo(E_FAIL, &got), S_OK);
    check_details(got, E_FAIL, GENERIC_FAIL, OLESTR("of an earlier call"));
    release(got);
}

FRESH_TEST(test_matching_refuses)
{
    int marker;
    IRestrictedErrorInfo *got = (IRestrictedErrorInfo *)(void *)&marker;

    RoOriginateErrorW(E_FAIL, 0, OLESTR("kept"));
    assert_int_equal(RoGetMatchingRestrictedErrorInfo(E_FAIL, NULL), E_POINTER);
    assert_int_equal(RoGetMatchingRestrictedErrorInfo(S_OK, &got), E_UNEXPECTED);
    assert_null(got);
    check_slot(E_FAIL, GENERIC_FAIL, OLESTR("kept"));
    RoOriginateErrorW(E_ABORT, 0, OLESTR("stale"));
    RoSetErrorReportingFlags(RO_ERROR_REPORTING_SUPPRESSSETERRORINFO);
    got = (IRestrictedErrorInfo *)(void *)&marker;
    assert_int_equal(RoGetMatchingRestrictedErrorInfo(E_FAIL, &got), E_UNEXPECTED);
    assert_null(got);
    check_empty();
}

/* ---- RoCaptureErrorContext -------------------------------------------------------------------*/

FRESH_TEST(test_capture_context_adds_a_node_or_originates)
{
    IRestrictedErrorInfo *error;

    assert_int_equal(RoCaptureErrorContext(S_OK), S_OK);
    check_empty();
    assert_int_equal(RoCaptureErrorContext(E_INVALIDARG), S_OK);
    error = take();
    check_details(error, E_INVALIDARG, GENERIC_INVALIDARG, GENERIC_INVALIDARG);
    assert_int_equal(count_nodes(error), 0);
    SetRestrictedErrorInfo(error);
    assert_int_equal(RoCaptureErrorContext(S_FALSE), S_OK);
    assert_int_equal(count_nodes(error), 0);
    assert_int_equal(RoCaptureErrorContext(E_INVALIDARG), S_OK);
    assert_int_equal(count_nodes(error), 1);
    assert_int_equal(RoCaptureErrorContext(E_FAIL), S_OK);
    assert_int_equal(refs_of(error), 1);
    release(error);
    check_slot(E_FAIL, GENERIC_FAIL, GENERIC_FAIL);
}

GROUP(NULL, fresh)
