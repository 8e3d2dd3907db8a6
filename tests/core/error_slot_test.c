/* Our own functions on the slot: peek, save and restore; fork, thread exit. */
#include "error_test.h"
#include "threads.h"

#include <signal.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

FRESH_TEST(test_peek_leaves_the_error)
{
    IRestrictedErrorInfo *first = NULL, *second = NULL;

    assert_int_equal(stacksplice_peek_error(NULL), E_POINTER);
    assert_int_equal(stacksplice_peek_error(&first), S_FALSE);
    assert_null(first);
    RoOriginateError(E_FAIL, NULL);
    assert_int_equal(stacksplice_peek_error(&first), S_OK);
    assert_int_equal(stacksplice_peek_error(&second), S_OK);
    assert_ptr_equal(first, second);
    release(second);
    second = take();
    assert_ptr_equal(first, second);
    release(first);
    assert_int_equal(second->lpVtbl->Release(second), 0);
}

FRESH_TEST(test_save_and_restore_keep_the_error_in_flight)
{
    stacksplice_saved_error saved;
    IRestrictedErrorInfo *error, *got;

    RoOriginateError(E_FAIL, NULL);
    assert_int_equal(stacksplice_peek_error(&error), S_OK);
    assert_int_equal(stacksplice_save_error(NULL), E_POINTER);
    assert_int_equal(stacksplice_save_error(&saved), S_OK);
    assert_int_equal(stacksplice_peek_error(&got), S_FALSE);
    RoOriginateError(E_ABORT, NULL);
    stacksplice_restore_error(&saved);
    got = take();
    assert_ptr_equal(got, error);
    release(got);
    assert_int_equal(error->lpVtbl->Release(error), 0);
    /* Nothing saved: clean-up's error goes. */
    assert_int_equal(stacksplice_save_error(&saved), S_OK);
    RoOriginateError(E_ABORT, NULL);
    stacksplice_restore_error(&saved);
    assert_int_equal(GetRestrictedErrorInfo(&got), S_FALSE);
    assert_int_equal(stacksplice_restore_error(NULL), E_POINTER);
}

FRESH_TEST(test_saved_errors_nest)
{
    stacksplice_saved_error outer, inner;
    IRestrictedErrorInfo *first, *second, *got;

    RoOriginateError(E_FAIL, NULL);
    assert_int_equal(stacksplice_peek_error(&first), S_OK);
    assert_int_equal(stacksplice_save_error(&outer), S_OK);
    RoOriginateError(E_ABORT, NULL);
    assert_int_equal(stacksplice_peek_error(&second), S_OK);
    assert_int_equal(stacksplice_save_error(&inner), S_OK);
    RoOriginateError(E_NOTIMPL, NULL);
    assert_int_equal(stacksplice_restore_error(&inner), S_OK);
    got = take();
    assert_ptr_equal(got, second);
    release(got);
    assert_int_equal(stacksplice_restore_error(&outer), S_OK);
    got = take();
    assert_ptr_equal(got, first);
    release(got);
    assert_int_equal(second->lpVtbl->Release(second), 0);
    assert_int_equal(first->lpVtbl->Release(first), 0);
}

/* A second restore would take away what came since. */
FRESH_TEST(test_an_error_is_restored_once)
{
    stacksplice_saved_error saved, none;

    memset(&none, 0, sizeof none);
    RoOriginateError(E_FAIL, NULL);
    assert_int_equal(stacksplice_restore_error(&none), E_ILLEGAL_METHOD_CALL);
    assert_int_equal(stacksplice_save_error(&saved), S_OK);
    assert_int_equal(stacksplice_restore_error(&saved), S_OK);
    assert_int_equal(stacksplice_restore_error(&saved), E_ILLEGAL_METHOD_CALL);
    release(take());
}

static void *restore_here(void *saved)
{
    HRESULT *hr = malloc(sizeof *hr);

    *hr = stacksplice_restore_error(saved);
    return hr;
}

FRESH_TEST(test_another_thread_cannot_restore)
{
    stacksplice_saved_error saved;
    IRestrictedErrorInfo *error, *got;
    void *hr;

    RoOriginateError(E_FAIL, NULL);
    assert_int_equal(stacksplice_peek_error(&error), S_OK);
    assert_int_equal(stacksplice_save_error(&saved), S_OK);
    hr = thread_run(restore_here, &saved);
    assert_int_equal(*(HRESULT *)hr, RPC_E_WRONG_THREAD);
    free(hr);
    assert_int_equal(stacksplice_peek_error(&got), S_FALSE);
    assert_int_equal(stacksplice_restore_error(&saved), S_OK);
    got = take();
    assert_ptr_equal(got, error);
    release(got);
    release(error);
}

/* ---- Texts ---------------------------------------------------------------------------------*/

static const struct {
    uint32_t units;
    WCHAR text[6];
    const char *want;
} utf16_cases[] = {
    {0, {0}, ""},
    {3, {'a', 0, 'b'}, "a\0b"},
    {2, {0xD83D, 0xDE00}, "\xf0\x9f\x98\x80"},
    {2, {0xDE00, 0xD83D}, "\xef\xbf\xbd\xef\xbf\xbd"},
    {1, {0xD83D, 0xDE00}, "\xef\xbf\xbd"}, /* the pair is not read beyond its end */
    {3, {0x7F, 0x80, 0x7FF}, "\x7f\xc2\x80\xdf\xbf"},
    {2, {0x800, 0xFFFF}, "\xe0\xa0\x80\xef\xbf\xbf"},
};

FRESH_TEST(test_utf8_of_utf16)
{
    for (size_t i = 0; i < COUNT_OF(utf16_cases); i++) {
        size_t length = i == 1 ? 3 : strlen(utf16_cases[i].want);

        for (size_t room = 0; room <= length + 1; room++) {
            char out[32];
            size_t fits;

            memset(out, '#', sizeof out);
            check_row(i, stacksplice_utf8(utf16_cases[i].text, utf16_cases[i].units, out, room),
                      length);
            check_row(i, out[room], '#');
            if (!room)
                continue;
            fits = i == 1 ? room - 1 : strlen(out);
            check_row(i, memcmp(out, utf16_cases[i].want, fits), 0);
            check_row(i, out[fits], 0);
            /* Cut at a character border. */
            check_row(i, ((unsigned char)utf16_cases[i].want[fits] & 0xC0) != 0x80, 1);
        }
    }
    assert_int_equal(stacksplice_utf8(NULL, 5, NULL, 0), 0);
}

/* ---- Processes and threads -------------------------------------------------------------------*/

FRESH_TEST(test_forked_child_keeps_its_slot)
{
    pid_t child;

    RoOriginateErrorW(E_FAIL, 0, u"before fork");
    child = fork();
    if (child == 0) {
        IRestrictedErrorInfo *error = NULL, *found = NULL;
        BSTR reference = NULL, later = NULL;
        uint64_t thread = 0;
        int ok = GetRestrictedErrorInfo(&error) == S_OK &&
                 error->lpVtbl->GetReference(error, &reference) == S_OK &&
                 RoResolveRestrictedErrorInfoReference(reference, &found) == S_OK && found == error;

        RoOriginateError(E_ABORT, NULL);
        ok = ok && GetRestrictedErrorInfo(&error) == S_OK &&
             error->lpVtbl->GetReference(error, &later) == S_OK &&
             memcmp(reference, later, 16 * sizeof *later) != 0 && /* the process's half */
             stacksplice_error_thread(UNKNOWN(error), &thread) == S_OK &&
             thread == (uint64_t)getpid();
        _exit(ok ? 0 : 1);
    }
    child_check(child);
}

static pthread_key_t late_key;
static error_double late_double, at_exit_double;

/* A destructor that runs after ours may have run, and originates. */
static void originate_late(void *data)
{
    RoOriginateLanguageException(E_FAIL, NULL, error_double_unknown(&late_double));
}

static void *end_with_error(void *data)
{
    (void)pthread_setspecific(late_key, data);
    RoOriginateLanguageException(E_FAIL, NULL, error_double_unknown(&at_exit_double));
    return NULL;
}

FRESH_TEST(test_error_made_by_a_late_destructor_is_released)
{
    error_double_init(&late_double, 1);
    error_double_init(&at_exit_double, 1);
    assert_int_equal(pthread_key_create(&late_key, originate_late), 0);
    (void)thread_run(end_with_error, &late_key);
    assert_int_equal(pthread_key_delete(late_key), 0);
    assert_int_equal(at_exit_double.outside, 1);
    assert_int_equal(at_exit_double.inside, 0);
    assert_int_equal(late_double.outside, 1);
    assert_int_equal(late_double.inside, 0);
}

/* ---- A foreign object around an error --------------------------------------------------------*/

typedef struct wrapper {
    IErrorInfo IErrorInfo_iface;
    ULONG refs;
    IRestrictedErrorInfo *inner; /* answers every question that is not about IErrorInfo */
} wrapper;

static HRESULT STDMETHODCALLTYPE wrapper_QueryInterface(IErrorInfo *iface, REFIID iid, void **out)
{
    wrapper *self = (wrapper *)(void *)iface;

    if (!IsEqualIID(iid, &IID_IErrorInfo) && !IsEqualIID(iid, &IID_IUnknown))
        return self->inner->lpVtbl->QueryInterface(self->inner, iid, out);
    self->refs++;
    *out = iface;
    return S_OK;
}

static ULONG STDMETHODCALLTYPE wrapper_AddRef(IErrorInfo *iface)
{
    return ++((wrapper *)(void *)iface)->refs;
}

static ULONG STDMETHODCALLTYPE wrapper_Release(IErrorInfo *iface)
{
    return --((wrapper *)(void *)iface)->refs;
}

FRESH_TEST(test_foreign_object_around_an_error_is_foreign)
{
    static const IErrorInfoVtbl vtbl = {.QueryInterface = wrapper_QueryInterface,
                                        .AddRef = wrapper_AddRef,
                                        .Release = wrapper_Release};
    IRestrictedErrorInfo *inner, *out = NULL;
    wrapper around = {{&vtbl}, 1, NULL};
    error_double exception;

    error_double_init(&exception, 1);
    RoOriginateLanguageException(E_FAIL, NULL, error_double_unknown(&exception));
    inner = around.inner = take();
    assert_int_equal(SetErrorInfo(0, &around.IErrorInfo_iface), S_OK);
    assert_int_equal(stacksplice_peek_error(&out), S_FALSE);
    assert_int_equal(GetRestrictedErrorInfo(&out), S_FALSE);
    assert_null(out);
    assert_int_equal(around.refs, 1);
    release(inner);
    assert_int_equal(exception.outside, 1);
    assert_int_equal(exception.inside, 0);
}

FRESH_TEST(test_version)
{
    int parts[3];

    assert_int_equal(sscanf(stacksplice_version(), "%d.%d.%d", &parts[0], &parts[1], &parts[2]), 3);
    assert_int_equal(parts[0], STACKSPLICE_VERSION_MAJOR);
    assert_int_equal(parts[1], STACKSPLICE_VERSION_MINOR);
    assert_int_equal(parts[2], STACKSPLICE_VERSION_PATCH);
}

/* Every part has a value. */
FRESH_TEST(test_build_names_its_parts)
{
    static const char *const keys[] = {"system", "frames", "lines", "compiler", "build"};
    const char *rest = stacksplice_build();

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const size_t length = strlen(keys[i]);

        assert_int_equal(strncmp(rest, keys[i], length), 0);
        assert_int_equal(strncmp(rest + length, ": ", 2), 0);
        assert_true(isalpha((unsigned char)rest[length + 2]));
        rest = strstr(rest, ", ");
        rest = rest ? rest + 2 : "";
    }
    assert_string_equal(rest, "");
}

GROUP(NULL, fresh)
