/* libstacksplice-winrt: the bare names reach the core, and add no frame of their own. */
#include "error_test.h"
#include "frames.h"
#include "libraries.h"

static void *library;

static int load(void **state)
{
    library = open_library("libstacksplice-winrt.so.0");
    return 0;
}

FRESH_TEST(test_bare_functions_act_on_the_same_slot)
{
    BOOL (*originate)(HRESULT, UINT, PCWSTR);
    HRESULT (*get)(IRestrictedErrorInfo **);
    IRestrictedErrorInfo *error = NULL;
    char text[20];

    (void)find_in(library, "RoOriginateErrorW", &originate);
    (void)find_in(library, "GetRestrictedErrorInfo", &get);
    assert_int_equal(originate(E_FAIL, 4, u"bare!"), TRUE);
    error = take();
    message_of(error, text, sizeof text);
    assert_string_equal(text, "bare");
    assert_int_equal(SetRestrictedErrorInfo(error), S_OK);
    release(error);
    assert_int_equal(get(&error), S_OK);
    release(error);
    assert_int_equal(get(&error), S_FALSE);
}

static NOINLINE void capture_by_name(uintptr_t *first)
{
    USHORT (*capture)(ULONG, ULONG, PVOID *, PULONG);
    void *frames[8];

    (void)find_in(library, "RtlCaptureStackBackTrace", &capture);
    assert_true(capture(0, 8, frames, NULL) > 1);
    *first = (uintptr_t)frames[0];
}

FRESH_TEST(test_bare_functions_are_not_on_the_stack)
{
    uintptr_t first = 0;

    NEEDS_NATIVE_FRAMES();
    capture_by_name(&first);
    assert_true(first - (uintptr_t)capture_by_name < 1000);
}

FRESH_TEST(test_bare_identifiers_are_equal)
{
    static const struct {
        const char *name;
        const IID *iid;
    } cases[] = {
        {"GUID_NULL", &GUID_NULL},
        {"IID_IUnknown", &IID_IUnknown},
        {"IID_IErrorInfo", &IID_IErrorInfo},
        {"IID_IRestrictedErrorInfo", &IID_IRestrictedErrorInfo},
        {"IID_ILanguageExceptionErrorInfo2", &IID_ILanguageExceptionErrorInfo2},
        {"IID_IAgileObject", &IID_IAgileObject},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const void *bare = dlsym(library, cases[i].name);

        assert_non_null(bare);
        assert_ptr_not_equal(bare, cases[i].iid);
        assert_memory_equal(bare, cases[i].iid, sizeof(IID));
    }
}

GROUP(load, fresh)
