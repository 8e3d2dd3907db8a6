/*
 * Without memory: allocation 1, 2, 3, ... of each function fails, until it succeeds.  Each time the
 * result is the documented one, nothing is leaked, and the slot is sane.
 */
#include "error_memory_cases.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

long fail_at;

static void empty_the_slot(void)
{
    RoClearError();
}

/* ---- The loops -------------------------------------------------------------------------------*/

static void *run_case(void *data)
{
    size_t i = *(size_t *)data;
    HRESULT hr = memory_cases[i].run();

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
    for (size_t i = 0; i < memory_case_count; i++) {
        fail_at = 0;
        run_in_thread(i); /* what the process makes once is made now */
        atomic_store(&memory_all_after, all_after);
        for (fail_at = 1;; fail_at++) {
            long before = atomic_load(&memory_live);

            run_in_thread(i);
            if (!memory_cases[i].keeps && atomic_load(&memory_live) != before)
                print_error("%s, allocation %ld leaks\n", memory_cases[i].name, fail_at);
            if (!memory_cases[i].keeps)
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
    for (size_t i = 0; i < memory_case_count; i++) {
        for (fail_at = 1; fail_at < 1000; fail_at++) {
            int status = 0;
            pid_t child = fork();

            assert_true(child >= 0);
            if (child == 0) {
                void *ok = run_case(&i);
                int more = atomic_load(&memory_failed);

                fail_at = 0;
                _exit(!ok || memory_cases[i].run() != S_OK ? 1 : more ? 2 : 0);
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
