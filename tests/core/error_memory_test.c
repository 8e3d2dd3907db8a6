/*
 * Without memory: allocation 1, 2, 3, ... of each function fails, until it succeeds.  Each time the
 * result is the documented one, nothing is leaked, and the slot is sane.
 */
#include "error_test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- The allocator ---------------------------------------------------------------------------*/

static atomic_long live;         /* blocks */
static atomic_long countdown;    /* allocations until one fails; 0: none does */
static atomic_long attempted;    /* allocations since arm() */
static atomic_int failed;        /* one has failed since arm() */
static atomic_int fail_for_ever; /* and all after it fail too */
static atomic_int clears;        /* the next allocation empties the slot first */

static int fails(void)
{
    long left = atomic_load(&countdown);

    atomic_fetch_add(&attempted, 1);
    if (left == 0)
        return 0;
    if (left > 1) {
        atomic_store(&countdown, left - 1);
        return 0;
    }
    if (!atomic_load(&fail_for_ever))
        atomic_store(&countdown, 0);
    atomic_store(&failed, 1);
    return 1;
}

static void *counted_alloc(size_t bytes, void *data)
{
    void *block;

    (void)data;
    if (atomic_exchange(&clears, 0))
        RoClearError();
    block = fails() ? NULL : malloc(bytes ? bytes : 1);
    if (block)
        atomic_fetch_add(&live, 1);
    return block;
}

static void *counted_realloc(void *block, size_t bytes, void *data)
{
    if (!block)
        return counted_alloc(bytes, data);
    return fails() ? NULL : realloc(block, bytes ? bytes : 1);
}

static void counted_free(void *block, void *data)
{
    (void)data;
    if (block)
        atomic_fetch_sub(&live, 1);
    free(block);
}

static long fail_at; /* which allocation the next arm() lets fail; 0: none */

static void arm(void)
{
    atomic_store(&failed, 0);
    atomic_store(&attempted, 0);
    atomic_store(&countdown, fail_at);
}

static void disarm(void)
{
    atomic_store(&countdown, 0);
}

/* ---- What each function may do ---------------------------------------------------------------*/

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

static HRESULT originate(void)
{
    int ok;

    RoOriginateErrorW(E_ABORT, 0, u"old");
    arm();
    ok = RoOriginateErrorW(E_FAIL, 0, u"new");
    disarm();
    return slot_result(ok, E_FAIL);
}

static HRESULT originate_hstring(void)
{
    HSTRING text = NULL;
    int ok;

    assert_int_equal(WindowsCreateString(u"text", 4, &text), S_OK);
    arm();
    ok = RoOriginateError(E_FAIL, text);
    disarm();
    WindowsDeleteString(text);
    return slot_result(ok, E_FAIL);
}

/* An origination of E_OUTOFMEMORY itself cannot fail. */
static HRESULT originate_out_of_memory(void)
{
    int ok;

    arm();
    ok = RoOriginateErrorW(E_OUTOFMEMORY, 0, u"new");
    disarm();
    assert_true(ok);
    return slot_result(ok, E_OUTOFMEMORY);
}

static HRESULT originate_exception(int is_script)
{
    IRestrictedErrorInfo *cause;
    error_double x;
    HRESULT hr;
    int ok;

    RoOriginateError(E_BOUNDS, NULL);
    cause = take();
    error_double_init(&x, is_script);
    x.has_stack = 1;
    x.frames = some_frames;
    x.frame_count = COUNT_OF(some_frames);
    x.cause = cause;
    arm();
    ok = RoOriginateLanguageException(E_FAIL, NULL, error_double_unknown(&x));
    disarm();
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
static HRESULT add_note(void)
{
    IRestrictedErrorInfo *error;
    int notes = 0;
    HRESULT hr;

    RoOriginateError(E_FAIL, NULL);
    error = take();
    arm();
    hr = stacksplice_add_note(UNKNOWN(error), "note", 4);
    disarm();
    assert_int_equal(stacksplice_error_notes(UNKNOWN(error), count_note, &notes), S_OK);
    assert_int_equal(notes, hr == S_OK);
    release(error);
    return hr;
}

/* A group and its member's error are held as often as they are let go. */
static HRESULT originate_group(void)
{
    IRestrictedErrorInfo *member;
    error_double x;
    HRESULT hr;
    int ok;

    RoOriginateError(E_BOUNDS, NULL);
    member = take();
    error_double_init(&x, 1);
    x.has_details = 1;
    x.members = &member;
    x.member_count = 1;
    arm();
    ok = RoOriginateLanguageException(E_FAIL, NULL, error_double_unknown(&x));
    disarm();
    hr = slot_result(ok, E_FAIL);
    assert_int_equal(x.outside, 1);
    assert_int_equal(x.inside, 0);
    assert_int_equal(member->lpVtbl->Release(member), 0);
    return hr;
}

static HRESULT originate_script_exception(void)
{
    return originate_exception(1);
}

static HRESULT originate_foreign_exception(void)
{
    return originate_exception(0);
}

static HRESULT originate_with_many_frames(void)
{
    HRESULT hr;

    stacksplice_set_max_frames(5000);
    hr = originate();
    stacksplice_set_max_frames(512);
    return hr;
}

static HRESULT originate_utf8(void)
{
    IRestrictedErrorInfo *error = NULL;
    error_double x;
    HRESULT hr;

    error_double_init(&x, 1);
    arm();
    hr = stacksplice_originate(E_FAIL, "text", 4, error_double_unknown(&x), &error);
    disarm();
    assert_int_equal(error != NULL, hr == S_OK);
    release(error);
    assert_int_equal(slot_result(hr == S_OK, E_FAIL), hr);
    assert_int_equal(x.outside, 1);
    return hr;
}

static HRESULT transform(void)
{
    int ok;

    RoOriginateErrorW(E_ABORT, 0, u"old");
    arm();
    ok = RoTransformErrorW(E_ABORT, E_FAIL, 0, u"new");
    disarm();
    return slot_result(ok, E_FAIL);
}

static HRESULT transform_hstring(void)
{
    int ok;

    RoOriginateErrorW(E_ABORT, 0, u"old");
    arm();
    ok = RoTransformError(E_ABORT, E_FAIL, NULL);
    disarm();
    return slot_result(ok, E_FAIL);
}

static HRESULT match(HRESULT wanted)
{
    IRestrictedErrorInfo *error = NULL;
    HRESULT hr;

    RoOriginateErrorW(E_ABORT, 0, u"stale");
    arm();
    hr = RoGetMatchingRestrictedErrorInfo(wanted, &error);
    disarm();
    assert_int_equal(error != NULL, hr == S_OK);
    release(error);
    (void)slot_result(0, 0);
    return hr;
}

static HRESULT match_other(void)
{
    return match(E_FAIL);
}

static HRESULT match_out_of_memory(void)
{
    HRESULT hr = match(E_OUTOFMEMORY);

    assert_int_equal(hr, S_OK);
    return hr;
}

static HRESULT capture_context(HRESULT before)
{
    HRESULT hr;

    RoOriginateErrorW(before, 0, u"old");
    arm();
    hr = RoCaptureErrorContext(E_FAIL);
    disarm();
    /* A node that cannot be added leaves its error. */
    (void)slot_result(before == E_FAIL || hr == S_OK, E_FAIL);
    return hr;
}

static HRESULT capture_context_of_same(void)
{
    return capture_context(E_FAIL);
}

static HRESULT capture_context_of_other(void)
{
    return capture_context(E_ABORT);
}

static HRESULT propagate(void)
{
    IRestrictedErrorInfo *error;
    error_double x;
    HRESULT hr;

    error_double_init(&x, 0);
    x.has_stack = 1;
    x.frames = some_frames;
    x.frame_count = COUNT_OF(some_frames);
    arm();
    hr = stacksplice_propagate(E_FAIL, error_double_unknown(&x));
    disarm();
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

static HRESULT capture_node(void)
{
    ILanguageExceptionErrorInfo2 *info;
    IRestrictedErrorInfo *error;
    HRESULT hr;

    RoOriginateError(E_FAIL, NULL);
    error = take();
    info = query(error, &IID_ILanguageExceptionErrorInfo2);
    arm();
    hr = info->lpVtbl->CapturePropagationContext(info, NULL);
    disarm();
    release(info);
    assert_int_equal(error->lpVtbl->Release(error), 0);
    return hr;
}

static HRESULT read_details(void)
{
    BSTR description = NULL, message = NULL, sid = NULL;
    IRestrictedErrorInfo *error;
    HRESULT got = S_FALSE;
    HRESULT hr;

    RoOriginateError(E_FAIL, NULL);
    error = take();
    arm();
    hr = error->lpVtbl->GetErrorDetails(error, &description, &got, &message, &sid);
    disarm();
    if (FAILED(hr))
        assert_true(!description && !message && !sid && got == S_FALSE);
    else
        assert_true(description && message && got == E_FAIL);
    SysFreeString(description);
    SysFreeString(message);
    release(error);
    return hr;
}

static HRESULT read_reference(void)
{
    IRestrictedErrorInfo *error;
    BSTR reference = NULL;
    HRESULT hr;

    RoOriginateError(E_FAIL, NULL);
    error = take();
    arm();
    hr = error->lpVtbl->GetReference(error, &reference);
    disarm();
    assert_int_equal(reference != NULL, hr == S_OK);
    SysFreeString(reference);
    release(error);
    return hr;
}

static HRESULT read_description(void)
{
    IErrorInfo *info = NULL;
    BSTR text = NULL;
    HRESULT hr;

    RoOriginateError(E_FAIL, NULL);
    assert_int_equal(GetErrorInfo(0, &info), S_OK);
    arm();
    hr = info->lpVtbl->GetDescription(info, &text);
    disarm();
    assert_int_equal(text != NULL, hr == S_OK);
    SysFreeString(text);
    release(info);
    return hr;
}

static HRESULT bstr_result(BSTR string)
{
    HRESULT hr = string ? S_OK : E_OUTOFMEMORY;

    disarm();
    SysFreeString(string);
    return hr;
}

static HRESULT sys_alloc_string(void)
{
    arm();
    return bstr_result(SysAllocString(u"x"));
}

static HRESULT sys_alloc_string_len(void)
{
    arm();
    return bstr_result(SysAllocStringLen(u"x", 1));
}

static HRESULT sys_alloc_string_byte_len(void)
{
    arm();
    return bstr_result(SysAllocStringByteLen("x", 1));
}

static HRESULT create_string(void)
{
    HSTRING string = NULL;
    HRESULT hr;

    arm();
    hr = WindowsCreateString(u"x", 1, &string);
    disarm();
    assert_int_equal(string != NULL, hr == S_OK);
    WindowsDeleteString(string);
    return hr;
}

static HRESULT duplicate_reference_string(void)
{
    HSTRING string = NULL, copy = NULL;
    HSTRING_HEADER header;
    HRESULT hr;

    WindowsCreateStringReference(u"x", 1, &header, &string);
    arm();
    hr = WindowsDuplicateString(string, &copy);
    disarm();
    assert_int_equal(copy != NULL, hr == S_OK);
    WindowsDeleteString(copy);
    return hr;
}

static HRESULT capture(void)
{
    uintptr_t frames[64];
    uint32_t captured = 0;
    HRESULT hr;

    arm();
    hr = stacksplice_capture(0, 64, frames, &captured, NULL);
    disarm();
    return hr == S_FALSE ? S_OK : hr;
}

static HRESULT capture_native(void)
{
    void *frames[64];

    arm();
    (void)RtlCaptureStackBackTrace(0, 64, frames, NULL);
    disarm();
    return S_OK;
}

static HRESULT add_stack(void)
{
    static char stack[4096];
    HRESULT hr;

    arm();
    hr = stacksplice_add_stack(stack, stack + sizeof stack);
    disarm();
    if (hr == S_OK)
        assert_int_equal(stacksplice_remove_stack(stack), S_OK);
    return hr;
}

/* A token that is new each time; the table keeps it. */
static HRESULT intern(void)
{
    static uint32_t line;
    stacksplice_token_info info = {.size = sizeof info,
                                   .kind = STACKSPLICE_FRAME_SCRIPT,
                                   .trust = STACKSPLICE_TRUST_EXACT,
                                   .language = "double",
                                   .function = "function",
                                   .line = ++line};
    uintptr_t token = 0;
    HRESULT hr;

    arm();
    hr = stacksplice_intern(&info, &token);
    disarm();
    assert_true(token != 0);
    return hr;
}

static HRESULT name_function(void)
{
    static uintptr_t function = 0x10000;
    HRESULT hr;

    function += 0x100;
    arm();
    hr = stacksplice_name_function(function, "double", "name");
    disarm();
    return hr;
}

static const struct {
    const char *name;
    HRESULT (*run)(void);
    int keeps; /* what it makes stays for ever */
} cases[] = {
    {"RoOriginateErrorW", originate, 0},
    {"RoOriginateError", originate_hstring, 0},
    {"RoOriginateErrorW(E_OUTOFMEMORY)", originate_out_of_memory, 0},
    {"RoOriginateLanguageException(script)", originate_script_exception, 0},
    {"RoOriginateLanguageException(foreign)", originate_foreign_exception, 0},
    {"RoOriginateErrorW(5000 frames)", originate_with_many_frames, 0},
    {"stacksplice_originate", originate_utf8, 0},
    {"RoTransformErrorW", transform, 0},
    {"RoTransformError", transform_hstring, 0},
    {"RoGetMatchingRestrictedErrorInfo", match_other, 0},
    {"RoGetMatchingRestrictedErrorInfo(E_OUTOFMEMORY)", match_out_of_memory, 0},
    {"RoCaptureErrorContext(same)", capture_context_of_same, 0},
    {"RoCaptureErrorContext(other)", capture_context_of_other, 0},
    {"stacksplice_propagate", propagate, 0},
    {"CapturePropagationContext", capture_node, 0},
    {"GetErrorDetails", read_details, 0},
    {"GetReference", read_reference, 0},
    {"GetDescription", read_description, 0},
    {"stacksplice_add_note", add_note, 0},
    {"RoOriginateLanguageException, group", originate_group, 0},
    {"SysAllocString", sys_alloc_string, 0},
    {"SysAllocStringLen", sys_alloc_string_len, 0},
    {"SysAllocStringByteLen", sys_alloc_string_byte_len, 0},
    {"WindowsCreateString", create_string, 0},
    {"WindowsDuplicateString", duplicate_reference_string, 0},
    {"stacksplice_capture", capture, 0},
    {"RtlCaptureStackBackTrace", capture_native, 0},
    {"stacksplice_add_stack", add_stack, 0},
    {"stacksplice_intern", intern, 1},
    {"stacksplice_name_function", name_function, 1},
};

/* ---- The loops -------------------------------------------------------------------------------*/

static void *run_case(void *data)
{
    size_t i = *(size_t *)data;
    HRESULT hr = cases[i].run();

    RoClearError();
    if (hr != S_OK && !(hr == E_OUTOFMEMORY && atomic_load(&failed))) {
        print_error("%s: 0x%08x\n", cases[i].name, (unsigned)hr);
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
        print_error("%s, allocation %ld\n", cases[i].name, fail_at);
    assert_non_null(result);
}

static void fail_each(int all_after)
{
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        fail_at = 0;
        run_in_thread(i); /* what the process makes once is made now */
        atomic_store(&fail_for_ever, all_after);
        for (fail_at = 1;; fail_at++) {
            long before = atomic_load(&live);

            run_in_thread(i);
            if (!cases[i].keeps && atomic_load(&live) != before)
                print_error("%s, allocation %ld leaks\n", cases[i].name, fail_at);
            if (!cases[i].keeps)
                assert_int_equal(atomic_load(&live), before);
            if (!atomic_load(&failed))
                break;
            assert_true(fail_at < 1000);
        }
        atomic_store(&fail_for_ever, 0);
    }
}

static void test_each_allocation_fails_once(void **state)
{
    (void)state;
    fail_each(0);
}

static void test_each_allocation_and_all_after_it_fail(void **state)
{
    (void)state;
    fail_each(1);
}

/* In a process that has made nothing yet; and what failed works afterwards. */
static void test_first_use_without_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (fail_at = 1; fail_at < 1000; fail_at++) {
            int status = 0;
            pid_t child = fork();

            assert_true(child >= 0);
            if (child == 0) {
                void *ok = run_case(&i);
                int more = atomic_load(&failed);

                fail_at = 0;
                _exit(!ok || cases[i].run() != S_OK ? 1 : more ? 2 : 0);
            }
            assert_int_equal(waitpid(child, &status, 0), child);
            if (!WIFEXITED(status) || WEXITSTATUS(status) == 1)
                print_error("%s, allocation %ld\n", cases[i].name, fail_at);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 1);
            if (WEXITSTATUS(status) == 0)
                break;
        }
        assert_true(fail_at < 1000);
    }
    fail_at = 0;
}

/* ---- The static object -----------------------------------------------------------------------*/

static void test_static_object_is_an_error_like_others(void **state)
{
    IRestrictedErrorInfo *error, *found = NULL;
    BSTR reference = NULL;
    char text[200];
    uint32_t count = 99;

    (void)state;
    fail_at = 1;
    atomic_store(&fail_for_ever, 1);
    arm();
    assert_int_equal(RoOriginateErrorW(E_OUTOFMEMORY, 0, u"not kept"), TRUE);
    disarm();
    atomic_store(&fail_for_ever, 0);
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

static void test_allocator_that_empties_the_slot(void **state)
{
    IRestrictedErrorInfo *error, *previous;
    ILanguageExceptionErrorInfo2 *second, *first = NULL;
    char text[50];

    (void)state;
    assert_int_equal(stacksplice_set_max_frames(2000), S_OK); /* more memory, at the beginning */
    RoOriginateErrorW(E_FAIL, 0, u"first");
    atomic_store(&clears, 1);
    assert_int_equal(RoTransformErrorW(E_FAIL, E_ABORT, 0, u"second"), TRUE);
    assert_int_equal(atomic_load(&clears), 0);
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

static void test_functions_that_do_not_allocate(void **state)
{
    stacksplice_saved_error saved;
    IRestrictedErrorInfo *error, *again;
    HSTRING string = NULL, copy = NULL;
    BSTR reference = NULL;
    uint32_t count, flags;
    uint64_t thread;
    char text[50];

    (void)state;
    RoOriginateError(E_FAIL, NULL);
    error = take();
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
    assert_int_equal(atomic_load(&attempted), 0);
    disarm();
    SysFreeString(reference);
    WindowsDeleteString(string);
    release(error);
}

static int use_counting_allocator(void **state)
{
    stacksplice_allocator allocator = {sizeof allocator, counted_alloc, counted_realloc,
                                       counted_free, NULL};

    (void)state;
    return stacksplice_set_allocator(&allocator) == S_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_use_without_memory), /* first: nothing has been made yet */
        cmocka_unit_test_setup(test_each_allocation_fails_once, fresh),
        cmocka_unit_test_setup(test_each_allocation_and_all_after_it_fail, fresh),
        cmocka_unit_test_setup(test_static_object_is_an_error_like_others, fresh),
        cmocka_unit_test_setup(test_allocator_that_empties_the_slot, fresh),
        cmocka_unit_test_setup(test_functions_that_do_not_allocate, fresh),
    };

    return cmocka_run_group_tests(tests, use_counting_allocator, fresh);
}
