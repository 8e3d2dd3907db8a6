/* Debugger events: what is raised when, with which parameters, and what a tracer sees. */
#include "error_test.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void test_event_parameters(void **state)
{
    (void)state;
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
        check_row(i, seen.last.code, event_cases[i].transform ? 0x40080202 : 0x40080201);
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
    unsigned events; /* without a tracer */
    int stored;
} flag_cases[] = {
    {0x0, 0, 0}, {0x1, 0, 0}, {0x2, 1, 0}, {0x3, 1, 0}, /* FORCE beats SUPPRESS */
    {0x4, 0, 1}, {0x5, 0, 1}, {0x6, 1, 1}, {0x7, 1, 1}, {0x8, 0, 0},
    {0xA, 1, 0}, {0xC, 0, 0}, {0xE, 1, 0}, {0xF, 1, 0},
};

/* In a child, which is sure to have no tracer whoever traces this process. */
static void test_flags_rule_events_and_storing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(flag_cases); i++) {
        int status = 0;
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            IRestrictedErrorInfo *error;
            events seen = {0};

            stacksplice_set_debug_event_hook(record, &seen);
            RoSetErrorReportingFlags(flag_cases[i].flags);
            RoOriginateError(E_FAIL, NULL);
            _exit(seen.count == flag_cases[i].events &&
                          (stacksplice_peek_error(&error) == S_OK) == flag_cases[i].stored
                      ? 0
                      : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        check_row(i, status, 0);
    }
}

static void test_no_event_where_nothing_happens(void **state)
{
    events seen = {0};

    (void)state;
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

static void test_hook_may_originate_and_does_not_change_the_result(void **state)
{
    events seen = {.inside = originate_inside};
    IRestrictedErrorInfo *error;
    char text[100];

    (void)state;
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

static void test_hook_does_not_change_the_slot(void **state)
{
    events seen = {.inside = clear_inside};
    IRestrictedErrorInfo *error;
    ILanguageExceptionErrorInfo2 *newer, *older = NULL;

    (void)state;
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

/* ---- A tracer --------------------------------------------------------------------------------*/

/* What the traced child does; 0 is success. */
static int originate_while_traced(uint32_t flags)
{
    events seen = {0};
    struct sigaction action;

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        return 2;
    raise(SIGSTOP); /* the tracer is here now */
    stacksplice_set_debug_event_hook(record, &seen);
    RoSetErrorReportingFlags(flags);
    RoOriginateError(E_FAIL, NULL);
    if (sigaction(SIGTRAP, NULL, &action) || action.sa_handler != SIG_DFL)
        return 3;
    return seen.count == (flags & RO_ERROR_REPORTING_SUPPRESSEXCEPTIONS ? 0u : 1u) ? 0 : 1;
}

/* The tracer hands every signal on, which by itself would end the child. */
static unsigned count_traps(pid_t child, int *status)
{
    unsigned traps = 0;

    while (waitpid(child, status, 0) == child && WIFSTOPPED(*status)) {
        int signal = WSTOPSIG(*status);

        traps += signal == SIGTRAP;
        if (ptrace(PTRACE_CONT, child, NULL, (void *)(uintptr_t)(signal == SIGSTOP ? 0 : signal)))
            return 99;
    }
    return traps;
}

static void test_tracer_sees_a_trap_and_the_process_lives(void **state)
{
    static const struct {
        uint32_t flags;
        unsigned traps;
    } cases[] = {{0x4, 1}, {0x0, 1}, {0x5, 0}, {0x6, 1}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int status = 0;
        unsigned traps;
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0)
            _exit(originate_while_traced(cases[i].flags));
        traps = count_traps(child, &status);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 2)
            skip(); /* tracing is not allowed here */
        check_row(i, WEXITSTATUS(status), 0);
        check_row(i, traps, cases[i].traps);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_event_parameters, fresh),
        cmocka_unit_test_setup(test_flags_rule_events_and_storing, fresh),
        cmocka_unit_test_setup(test_no_event_where_nothing_happens, fresh),
        cmocka_unit_test_setup(test_hook_may_originate_and_does_not_change_the_result, fresh),
        cmocka_unit_test_setup(test_hook_does_not_change_the_slot, fresh),
        cmocka_unit_test_setup(test_tracer_sees_a_trap_and_the_process_lives, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, fresh);
}
