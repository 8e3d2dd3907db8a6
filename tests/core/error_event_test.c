/* Debugger events: what is raised when, and with which parameters. */
#include "error_test.h"

#include <errno.h>
#include <string.h>

typedef struct events {
    unsigned count;
    stacksplice_debug_event last;
    char text[600];
    void (*inside)(void);
} events;

static void record(const stacksplice_debug_event *event, void *data)
{
    events *seen = data;
    const WCHAR *text = (const WCHAR *)event->parameters[event->parameter_count - 1];

    seen->count++;
    seen->last = *event;
    (void)stacksplice_utf8(text, (uint32_t)event->parameters[event->parameter_count - 2],
                           seen->text, sizeof seen->text);
    /* It ends in a NUL that the length does not count. */
    assert_int_equal(text[event->parameters[event->parameter_count - 2]], 0);
    if (seen->inside)
        seen->inside();
}

static const struct {
    int transform;
    HRESULT old, hr;
    const WCHAR *message;
    uintptr_t length;
    const char *text;
} event_cases[] = {
    {0, 0, E_FAIL, u"broke", 5, "broke"},
    {0, 0, E_INVALIDARG, NULL, 29, "The parameter is incorrect.\r\n"},
    {1, E_BOUNDS, __HRESULT_FROM_WIN32(ERROR_NOT_FOUND), NULL, 0x14, "Element not found.\r\n"},
    {1, E_BOUNDS, E_FAIL, u"turned", 6, "turned"},
    {1, E_FAIL, S_OK, u"handled", 7, "handled"},
};

FRESH_TEST(test_event_parameters)
{
    RoSetErrorReportingFlags(RO_ERROR_REPORTING_FORCEEXCEPTIONS |
                             RO_ERROR_REPORTING_USESETERRORINFO);
    for (size_t i = 0; i < COUNT_OF(event_cases); i++) {
        events seen = {0};
        uintptr_t *parameter = seen.last.parameters;

        assert_int_equal(stacksplice_set_debug_event_hook(record, &seen), S_OK);
        if (event_cases[i].transform)
            RoTransformErrorW(event_cases[i].old, event_cases[i].hr, 0, event_cases[i].message);
        else
            RoOriginateErrorW(event_cases[i].hr, 0, event_cases[i].message);
        check_row(i, seen.count, 1);
        check_row(i, seen.last.size, sizeof seen.last);
        check_row(i, seen.last.code,
                  event_cases[i].transform ? EXCEPTION_RO_TRANSFORMERROR
                                           : EXCEPTION_RO_ORIGINATEERROR);
        check_row(i, seen.last.parameter_count, event_cases[i].transform ? 4 : 3);
        /* HRESULTs are zero-extended. */
        if (event_cases[i].transform)
            check_row(i, *parameter++, (uintptr_t)(uint32_t)event_cases[i].old);
        check_row(i, *parameter++, (uintptr_t)(uint32_t)event_cases[i].hr);
        check_row(i, *parameter, event_cases[i].length);
        assert_string_equal(seen.text, event_cases[i].text);
    }
}

static const struct {
    uint32_t flags;
    unsigned events;
    int stored;
} flag_cases[] = {
    {0x0, 0, 0}, {0x1, 0, 0}, {0x2, 1, 0}, {0x3, 1, 0}, /* FORCE beats SUPPRESS */
    {0x4, 0, 1}, {0x5, 0, 1}, {0x6, 1, 1}, {0x7, 1, 1}, {0x8, 0, 0},
    {0xA, 1, 0}, {0xC, 0, 0}, {0xE, 1, 0}, {0xF, 1, 0},
};

FRESH_TEST(test_flags_rule_events_and_storing)
{
    for (size_t i = 0; i < COUNT_OF(flag_cases); i++) {
        IRestrictedErrorInfo *error = NULL;
        events seen = {0};

        RoClearError();
        stacksplice_set_debug_event_hook(record, &seen);
        RoSetErrorReportingFlags(flag_cases[i].flags);
        RoOriginateError(E_FAIL, NULL);
        check_row(i, seen.count, flag_cases[i].events);
        check_row(i, stacksplice_peek_error(&error) == S_OK, flag_cases[i].stored);
        if (error)
            release(error);
    }
}

FRESH_TEST(test_no_event_where_nothing_happens)
{
    events seen = {0};

    stacksplice_set_debug_event_hook(record, &seen);
    RoSetErrorReportingFlags(RO_ERROR_REPORTING_FORCEEXCEPTIONS);
    RoOriginateError(S_OK, NULL);
    RoTransformError(E_FAIL, E_FAIL, NULL);
    RoTransformError(S_OK, S_FALSE, NULL);
    stacksplice_originate(S_OK, "m", 1, NULL, NULL);
    assert_int_equal(seen.count, 0);
}

static void originate_inside(void)
{
    RoOriginateErrorW(E_ABORT, 0, u"from the hook");
    errno = 77;
}

FRESH_TEST(test_hook_may_originate_and_does_not_change_the_result)
{
    events seen = {.inside = originate_inside};
    IRestrictedErrorInfo *error;
    char text[100];

    stacksplice_set_debug_event_hook(record, &seen);
    RoSetErrorReportingFlags(RO_ERROR_REPORTING_FORCEEXCEPTIONS |
                             RO_ERROR_REPORTING_USESETERRORINFO);
    errno = 5;
    RoOriginateErrorW(E_FAIL, 0, u"mine");
    assert_int_equal(errno, 5);
    assert_int_equal(seen.count, 1);
    error = take();
    message_of(error, text, sizeof text);
    assert_string_equal(text, "mine");
    release(error);
}

static void clear_inside(void)
{
    IRestrictedErrorInfo *error;

    assert_int_equal(GetRestrictedErrorInfo(&error), S_OK); /* it sees what was there */
    release(error);
    RoOriginateErrorW(E_ABORT, 0, u"from the hook");
}

FRESH_TEST(test_hook_does_not_change_the_slot)
{
    events seen = {.inside = clear_inside};
    IRestrictedErrorInfo *error;
    ILanguageExceptionErrorInfo2 *newer, *older = NULL;

    RoOriginateErrorW(E_BOUNDS, 0, u"first");
    stacksplice_set_debug_event_hook(record, &seen);
    RoSetErrorReportingFlags(RO_ERROR_REPORTING_FORCEEXCEPTIONS |
                             RO_ERROR_REPORTING_USESETERRORINFO);
    RoTransformErrorW(E_BOUNDS, E_FAIL, 0, u"second");
    assert_int_equal(seen.count, 1);
    error = take();
    newer = query(error, &IID_ILanguageExceptionErrorInfo2);
    assert_int_equal(newer->lpVtbl->GetPreviousLanguageExceptionErrorInfo(newer, &older), S_OK);
    assert_non_null(older);
    release(older);
    release(newer);
    /* Also where nothing is stored. */
    SetRestrictedErrorInfo(error);
    RoSetErrorReportingFlags(RO_ERROR_REPORTING_FORCEEXCEPTIONS);
    RoOriginateErrorW(E_BOUNDS, 0, u"not stored");
    assert_ptr_equal(take(), error);
    release(error);
    release(error);
}

GROUP(NULL, fresh)
