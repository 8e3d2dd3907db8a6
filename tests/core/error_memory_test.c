/*
 * Without memory: allocation 1, 2, 3, ... of each function fails, until it succeeds.  Each time the
 * result is the documented one, nothing is leaked, and the slot is sane.
 */
#include "error_test.h"
#include "failing_allocator.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static long fail_at; /* which allocation the next arm() lets fail; 0: none */

static void arm(void)
{
    memory_arm(fail_at);
}

/* STATEMENT, in which an allocation may fail. */
#define STARVED(statement) \
    do {                   \
        arm();             \
        statement;         \
        memory_disarm();   \
    } while (0)

/* ---- What each function does that takes memory ------------------------------------------------*/

/* A case sets up, arms, calls once, disarms, checks, and cleans up: S_OK or E_OUTOFMEMORY. */
static const uintptr_t some_frames[] = {1, 2, 3};

/* The slot must hold an error for HR if OK, else nothing. */
static HRESULT slot_result(int ok, HRESULT hr)
{
    IRestrictedErrorInfo *error = NULL;
    BSTR description = NULL, message = NULL, sid = NULL;
    HRESULT got = S_OK;

    assert_int_equal(GetRestrictedErrorInfo(&error), ok ? S_OK : S_FALSE);
    if (!ok) {
        assert_null(error);
        return E_OUTOFMEMORY;
    }
    assert_int_equal(error->lpVtbl->GetErrorDetails(error, &description, &got, &message, &sid),
                     S_OK);
    assert_int_equal(got, hr);
    SysFreeString(description);
    SysFreeString(message);
    release(error);
    return S_OK;
}

/* An origination of E_OUTOFMEMORY itself cannot fail. */
static HRESULT originate(int hr)
{
    HSTRING text = NULL;
    int ok;

    assert_int_equal(WindowsCreateString(u"text", 4, &text), S_OK);
    RoOriginateErrorW(E_ABORT, 0, u"old");
    if (hr == E_ABORT)
        STARVED(ok = RoOriginateError(hr, text));
    else
        STARVED(ok = RoOriginateErrorW(hr, 0, u"new"));
    assert_true(ok || hr != E_OUTOFMEMORY);
    WindowsDeleteString(text);
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

static HRESULT originate_exception(int is_script)
{
    IRestrictedErrorInfo *cause = originated(E_BOUNDS);
    error_double x;
    HRESULT hr;
    int ok;

    error_double_init(&x, is_script);
    x.has_stack = 1;
    x.frames = some_frames;
    x.frame_count = COUNT_OF(some_frames);
    x.cause = cause;
    STARVED(ok = RoOriginateLanguageException(E_FAIL, NULL, error_double_unknown(&x)));
    hr = slot_result(ok, E_FAIL);
    assert_int_equal(x.outside, 1);
    assert_int_equal(x.inside, 0);
    assert_int_equal(cause->lpVtbl->Release(cause), 0);
    return hr;
}

static int count_note(const char *text, size_t length, void *data)
{
    assert_int_equal(length, 4);
    assert_memory_equal(text, "note", 4);
    ++*(int *)data;
    return 0;
}

/* A note is there, or it is not. */
static HRESULT add_note(int unused)
{
    IRestrictedErrorInfo *error;
    int notes = 0;
    HRESULT hr;

    error = originated(E_FAIL);
    STARVED(hr = stacksplice_add_note(UNKNOWN(error), "note", 4));
    assert_int_equal(stacksplice_error_notes(UNKNOWN(error), count_note, &notes), S_OK);
    assert_int_equal(notes, hr == S_OK);
    release(error);
    return hr;
}

/* A group and its member's error are held as often as they are let go. */
static HRESULT originate_group(int unused)
{
    IRestrictedErrorInfo *member = originated(E_BOUNDS);
    error_double x;
    HRESULT hr;
    int ok;

    error_double_init(&x, 1);
    x.has_details = 1;
    x.members = &member;
    x.member_count = 1;
    STARVED(ok = RoOriginateLanguageException(E_FAIL, NULL, error_double_unknown(&x)));
    hr = slot_result(ok, E_FAIL);
    assert_int_equal(x.outside, 1);
    assert_int_equal(x.inside, 0);
    assert_int_equal(member->lpVtbl->Release(member), 0);
    return hr;
}

static HRESULT originate_utf8(int unused)
{
    IRestrictedErrorInfo *error = NULL;
    error_double x;
    HRESULT hr;

    error_double_init(&x, 1);
    STARVED(hr = stacksplice_originate(E_FAIL, "text", 4, error_double_unknown(&x), &error));
    assert_int_equal(error != NULL, hr == S_OK);
    release(error);
    assert_int_equal(slot_result(hr == S_OK, E_FAIL), hr);
    assert_int_equal(x.outside, 1);
    return hr;
}

static HRESULT transform(int wide)
{
    int ok;

    RoOriginateErrorW(E_ABORT, 0, u"old");
    STARVED(ok = wide ? RoTransformErrorW(E_ABORT, E_FAIL, 0, u"new")
                      : RoTransformError(E_ABORT, E_FAIL, NULL));
    return slot_result(ok, E_FAIL);
}

static HRESULT match(int wanted)
{
    IRestrictedErrorInfo *error = NULL;
    HRESULT hr;

    RoOriginateErrorW(E_ABORT, 0, u"stale");
    STARVED(hr = RoGetMatchingRestrictedErrorInfo(wanted, &error));
    assert_int_equal(error != NULL, hr == S_OK);
    assert_true(hr == S_OK || wanted != E_OUTOFMEMORY);
    release(error);
    (void)slot_result(0, 0);
    return hr;
}

static HRESULT capture_context(int before)
{
    HRESULT hr;

    RoOriginateErrorW(before, 0, u"old");
    STARVED(hr = RoCaptureErrorContext(E_FAIL));
    /* A node that cannot be added leaves its error. */
    (void)slot_result(before == E_FAIL || hr == S_OK, E_FAIL);
    return hr;
}

static HRESULT propagate(int unused)
{
    IRestrictedErrorInfo *error;
    error_double x;
    HRESULT hr;

    error_double_init(&x, 0);
    x.has_stack = 1;
    x.frames = some_frames;
    x.frame_count = COUNT_OF(some_frames);
    STARVED(hr = stacksplice_propagate(E_FAIL, error_double_unknown(&x)));
    if (stacksplice_peek_error(&error) == S_OK) {
        ILanguageExceptionErrorInfo2 *node = head_of(error);

        assert_int_equal(node != NULL, hr == S_OK);
        release(node);
        release(error);
    }
    RoClearError();
    assert_int_equal(x.outside, 1);
    return hr;
}

static HRESULT capture_node(int unused)
{
    ILanguageExceptionErrorInfo2 *info;
    IRestrictedErrorInfo *error = originated(E_FAIL);
    HRESULT hr;

    info = query(error, &IID_ILanguageExceptionErrorInfo2);
    STARVED(hr = info->lpVtbl->CapturePropagationContext(info, NULL));
    release(info);
    assert_int_equal(error->lpVtbl->Release(error), 0);
    return hr;
}

static HRESULT read_details(int unused)
{
    BSTR description = NULL, message = NULL, sid = NULL;
    IRestrictedErrorInfo *error;
    HRESULT got = S_FALSE;
    HRESULT hr;

    error = originated(E_FAIL);
    STARVED(hr = error->lpVtbl->GetErrorDetails(error, &description, &got, &message, &sid));
    if (FAILED(hr))
        assert_true(!description && !message && !sid && got == S_FALSE);
    else
        assert_true(description && message && got == E_FAIL);
    SysFreeString(description);
    SysFreeString(message);
    release(error);
    return hr;
}

static HRESULT read_reference(int unused)
{
    IRestrictedErrorInfo *error;
    BSTR reference = NULL;
    HRESULT hr;

    error = originated(E_FAIL);
    STARVED(hr = error->lpVtbl->GetReference(error, &reference));
    assert_int_equal(reference != NULL, hr == S_OK);
    SysFreeString(reference);
    release(error);
    return hr;
}

static HRESULT read_description(int unused)
{
    IErrorInfo *info = NULL;
    BSTR text = NULL;
    HRESULT hr;

    RoOriginateError(E_FAIL, NULL);
    assert_int_equal(GetErrorInfo(0, &info), S_OK);
    STARVED(hr = info->lpVtbl->GetDescription(info, &text));
    assert_int_equal(text != NULL, hr == S_OK);
    SysFreeString(text);
    release(info);
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

static HRESULT create_string(int unused)
{
    HSTRING string = NULL;
    HRESULT hr;

    STARVED(hr = WindowsCreateString(u"x", 1, &string));
    assert_int_equal(string != NULL, hr == S_OK);
    WindowsDeleteString(string);
    return hr;
}

static HRESULT duplicate_reference_string(int unused)
{
    HSTRING string = NULL, copy = NULL;
    HSTRING_HEADER header;
    HRESULT hr;

    WindowsCreateStringReference(u"x", 1, &header, &string);
    STARVED(hr = WindowsDuplicateString(string, &copy));
    assert_int_equal(copy != NULL, hr == S_OK);
    WindowsDeleteString(copy);
    return hr;
}

static HRESULT capture(int unused)
{
    uintptr_t frames[64];
    uint32_t captured = 0;
    HRESULT hr;

    STARVED(hr = stacksplice_capture(0, 64, frames, &captured, NULL));
    return hr == S_FALSE ? S_OK : hr;
}

static HRESULT capture_native(int unused)
{
    void *frames[64];

    STARVED((void)RtlCaptureStackBackTrace(0, 64, frames, NULL));
    return S_OK;
}

static HRESULT add_stack(int unused)
{
    static char stack[4096];
    HRESULT hr;

    STARVED(hr = stacksplice_add_stack(stack, stack + sizeof stack));
    if (hr == S_OK)
        assert_int_equal(stacksplice_remove_stack(stack), S_OK);
    return hr;
}

static const struct {
    const char *name;
    HRESULT (*run)(int argument);
    int argument;
} memory_cases[] = {
    {"RoOriginateErrorW", originate, E_FAIL},
    {"RoOriginateError", originate, E_ABORT},
    {"RoOriginateErrorW(E_OUTOFMEMORY)", originate, E_OUTOFMEMORY},
    {"RoOriginateLanguageException(script)", originate_exception, 1},
    {"RoOriginateLanguageException(foreign)", originate_exception, 0},
    {"RoOriginateErrorW(5000 frames)", originate_with_many_frames, 5000},
    {"stacksplice_originate", originate_utf8, 0},
    {"RoTransformErrorW", transform, 1},
    {"RoTransformError", transform, 0},
    {"RoGetMatchingRestrictedErrorInfo", match, E_FAIL},
    {"RoGetMatchingRestrictedErrorInfo(E_OUTOFMEMORY)", match, E_OUTOFMEMORY},
    {"RoCaptureErrorContext(same)", capture_context, E_FAIL},
    {"RoCaptureErrorContext(other)", capture_context, E_ABORT},
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
    {"WindowsDuplicateString", duplicate_reference_string, 0},
    {"stacksplice_capture", capture, 0},
    {"RtlCaptureStackBackTrace", capture_native, 0},
    {"stacksplice_add_stack", add_stack, 0},
};

/* ---- The loops -------------------------------------------------------------------------------*/

static void *run_case(void *data)
{
    size_t i = *(size_t *)data;
    HRESULT hr = memory_cases[i].run(memory_cases[i].argument);

    RoClearError();
    if (hr != S_OK && !(hr == E_OUTOFMEMORY && atomic_load(&memory_failed))) {
        print_error("%s: 0x%08x\n", memory_cases[i].name, (unsigned)hr);
        return NULL;
    }
    return data;
}

/* In a thread of its own, whose first capture it is. */
static void run_in_thread(size_t i)
{
    pthread_t thread;
    void *result = NULL;

    assert_int_equal(pthread_create(&thread, NULL, run_case, &i), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    if (!result)
        print_error("%s, allocation %ld\n", memory_cases[i].name, fail_at);
    assert_non_null(result);
}

static void fail_each(int all_after)
{
    for (size_t i = 0; i < COUNT_OF(memory_cases); i++) {
        fail_at = 0;
        run_in_thread(i); /* what the process makes once is made now */
        atomic_store(&memory_all_after, all_after);
        for (fail_at = 1;; fail_at++) {
            long before = atomic_load(&memory_live);

            run_in_thread(i);
            if (atomic_load(&memory_live) != before)
                print_error("%s, allocation %ld leaks\n", memory_cases[i].name, fail_at);
            assert_int_equal(atomic_load(&memory_live), before);
            if (!atomic_load(&memory_failed))
                break;
            assert_true(fail_at < 1000);
        }
        atomic_store(&memory_all_after, 0);
    }
}

/* In a process that has made nothing yet; and what failed works afterwards. */
TEST(test_first_use_without_memory)
{
    for (size_t i = 0; i < COUNT_OF(memory_cases); i++) {
        for (fail_at = 1; fail_at < 1000; fail_at++) {
            int status = 0;
            pid_t child = fork();

            assert_true(child >= 0);
            if (child == 0) {
                void *ok = run_case(&i);
                int more = atomic_load(&memory_failed);

                fail_at = 0;
                _exit(!ok || memory_cases[i].run(memory_cases[i].argument) != S_OK ? 1
                      : more                                                       ? 2
                                                                                   : 0);
            }
            assert_int_equal(waitpid(child, &status, 0), child);
            if (!WIFEXITED(status) || WEXITSTATUS(status) == 1)
                print_error("%s, allocation %ld\n", memory_cases[i].name, fail_at);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 1);
            if (WEXITSTATUS(status) == 0)
                break;
        }
        assert_true(fail_at < 1000);
    }
    fail_at = 0;
}

FRESH_TEST(test_each_allocation_fails_once)
{
    fail_each(0);
}

FRESH_TEST(test_each_allocation_and_all_after_it_fail)
{
    fail_each(1);
}

/* ---- The static object -----------------------------------------------------------------------*/

FRESH_TEST(test_static_object_is_an_error_like_others)
{
    IRestrictedErrorInfo *error, *found = NULL;
    BSTR reference = NULL;
    char text[200];
    uint32_t count = 99;

    fail_at = 1;
    atomic_store(&memory_all_after, 1);
    arm();
    assert_int_equal(RoOriginateErrorW(E_OUTOFMEMORY, 0, u"not kept"), TRUE);
    memory_disarm();
    atomic_store(&memory_all_after, 0);
    fail_at = 0;
    error = take();
    message_of(error, text, sizeof text);
    assert_string_equal(
        text, "Not enough memory resources are available to complete this operation.\r\n");
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
    char text[50];

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
    message_of(previous, text, sizeof text);
    assert_string_equal(text, "first");
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
    HSTRING string = NULL, copy = NULL;
    BSTR reference = NULL;
    uint32_t count, flags;
    uint64_t thread;
    char text[50];

    error = originated(E_FAIL);
    assert_int_equal(error->lpVtbl->GetReference(error, &reference), S_OK);
    assert_int_equal(WindowsCreateString(u"x", 1, &string), S_OK);
    RoCaptureErrorContext(E_ABORT);
    arm();
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
    assert_int_equal(WindowsDuplicateString(string, &copy), S_OK);
    WindowsDeleteString(copy);
    assert_int_equal(stacksplice_utf8(u"x", 1, text, sizeof text), 1);
    assert_non_null(stacksplice_version());
    assert_non_null(stacksplice_thread_anchor());
    assert_int_equal(SetErrorInfo(0, NULL), S_OK);
    RoClearError();
    assert_int_equal(atomic_load(&memory_attempted), 0);
    memory_disarm();
    SysFreeString(reference);
    WindowsDeleteString(string);
    release(error);
}

static int use_counting_allocator(void **state)
{
    return memory_use();
}

GROUP(use_counting_allocator, fresh)
