/* The binary interface: identifiers, the order of methods, sizes and offsets. */
#include "conformance.h"

#include <stacksplice/winrt/stowedexception.h>

#include <string.h>

#ifdef __cplusplus
#define STATIC_CHECK(condition) static_assert(condition, #condition)
#else
#define STATIC_CHECK(condition) _Static_assert(condition, #condition)
#endif

STATIC_CHECK(sizeof(WCHAR) == 2 && sizeof(OLECHAR) == 2);
STATIC_CHECK(sizeof(HRESULT) == 4 && sizeof(BOOL) == 4 && sizeof(ULONG) == 4);
STATIC_CHECK(sizeof(UINT_PTR) == sizeof(void *) && sizeof(USHORT) == 2 && sizeof(BYTE) == 1);
STATIC_CHECK((HRESULT)-1 < 0 && (ULONG)-1 > 0);
STATIC_CHECK(sizeof(GUID) == 16);
STATIC_CHECK(sizeof(HSTRING_HEADER) == (sizeof(void *) == 8 ? 24 : 20));

/* ---- Stowed exceptions -----------------------------------------------------------------------*/

STATIC_CHECK(offsetof(STOWED_EXCEPTION_INFORMATION_HEADER, Signature) == 4);
STATIC_CHECK(offsetof(STOWED_EXCEPTION_INFORMATION_V2, ResultCode) == 8);
#if UINTPTR_MAX > 0xffffffffu
STATIC_CHECK(offsetof(STOWED_EXCEPTION_INFORMATION_V2, ExceptionAddress) == 16);
STATIC_CHECK(offsetof(STOWED_EXCEPTION_INFORMATION_V2, ErrorText) == 16);
STATIC_CHECK(offsetof(STOWED_EXCEPTION_INFORMATION_V2, StackTraceWordSize) == 24);
STATIC_CHECK(offsetof(STOWED_EXCEPTION_INFORMATION_V2, StackTraceWords) == 28);
STATIC_CHECK(offsetof(STOWED_EXCEPTION_INFORMATION_V2, StackTrace) == 32);
STATIC_CHECK(offsetof(STOWED_EXCEPTION_INFORMATION_V2, NestedExceptionType) == 40);
STATIC_CHECK(offsetof(STOWED_EXCEPTION_INFORMATION_V2, NestedException) == 48);
STATIC_CHECK(sizeof(STOWED_EXCEPTION_INFORMATION_V1) == 40);
STATIC_CHECK(sizeof(STOWED_EXCEPTION_INFORMATION_V2) == 56);
#else
STATIC_CHECK(offsetof(STOWED_EXCEPTION_INFORMATION_V2, ExceptionAddress) == 16);
STATIC_CHECK(offsetof(STOWED_EXCEPTION_INFORMATION_V2, ErrorText) == 16);
STATIC_CHECK(offsetof(STOWED_EXCEPTION_INFORMATION_V2, StackTraceWordSize) == 20);
STATIC_CHECK(offsetof(STOWED_EXCEPTION_INFORMATION_V2, StackTraceWords) == 24);
STATIC_CHECK(offsetof(STOWED_EXCEPTION_INFORMATION_V2, StackTrace) == 28);
STATIC_CHECK(offsetof(STOWED_EXCEPTION_INFORMATION_V2, NestedExceptionType) == 32);
STATIC_CHECK(offsetof(STOWED_EXCEPTION_INFORMATION_V2, NestedException) == 36);
STATIC_CHECK(sizeof(STOWED_EXCEPTION_INFORMATION_V1) == 32);
STATIC_CHECK(sizeof(STOWED_EXCEPTION_INFORMATION_V2) == 40);
#endif

static uint32_t characters(const char *text, BOOL reversed)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++)
        value = value << 8 | (unsigned char)text[reversed ? 3 - i : i];
    return value;
}

TEST(test_stowed_constants_and_bit_field)
{
    STOWED_EXCEPTION_INFORMATION_V2 record;
    uint32_t word;

    assert_int_equal(STOWED_EXCEPTION_INFORMATION_V1_SIGNATURE, characters("SE01", FALSE));
    assert_int_equal(STOWED_EXCEPTION_INFORMATION_V2_SIGNATURE, characters("SE02", FALSE));
    assert_int_equal(STOWED_EXCEPTION_NESTED_TYPE_NONE, 0);
    assert_int_equal(STOWED_EXCEPTION_NESTED_TYPE_STOWED, characters("STOW", TRUE));
    assert_int_equal(STOWED_EXCEPTION_NESTED_TYPE_CLR, characters("CLR1", TRUE));
    assert_int_equal(STOWED_EXCEPTION_NESTED_TYPE_LEO, characters("LEO1", TRUE));
    assert_int_equal(STOWED_EXCEPTION_NESTED_TYPE_WIN32, 0x45323357);
    assert_int_equal(STATUS_STOWED_EXCEPTION, 0xC000027B);
    memset(&record, 0, sizeof record);
    record.ExceptionForm = STOWED_EXCEPTION_FORM_BINARY;
    record.ThreadId = 5;
    memcpy(&word, (char *)&record + 12, sizeof word);
    assert_int_equal(word, 1 | 5 << 2);
}

/* ---- Identifiers -----------------------------------------------------------------------------*/

static const struct {
    const GUID *iid;
    unsigned char bytes[16]; /* as in memory of a little-endian machine */
} iid_cases[] = {
    {&IID_IUnknown,
     {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x46}},
    {&IID_IErrorInfo,
     {0x20, 0xb1, 0xf2, 0x1c, 0x7d, 0x54, 0x1b, 0x10, 0x8e, 0x65, 0x08, 0x00, 0x2b, 0x2b, 0xd1,
      0x19}},
    {&IID_ICreateErrorInfo,
     {0x40, 0x33, 0xf0, 0x22, 0x7d, 0x54, 0x1b, 0x10, 0x8e, 0x65, 0x08, 0x00, 0x2b, 0x2b, 0xd1,
      0x19}},
    {&IID_ISupportErrorInfo,
     {0x60, 0x3d, 0x0b, 0xdf, 0x8f, 0x54, 0x1b, 0x10, 0x8e, 0x65, 0x08, 0x00, 0x2b, 0x2b, 0xd1,
      0x19}},
    {&IID_IRestrictedErrorInfo,
     {0x92, 0x70, 0xba, 0x82, 0x88, 0x4c, 0x7d, 0x42, 0xa7, 0xbc, 0x16, 0xdd, 0x93, 0xfe, 0xb6,
      0x7e}},
    {&IID_ILanguageExceptionErrorInfo,
     {0xf3, 0xdb, 0xa2, 0x04, 0x83, 0xdf, 0x6c, 0x11, 0x09, 0x46, 0x08, 0x12, 0xab, 0xf6, 0xe0,
      0x7d}},
    {&IID_ILanguageExceptionErrorInfo2,
     {0xc4, 0xe5, 0x46, 0x57, 0x97, 0x5b, 0x4c, 0x42, 0xb6, 0x20, 0x28, 0x22, 0x91, 0x57, 0x34,
      0xdd}},
    {&IID_ILanguageExceptionTransform,
     {0x71, 0xa2, 0xb5, 0xfe, 0xcd, 0xa6, 0xce, 0x45, 0x88, 0x0a, 0x69, 0x67, 0x06, 0xba, 0xdc,
      0x65}},
    {&IID_ILanguageExceptionStackBackTrace,
     {0xb5, 0x3f, 0xe5, 0xcb, 0x67, 0xf9, 0x58, 0x42, 0x8d, 0x34, 0x42, 0xf5, 0xe2, 0x58, 0x33,
      0xde}},
    {&IID_IAgileObject,
     {0x94, 0x2b, 0xea, 0x94, 0xcc, 0xe9, 0xe0, 0x49, 0xc0, 0xff, 0xee, 0x64, 0xca, 0x8f, 0x5b,
      0x90}},
    {&IID_INoMarshal,
     {0x1b, 0x69, 0xc8, 0xec, 0xdb, 0xc1, 0xc0, 0x4d, 0x85, 0x5e, 0x65, 0xf6, 0xc5, 0x51, 0xaf,
      0x49}},
    {&IID_IMarshal,
     {0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x46}},
    {&GUID_NULL,
     {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00}},
};

TEST(test_identifiers)
{
    for (size_t i = 0; i < COUNT_OF(iid_cases); i++) {
        const unsigned char *b = iid_cases[i].bytes;

        check_row(i, iid_cases[i].iid->Data1,
                  (uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 | b[0]);
        check_row(i, iid_cases[i].iid->Data2, b[5] << 8 | b[4]);
        check_row(i, iid_cases[i].iid->Data3, b[7] << 8 | b[6]);
        check_row(i, memcmp(iid_cases[i].iid->Data4, b + 8, 8), 0);
    }
}

/* ---- Order of methods ------------------------------------------------------------------------*/

#ifndef __cplusplus
#define SLOT(interface, method, number) \
    STATIC_CHECK(offsetof(interface##Vtbl, method) == (number) * sizeof(void *))
#define UNKNOWN_SLOTS(interface)        \
    SLOT(interface, QueryInterface, 0); \
    SLOT(interface, AddRef, 1);         \
    SLOT(interface, Release, 2)
UNKNOWN_SLOTS(IUnknown);
STATIC_CHECK(sizeof(IUnknownVtbl) == 3 * sizeof(void *));
UNKNOWN_SLOTS(IErrorInfo);
SLOT(IErrorInfo, GetGUID, 3);
SLOT(IErrorInfo, GetSource, 4);
SLOT(IErrorInfo, GetDescription, 5);
SLOT(IErrorInfo, GetHelpFile, 6);
SLOT(IErrorInfo, GetHelpContext, 7);
STATIC_CHECK(sizeof(IErrorInfoVtbl) == 8 * sizeof(void *));
UNKNOWN_SLOTS(ICreateErrorInfo);
SLOT(ICreateErrorInfo, SetGUID, 3);
SLOT(ICreateErrorInfo, SetSource, 4);
SLOT(ICreateErrorInfo, SetDescription, 5);
SLOT(ICreateErrorInfo, SetHelpFile, 6);
SLOT(ICreateErrorInfo, SetHelpContext, 7);
STATIC_CHECK(sizeof(ICreateErrorInfoVtbl) == 8 * sizeof(void *));
UNKNOWN_SLOTS(ISupportErrorInfo);
SLOT(ISupportErrorInfo, InterfaceSupportsErrorInfo, 3);
STATIC_CHECK(sizeof(ISupportErrorInfoVtbl) == 4 * sizeof(void *));
UNKNOWN_SLOTS(IRestrictedErrorInfo);
SLOT(IRestrictedErrorInfo, GetErrorDetails, 3);
SLOT(IRestrictedErrorInfo, GetReference, 4);
STATIC_CHECK(sizeof(IRestrictedErrorInfoVtbl) == 5 * sizeof(void *));
UNKNOWN_SLOTS(ILanguageExceptionErrorInfo);
SLOT(ILanguageExceptionErrorInfo, GetLanguageException, 3);
STATIC_CHECK(sizeof(ILanguageExceptionErrorInfoVtbl) == 4 * sizeof(void *));
UNKNOWN_SLOTS(ILanguageExceptionErrorInfo2);
SLOT(ILanguageExceptionErrorInfo2, GetLanguageException, 3);
SLOT(ILanguageExceptionErrorInfo2, GetPreviousLanguageExceptionErrorInfo, 4);
SLOT(ILanguageExceptionErrorInfo2, CapturePropagationContext, 5);
SLOT(ILanguageExceptionErrorInfo2, GetPropagationContextHead, 6);
STATIC_CHECK(sizeof(ILanguageExceptionErrorInfo2Vtbl) == 7 * sizeof(void *));
UNKNOWN_SLOTS(ILanguageExceptionTransform);
SLOT(ILanguageExceptionTransform, GetTransformedRestrictedErrorInfo, 3);
STATIC_CHECK(sizeof(ILanguageExceptionTransformVtbl) == 4 * sizeof(void *));
UNKNOWN_SLOTS(ILanguageExceptionStackBackTrace);
SLOT(ILanguageExceptionStackBackTrace, GetStackBackTrace, 3);
STATIC_CHECK(sizeof(ILanguageExceptionStackBackTraceVtbl) == 4 * sizeof(void *));
UNKNOWN_SLOTS(IAgileObject);
STATIC_CHECK(sizeof(IAgileObjectVtbl) == 3 * sizeof(void *));
UNKNOWN_SLOTS(INoMarshal);
STATIC_CHECK(sizeof(INoMarshalVtbl) == 3 * sizeof(void *));
UNKNOWN_SLOTS(IMarshal);
SLOT(IMarshal, GetUnmarshalClass, 3);
SLOT(IMarshal, GetMarshalSizeMax, 4);
SLOT(IMarshal, MarshalInterface, 5);
SLOT(IMarshal, UnmarshalInterface, 6);
SLOT(IMarshal, ReleaseMarshalData, 7);
SLOT(IMarshal, DisconnectObject, 8);
STATIC_CHECK(sizeof(IMarshalVtbl) == 9 * sizeof(void *));
#endif

/* Calls by number, as binary code does: the table of OBJECT as it lies in memory. */
typedef void (*any_function)(void);

static any_function slot_of(void *object, unsigned number)
{
    return (*(any_function **)object)[number];
}

FRESH_TEST(test_methods_by_number)
{
    typedef HRESULT (*details_function)(void *, BSTR *, HRESULT *, BSTR *, BSTR *);
    typedef HRESULT (*text_function)(void *, BSTR *);
    typedef HRESULT (*object_function)(void *, void **);
    typedef ULONG (*count_function)(void *);
    typedef HRESULT (*capture_function)(void *, IUnknown *);
    BSTR description = NULL, message = NULL, sid = NULL, reference = NULL;
    IRestrictedErrorInfo *error;
    IErrorInfo *info;
    ILanguageExceptionErrorInfo2 *language;
    void *out = NULL;
    HRESULT hr;

    RoOriginateErrorW(E_FAIL, 0, OLESTR("m"));
    error = take();
    assert_int_equal(((count_function)slot_of(error, 1))(error), 2);
    assert_int_equal(((count_function)slot_of(error, 2))(error), 1);
    assert_int_equal(
        ((details_function)slot_of(error, 3))(error, &description, &hr, &message, &sid), S_OK);
    check_text(message, OLESTR("m"));
    assert_int_equal(((text_function)slot_of(error, 4))(error, &reference), S_OK);
    SysFreeString(description);
    SysFreeString(message);
    SysFreeString(reference);
    info = query(error, IErrorInfo);
    assert_int_equal(((text_function)slot_of(info, 5))(info, &description), S_OK);
    check_text(description, GENERIC_FAIL);
    SysFreeString(description);
    release(info);
    language = query(error, ILanguageExceptionErrorInfo2);
    assert_int_equal(((object_function)slot_of(language, 3))(language, &out), S_OK);
    assert_null(out);
    assert_int_equal(((object_function)slot_of(language, 4))(language, &out), S_OK);
    assert_null(out);
    assert_int_equal(((capture_function)slot_of(language, 5))(language, NULL), S_OK);
    assert_int_equal(((object_function)slot_of(language, 6))(language, &out), S_OK);
    assert_non_null(out);
    release(out);
    release(language);
    release(error);
}
