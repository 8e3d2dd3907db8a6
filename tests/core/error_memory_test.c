/*
 * Without memory: allocation 1, 2, 3, ... of each function fails, until it succeeds.  Each time the
 * result is the documented one, nothing is leaked, and the slot is sane.
 */
#include "error_test.h"
#include "check.h"
#include "failing_allocator.h"
#include "threads.h"

/* ---- What each function does that takes memory ------------------------------------------------*/

/* What a case may use: nobody holds these before it and after it. */
static IRestrictedErrorInfo *other; /* of E_BOUNDS */
static error_double exception;      /* has a stack */
static HSTRING text;
static long fail_at; /* which allocation of a case fails; 0: none */

/* STATEMENT, in which an allocation may fail. */
#define STARVED(statement)   \
    do {                     \
        memory_arm(fail_at); \
        statement;           \
        memory_disarm();     \
    } while (0)

/* The slot must hold an error for HR if OK, else nothing. */
static HRESULT slot_result(int ok, HRESULT hr)
{
    IRestrictedErrorInfo *error = NULL;
    HRESULT got = S_OK;

    CHECK(GetRestrictedErrorInfo(&error) == (ok ? S_OK : S_FALSE));
    CHECK(!ok == !error);
    if (!ok)
        return E_OUTOFMEMORY;
    CHECK(stacksplice_error_hresult(UNKNOWN(error), &got) == S_OK && got == hr);
    release(error);
    return S_OK;
}

/* What a function gives if it succeeds, and only then. */
static HRESULT given(HRESULT hr, void *object)
{
    CHECK(!object == FAILED(hr));
    return hr;
}

/* An origination of E_OUTOFMEMORY itself cannot fail. */
static HRESULT originate(int hr)
{
    int ok;

    STARVED(ok = RoOriginateErrorW(hr, 0, u"new"));
    CHECK(ok || hr != E_OUTOFMEMORY);
    return slot_result(ok, hr);
}

static HRESULT originate_string(int hr)
{
    int ok;

    STARVED(ok = RoOriginateError(hr, text));
    return slot_result(ok, hr);
}

static HRESULT originate_with_many_frames(int frames)
{
    HRESULT hr;

    stacksplice_set_max_frames((uint32_t)frames);
    hr = originate(E_FAIL);
    stacksplice_set_max_frames(512);
    return hr;
}

/* Of a script, or of others with so many frames. */
static HRESULT originate_exception(int frames)
{
    int ok;

    exception.is_script = !frames;
    if (frames)
        exception.frame_count = (uint32_t)frames;
    exception.cause = other;
    STARVED(ok = RoOriginateLanguageException(E_FAIL, NULL, error_double_unknown(&exception)));
    return slot_result(ok, E_FAIL);
}

static HRESULT originate_group(int unused)
{
    int ok;

    exception.members = &other;
    exception.member_count = 1;
    STARVED(ok = RoOriginateLanguageException(E_FAIL, NULL, error_double_unknown(&exception)));
    return slot_result(ok, E_FAIL);
}

static HRESULT originate_utf8(int unused)
{
    IRestrictedErrorInfo *error = NULL;
    HRESULT hr;

    STARVED(hr =
                stacksplice_originate(E_FAIL, "text", 4, error_double_unknown(&exception), &error));
    (void)given(hr, error);
    release(error);
    CHECK(slot_result(hr == S_OK, E_FAIL) == hr);
    return hr;
}

static HRESULT transform(int wide)
{
    int ok;

    STARVED(ok = wide ? RoTransformErrorW(E_ABORT, E_FAIL, 0, u"new")
                      : RoTransformError(E_ABORT, E_FAIL, NULL));
    return slot_result(ok, E_FAIL);
}

static HRESULT match(int wanted)
{
    IRestrictedErrorInfo *error = NULL;
    HRESULT hr;

    STARVED(hr = RoGetMatchingRestrictedErrorInfo(wanted, &error));
    CHECK(hr == S_OK || wanted != E_OUTOFMEMORY);
    (void)given(hr, error);
    release(error);
    (void)slot_result(0, 0);
    return hr;
}

/* A node that cannot be added leaves its error. */
static HRESULT capture_context(int hr)
{
    HRESULT captured;

    STARVED(captured = RoCaptureErrorContext(hr));
    (void)slot_result(hr == E_ABORT || captured == S_OK, hr);
    return captured;
}

static HRESULT propagate(int unused)
{
    IRestrictedErrorInfo *error;
    ILanguageExceptionErrorInfo2 *node;
    HRESULT hr;

    STARVED(hr = stacksplice_propagate(E_ABORT, error_double_unknown(&exception)));
    error = take();
    node = head_of(error);
    (void)given(hr, node);
    release(node);
    release(error);
    return hr;
}

static HRESULT capture_node(int unused)
{
    ILanguageExceptionErrorInfo2 *info = query(other, &IID_ILanguageExceptionErrorInfo2);
    HRESULT hr;

    STARVED(hr = info->lpVtbl->CapturePropagationContext(info, NULL));
    release(info);
    return hr;
}

static HRESULT read_details(int unused)
{
    BSTR description = NULL, message = NULL, sid = NULL;
    HRESULT got = S_FALSE, hr;

    STARVED(hr = other->lpVtbl->GetErrorDetails(other, &description, &got, &message, &sid));
    (void)given(hr, description);
    CHECK(got == (FAILED(hr) ? S_FALSE : E_BOUNDS) && !sid);
    SysFreeString(description);
    (void)given(hr, message);
    SysFreeString(message);
    return hr;
}

static HRESULT read_reference(int unused)
{
    BSTR reference = NULL;
    HRESULT hr;

    STARVED(hr = other->lpVtbl->GetReference(other, &reference));
    (void)given(hr, reference);
    SysFreeString(reference);
    return hr;
}

static HRESULT read_description(int unused)
{
    IErrorInfo *info = query(other, &IID_IErrorInfo);
    BSTR description = NULL;
    HRESULT hr;

    STARVED(hr = info->lpVtbl->GetDescription(info, &description));
    (void)given(hr, description);
    SysFreeString(description);
    release(info);
    return hr;
}

static int count_note(const char *note, size_t length, void *data)
{
    CHECK(length == 4 && memcmp(note, "note", 4) == 0);
    ++*(int *)data;
    return 0;
}

static HRESULT add_note(int unused)
{
    int notes = 0;
    HRESULT hr;

    STARVED(hr = stacksplice_add_note(UNKNOWN(other), "note", 4));
    CHECK(stacksplice_error_notes(UNKNOWN(other), count_note, &notes) == S_OK);
    CHECK(notes == (hr == S_OK));
    return hr;
}

static HRESULT allocate_string(int how)
{
    BSTR string;

    STARVED(string = how == 0   ? SysAllocString(u"x")
                     : how == 1 ? SysAllocStringLen(u"x", 1)
                                : SysAllocStringByteLen("x", 1));
    SysFreeString(string);
    return string ? S_OK : E_OUTOFMEMORY;
}

static HRESULT create_string(int duplicates)
{
    HSTRING string = NULL, reference = NULL;
    HSTRING_HEADER header;
    HRESULT hr;

    WindowsCreateStringReference(u"x", 1, &header, &reference);
    STARVED(hr = duplicates ? WindowsDuplicateString(reference, &string)
                            : WindowsCreateString(u"x", 1, &string));
    (void)given(hr, string);
    WindowsDeleteString(string);
    return hr;
}

static HRESULT capture(int native)
{
    uintptr_t frames[64];
    uint32_t captured = 0;
    HRESULT hr = S_OK;

    STARVED(if (native)(void) RtlCaptureStackBackTrace(0, 64, (PVOID *)frames, NULL);
            else hr = stacksplice_capture(0, 64, frames, &captured, NULL));
    return hr == S_FALSE ? S_OK : hr;
}

static HRESULT add_stack(int unused)
{
    static char stack[4096];
    HRESULT hr;

    STARVED(hr = stacksplice_add_stack(stack, stack + sizeof stack));
    CHECK(FAILED(hr) || stacksplice_remove_stack(stack) == S_OK);
    return hr;
}

static const struct {
    const char *name;
    HRESULT (*run)(int argument);
    int argument;
} memory_cases[] = {
    {"RoOriginateErrorW", originate, E_FAIL},
    {"RoOriginateError", originate_string, E_ABORT},
    {"RoOriginateErrorW(E_OUTOFMEMORY)", originate, E_OUTOFMEMORY},
    {"RoOriginateLanguageException(script)", originate_exception, 0},
    {"RoOriginateLanguageException(foreign, 600 frames)", originate_exception, 600},
    {"RoOriginateLanguageException(foreign)", originate_exception, 3},
    {"RoOriginateErrorW(5000 frames)", originate_with_many_frames, 5000},
    {"stacksplice_originate", originate_utf8, 0},
    {"RoTransformErrorW", transform, 1},
    {"RoTransformError", transform, 0},
    {"RoGetMatchingRestrictedErrorInfo", match, E_FAIL},
    {"RoGetMatchingRestrictedErrorInfo(E_OUTOFMEMORY)", match, E_OUTOFMEMORY},
    {"RoCaptureErrorContext(same)", capture_context, E_ABORT},
    {"RoCaptureErrorContext(other)", capture_context, E_FAIL},
    {"stacksplice_propagate", propagate, 0},
    {"CapturePropagationContext", capture_node, 0},
    {"GetErrorDetails", read_details, 0},
    {"GetReference", read_reference, 0},
    {"GetDescription", read_description, 0},
    {"stacksplice_add_note", add_note, 0},
    {"RoOriginateLanguageException, group", originate_group, 0},
    {"SysAllocString", allocate_string, 0},
    {"SysAllocStringLen", allocate_string, 1},
    {"SysAllocStringByteLen", allocate_string, 2},
    {"WindowsCreateString", create_string, 0},
    {"WindowsDuplicateString", create_string, 1},
    {"stacksplice_capture", capture, 0},
    {"RtlCaptureStackBackTrace", capture, 1},
    {"stacksplice_add_stack", add_stack, 0},
};

/* ---- The loops -------------------------------------------------------------------------------*/

/* The slot has an error, which most cases replace. */
static void *run_case(void *data)
{
    static const uintptr_t frames[600];
    size_t i = *(size_t *)data;
    HRESULT hr;

    other = originated(E_BOUNDS);
    error_double_init(&exception, 1);
    exception.has_stack = 1;
    exception.frames = frames;
    exception.frame_count = 3;
    RoOriginateErrorW(E_ABORT, 0, u"old");
    hr = memory_cases[i].run(memory_cases[i].argument);
    RoClearError();
    CHECK(hr == S_OK || (hr == E_OUTOFMEMORY && atomic_load(&memory_failed)));
    CHECK(exception.outside == 1 && exception.inside == 0);
    CHECK(other->lpVtbl->Release(other) == 0);
    return NULL;
}

/* In a process that has made nothing yet; what failed works afterwards.  Then with the memory that
   the process keeps, in a thread whose first capture it is: nothing more is kept. */
static int run_in_child(size_t i)
{
    long nth = fail_at, before;
    int failed;

    (void)run_case(&i);
    failed = atomic_load(&memory_failed);
    fail_at = 0;
    (void)thread_run(run_case, &i);
    fail_at = nth;
    before = atomic_load(&memory_live);
    (void)thread_run(run_case, &i);
    CHECK(atomic_load(&memory_live) == before);
    return failed || atomic_load(&memory_failed) ? CHILD_SKIPS : 0;
}

static void fail_each(int all_after)
{
    atomic_store(&memory_all_after, all_after);
    for (size_t i = 0; i < COUNT_OF(memory_cases); i++) {
        int status = -1;

        for (fail_at = 1; status && fail_at < 1000; fail_at++) {
            pid_t child = fork();

            if (child == 0)
                _exit(run_in_child(i));
            status = child_status(child);
            if (status && !(WIFEXITED(status) && WEXITSTATUS(status) == CHILD_SKIPS))
                fail_msg("%s, allocation %ld", memory_cases[i].name, fail_at);
        }
        assert_int_equal(status, 0);
    }
    fail_at = 0;
    atomic_store(&memory_all_after, 0);
}

TEST(test_each_allocation_fails_once)
{
    fail_each(0);
}

TEST(test_each_allocation_and_all_after_it_fail)
{
    fail_each(1);
}

/* ---- The static object -----------------------------------------------------------------------*/

FRESH_TEST(test_static_object_is_an_error_like_others)
{
    IRestrictedErrorInfo *error, *found = NULL;
    BSTR reference = NULL;
    char message[200];
    uint32_t count = 99;

    atomic_store(&memory_all_after, 1);
    memory_arm(1);
    assert_int_equal(RoOriginateErrorW(E_OUTOFMEMORY, 0, u"not kept"), TRUE);
    memory_disarm();
    atomic_store(&memory_all_after, 0);
    error = take();
    message_of(error, message, sizeof message);
    assert_string_equal(
        message, "Not enough memory resources are available to complete this operation.\r\n");
    assert_int_equal(stacksplice_error_stack(UNKNOWN(error), 0, NULL, &count), S_OK);
    assert_int_equal(count, 0);
    assert_int_equal(error->lpVtbl->GetReference(error, &reference), S_OK);
    assert_int_equal(RoResolveRestrictedErrorInfoReference(reference, &found), S_OK);
    assert_ptr_equal(found, error);
    SysFreeString(reference);
    for (int i = 0; i < 5; i++)
        release(error); /* it cannot be released */
    assert_int_equal(SetRestrictedErrorInfo(error), S_OK);
    assert_int_equal(stacksplice_propagate(E_OUTOFMEMORY, NULL), S_OK);
    assert_null(head_of(error)); /* and is never changed */
    RoClearError();
}

/* ---- An allocator that uses the library ------------------------------------------------------*/

static void empty_the_slot(void)
{
    RoClearError();
}

FRESH_TEST(test_allocator_that_empties_the_slot)
{
    IRestrictedErrorInfo *error, *previous;
    ILanguageExceptionErrorInfo2 *second, *first = NULL;
    char message[50];

    assert_int_equal(stacksplice_set_max_frames(2000), S_OK); /* more memory, at the beginning */
    RoOriginateErrorW(E_FAIL, 0, u"first");
    atomic_store(&memory_before_next, empty_the_slot);
    assert_int_equal(RoTransformErrorW(E_FAIL, E_ABORT, 0, u"second"), TRUE);
    assert_null(atomic_load(&memory_before_next));
    error = take();
    second = query(error, &IID_ILanguageExceptionErrorInfo2);
    assert_int_equal(second->lpVtbl->GetPreviousLanguageExceptionErrorInfo(second, &first), S_OK);
    assert_non_null(first);
    previous = query(first, &IID_IRestrictedErrorInfo);
    message_of(previous, message, sizeof message);
    assert_string_equal(message, "first");
    release(previous);
    release(first);
    release(second);
    release(error);
    assert_int_equal(stacksplice_set_max_frames(512), S_OK);
}

/* ---- Functions that promise not to allocate --------------------------------------------------*/

FRESH_TEST(test_functions_that_do_not_allocate)
{
    stacksplice_saved_error saved;
    IRestrictedErrorInfo *error, *again;
    HSTRING copy = NULL;
    BSTR reference = NULL;
    uint32_t count, flags;
    uint64_t thread;
    char utf8[50];

    error = originated(E_FAIL);
    assert_int_equal(error->lpVtbl->GetReference(error, &reference), S_OK);
    RoCaptureErrorContext(E_ABORT);
    memory_arm(0);
    assert_int_equal(SetRestrictedErrorInfo(error), S_OK);
    assert_int_equal(stacksplice_peek_error(&again), S_OK);
    release(again);
    assert_int_equal(stacksplice_save_error(&saved), S_OK);
    stacksplice_restore_error(&saved);
    assert_int_equal(RoGetMatchingRestrictedErrorInfo(E_FAIL, &again), S_OK);
    release(again);
    assert_int_equal(RoResolveRestrictedErrorInfoReference(reference, &again), S_OK);
    release(again);
    assert_true(SUCCEEDED(stacksplice_error_stack(UNKNOWN(error), 0, NULL, &count)));
    assert_int_equal(stacksplice_error_thread(UNKNOWN(error), &thread), S_OK);
    assert_int_equal(RoGetErrorReportingFlags(&flags), S_OK);
    assert_int_equal(WindowsDuplicateString(text, &copy), S_OK);
    WindowsDeleteString(copy);
    assert_int_equal(stacksplice_utf8(u"x", 1, utf8, sizeof utf8), 1);
    assert_non_null(stacksplice_version());
    assert_non_null(stacksplice_thread_anchor());
    assert_int_equal(SetErrorInfo(0, NULL), S_OK);
    RoClearError();
    assert_int_equal(atomic_load(&memory_attempted), 0);
    memory_disarm();
    SysFreeString(reference);
    release(error);
}

static int use_counting_allocator(void **state)
{
    return memory_use() || WindowsCreateString(u"text", 4, &text) != S_OK;
}

GROUP(use_counting_allocator, fresh)
