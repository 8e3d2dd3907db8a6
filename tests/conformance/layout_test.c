/* The binary interface: identifiers, the order of methods, sizes and offsets. */
#define INITGUID
#include "conformance.h"

#include <stacksplice/winrt/combaseapi.h>

#include <stdlib.h>
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
STATIC_CHECK(sizeof(INT8) == 1 && sizeof(INT16) == 2 && sizeof(LONGLONG) == 8 &&
             sizeof(SCODE) == 4);
STATIC_CHECK((INT8)-1 < 0 && (INT16)-1 < 0 && (LONGLONG)-1 < 0 && (LONG_PTR)-1 < 0 &&
             (SCODE)-1 < 0);
STATIC_CHECK(sizeof(UINT8) == 1 && sizeof(UINT16) == 2 && sizeof(ULONGLONG) == 8);
STATIC_CHECK((UINT8)-1 > 0 && (UINT16)-1 > 0 && (ULONGLONG)-1 > 0 && (ULONG_PTR)-1 > 0);
STATIC_CHECK(sizeof(BOOLEAN) == 1 && sizeof(UCHAR) == 1 && sizeof(SIZE_T) == sizeof(void *));
STATIC_CHECK(sizeof(DWORD_PTR) == sizeof(void *) && sizeof(HANDLE) == sizeof(void *));
STATIC_CHECK(sizeof(GUID) == 16);
STATIC_CHECK(EXCEPTION_RO_ORIGINATEERROR == 0x40080201 &&
             EXCEPTION_RO_TRANSFORMERROR == 0x40080202);
STATIC_CHECK(sizeof(HSTRING_HEADER) == (sizeof(void *) == 8 ? 24 : 20));

/* ---- Identifiers -----------------------------------------------------------------------------*/

static const struct {
    const GUID *iid;
    const char *bytes; /* as in memory of a little-endian machine, in hexadecimal */
} iid_cases[] = {
    {&IID_IUnknown, "0000000000000000c000000000000046"},
    {&IID_IErrorInfo, "20b1f21c7d541b108e6508002b2bd119"},
    {&IID_IRestrictedErrorInfo, "9270ba82884c7d42a7bc16dd93feb67e"},
    {&IID_ILanguageExceptionErrorInfo, "f3dba20483df6c1109460812abf6e07d"},
    {&IID_ILanguageExceptionErrorInfo2, "c4e54657975b4c42b6202822915734dd"},
    {&IID_ILanguageExceptionTransform, "71a2b5fecda6ce45880a696706badc65"},
    {&IID_ILanguageExceptionStackBackTrace, "b53fe5cb67f958428d3442f5e25833de"},
    {&IID_IAgileObject, "942bea94cce9e049c0ffee64ca8f5b90"},
    {&GUID_NULL, "00000000000000000000000000000000"},
};

static unsigned byte_of(const char *digits, size_t at)
{
    const char pair[] = {digits[2 * at], digits[2 * at + 1], '\0'};

    return (unsigned)strtoul(pair, NULL, 16);
}

TEST(test_identifiers)
{
    for (size_t i = 0; i < COUNT_OF(iid_cases); i++) {
        const GUID *iid = iid_cases[i].iid;
        unsigned char b[16];

        for (size_t at = 0; at < sizeof b; at++)
            b[at] = (unsigned char)byte_of(iid_cases[i].bytes, at);
        check_row(i, iid->Data1,
                  (uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 | b[0]);
        check_row(i, iid->Data2, b[5] << 8 | b[4]);
        check_row(i, iid->Data3, b[7] << 8 | b[6]);
        check_row(i, memcmp(iid->Data4, b + 8, 8), 0);
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
#endif

/* ---- What programs declare by the macros of Windows ------------------------------------------*/

/* {5C2F6A1E-0B7D-4D39-9A55-6C1E20F3A8B4} */
DEFINE_GUID(IID_ICounter, 0x5c2f6a1e, 0x0b7d, 0x4d39, 0x9a, 0x55, 0x6c, 0x1e, 0x20, 0xf3, 0xa8,
            0xb4);

#define INTERFACE ICounter
DECLARE_INTERFACE_(ICounter, IUnknown)
{
#ifndef __cplusplus
    STDMETHOD(QueryInterface)(THIS_ REFIID riid, void **object) PURE;
    STDMETHOD_(ULONG, AddRef)(THIS) PURE;
    STDMETHOD_(ULONG, Release)(THIS) PURE;
#endif
    STDMETHOD(Add)(THIS_ DWORD_PTR amount, PDWORD sum) PURE;
    STDMETHOD_(BOOLEAN, IsEven)(THIS) PURE;
};

static DWORD count;

#ifdef __cplusplus
struct Counter final : ICounter {
    STDMETHODIMP QueryInterface(REFIID, void **) override
    {
        return E_NOINTERFACE;
    }
    STDMETHODIMP_(ULONG) AddRef() override
    {
        return 1;
    }
    STDMETHODIMP_(ULONG) Release() override
    {
        return 1;
    }
    STDMETHODIMP Add(DWORD_PTR amount, PDWORD sum) override
    {
        *sum = count += (DWORD)amount;
        return S_OK;
    }
    STDMETHODIMP_(BOOLEAN) IsEven() override
    {
        return count % 2 == 0;
    }
};
static Counter counter;
#else
static STDMETHODIMP add(ICounter *This, DWORD_PTR amount, PDWORD sum)
{
    UNREFERENCED_PARAMETER(This);
    *sum = count += (DWORD)amount;
    return S_OK;
}

static STDMETHODIMP_(BOOLEAN) is_even(ICounter *This)
{
    UNREFERENCED_PARAMETER(This);
    return count % 2 == 0;
}

static const ICounterVtbl counter_table = {NULL, NULL, NULL, add, is_even};
static ICounter counter = {&counter_table};
#endif

TEST(test_interfaces_and_identifiers_by_macros)
{
    static const unsigned char last[] = {0x9a, 0x55, 0x6c, 0x1e, 0x20, 0xf3, 0xa8, 0xb4};
    ICounter *object = &counter;
    DWORD sum = 0;

    assert_int_equal(CALL(object, Add, 3, &sum), S_OK);
    assert_int_equal(sum, 3);
    assert_false(CALL0(object, IsEven));
    assert_int_equal(IID_ICounter.Data1, 0x5c2f6a1e);
    assert_int_equal(IID_ICounter.Data3, 0x4d39);
    assert_memory_equal(IID_ICounter.Data4, last, sizeof last);
}
