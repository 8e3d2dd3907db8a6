#include "error_memory_cases.h"

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
    STARVED(ok = RoOriginateErrorW(E_FAIL, 0, u"new"));
    return slot_result(ok, E_FAIL);
}

static HRESULT originate_hstring(void)
{
    HSTRING text = NULL;
    int ok;

    assert_int_equal(WindowsCreateString(u"text", 4, &text), S_OK);
    STARVED(ok = RoOriginateError(E_FAIL, text));
    WindowsDeleteString(text);
    return slot_result(ok, E_FAIL);
}

/* An origination of E_OUTOFMEMORY itself cannot fail. */
static HRESULT originate_out_of_memory(void)
{
    int ok;

    STARVED(ok = RoOriginateErrorW(E_OUTOFMEMORY, 0, u"new"));
    assert_true(ok);
    return slot_result(ok, E_OUTOFMEMORY);
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
static HRESULT add_note(void)
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
static HRESULT originate_group(void)
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
    STARVED(hr = stacksplice_originate(E_FAIL, "text", 4, error_double_unknown(&x), &error));
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
    STARVED(ok = RoTransformErrorW(E_ABORT, E_FAIL, 0, u"new"));
    return slot_result(ok, E_FAIL);
}

static HRESULT transform_hstring(void)
{
    int ok;

    RoOriginateErrorW(E_ABORT, 0, u"old");
    STARVED(ok = RoTransformError(E_ABORT, E_FAIL, NULL));
    return slot_result(ok, E_FAIL);
}

static HRESULT match(HRESULT wanted)
{
    IRestrictedErrorInfo *error = NULL;
    HRESULT hr;

    RoOriginateErrorW(E_ABORT, 0, u"stale");
    STARVED(hr = RoGetMatchingRestrictedErrorInfo(wanted, &error));
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
    STARVED(hr = RoCaptureErrorContext(E_FAIL));
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

static HRESULT capture_node(void)
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

static HRESULT read_details(void)
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

static HRESULT read_reference(void)
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

static HRESULT read_description(void)
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

static HRESULT bstr_result(BSTR string)
{
    HRESULT hr = string ? S_OK : E_OUTOFMEMORY;

    memory_disarm();
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

    STARVED(hr = WindowsCreateString(u"x", 1, &string));
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
    STARVED(hr = WindowsDuplicateString(string, &copy));
    assert_int_equal(copy != NULL, hr == S_OK);
    WindowsDeleteString(copy);
    return hr;
}

static HRESULT capture(void)
{
    uintptr_t frames[64];
    uint32_t captured = 0;
    HRESULT hr;

    STARVED(hr = stacksplice_capture(0, 64, frames, &captured, NULL));
    return hr == S_FALSE ? S_OK : hr;
}

static HRESULT capture_native(void)
{
    void *frames[64];

    STARVED((void)RtlCaptureStackBackTrace(0, 64, frames, NULL));
    return S_OK;
}

static HRESULT add_stack(void)
{
    static char stack[4096];
    HRESULT hr;

    STARVED(hr = stacksplice_add_stack(stack, stack + sizeof stack));
    if (hr == S_OK)
        assert_int_equal(stacksplice_remove_stack(stack), S_OK);
    return hr;
}

const memory_case memory_cases[] = {
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
};

const size_t memory_case_count = COUNT_OF(memory_cases);
