/*
 * The base types of the Windows API, with the widths they have on 64-bit Windows, for platforms
 * without the Windows SDK.  On Windows this and every other header of this folder includes the
 * SDK's own and declares nothing.
 *
 * Choices:
 *  - LONG, ULONG, DWORD, BOOL, HRESULT have 32 bits, whatever `long` has.
 *  - WCHAR has 16 bits: `wchar_t` where the compiler's is that wide (-fshort-wchar), else
 * `uint16_t` in C and `char16_t` in C++.  All of them have one ABI.  OLESTR("text") is a literal of
 * it.
 *  - BSTR is `WCHAR *`.
 *  - There is no macro called `interface`; lpVtbl always points to const, so that a table may be.
 *
 * Functions of this folder have C linkage and link names of our own (stacksplice_RoOriginateError
 * for RoOriginateError), so that another library that happens to define SysAllocString or
 * GetErrorInfo neither takes over our calls nor is taken over.  libstacksplice-winrt exports the
 * bare names for those who link by name.
 */
#ifndef STACKSPLICE_WINRT_WTYPESBASE_H
#define STACKSPLICE_WINRT_WTYPESBASE_H

#ifdef _WIN32
#include <windows.h>
#include <wtypesbase.h>
#else

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- Linkage ---------------------------------------------------------------------------------*/

#ifdef __cplusplus
#define EXTERN_C extern "C"
#else
#define EXTERN_C extern
#endif

/* Empty: the platform's one calling convention. */
#define STDMETHODCALLTYPE
#define STDAPICALLTYPE
#define WINAPI
#define APIENTRY
#define CALLBACK

#define STDAPI EXTERN_C HRESULT STDAPICALLTYPE
#define STDAPI_(type) EXTERN_C type STDAPICALLTYPE
#define STDMETHODIMP HRESULT STDMETHODCALLTYPE
#define STDMETHODIMP_(type) type STDMETHODCALLTYPE

#define UNREFERENCED_PARAMETER(parameter) ((void)(parameter))

#if defined(STACKSPLICE_STATIC)
#define STACKSPLICE_WINRT_API EXTERN_C
#else
#define STACKSPLICE_WINRT_API EXTERN_C __attribute__((visibility("default")))
#endif

/* The link name of a declaration; the compiler's own prefix is "_" on macOS and "" on Linux. */
#define STACKSPLICE_WINRT_TEXT_(x) #x
#define STACKSPLICE_WINRT_TEXT(x) STACKSPLICE_WINRT_TEXT_(x)
#define STACKSPLICE_WINRT_LINK(name) \
    __asm__(STACKSPLICE_WINRT_TEXT(__USER_LABEL_PREFIX__) "stacksplice_" #name)

/* ---- Numbers and text ------------------------------------------------------------------------*/

typedef uint8_t BYTE;
typedef uint8_t UCHAR;
typedef uint16_t WORD;
typedef uint32_t DWORD;
typedef int16_t SHORT;
typedef uint16_t USHORT;
typedef int32_t INT;
typedef uint32_t UINT;
typedef int32_t LONG;
typedef uint32_t ULONG;
typedef int8_t INT8;
typedef uint8_t UINT8;
typedef int16_t INT16;
typedef uint16_t UINT16;
typedef int32_t INT32;
typedef uint32_t UINT32;
typedef int64_t INT64;
typedef uint64_t UINT64;
typedef int64_t LONGLONG;
typedef uint64_t ULONGLONG;
typedef intptr_t INT_PTR;
typedef uintptr_t UINT_PTR;
typedef intptr_t LONG_PTR;
typedef uintptr_t ULONG_PTR;
typedef uintptr_t DWORD_PTR;
typedef uintptr_t SIZE_T;
typedef int32_t BOOL;
typedef int32_t HRESULT;
typedef int32_t SCODE;
typedef char CHAR;
typedef void *PVOID;
typedef void *LPVOID;
typedef const void *LPCVOID;
typedef void *HMODULE;
typedef ULONG *PULONG;
typedef DWORD *PDWORD;
typedef CHAR *PSTR;
typedef CHAR *LPSTR;
typedef const CHAR *PCSTR;
typedef const CHAR *LPCSTR;

#ifndef TRUE
#define TRUE 1
#endif
#ifndef FALSE
#define FALSE 0
#endif

#if defined(__SIZEOF_WCHAR_T__) && __SIZEOF_WCHAR_T__ == 2
typedef wchar_t WCHAR;
#define OLESTR(text) L##text
#elif defined(__cplusplus)
typedef char16_t WCHAR;
#define OLESTR(text) u##text
#else
typedef uint16_t WCHAR;
#define OLESTR(text) u##text
#endif

typedef WCHAR OLECHAR;
typedef WCHAR *PWSTR;
typedef WCHAR *LPWSTR;
typedef const WCHAR *PCWSTR;
typedef const WCHAR *LPCWSTR;
typedef const WCHAR *PCNZWCH; /* with a length; need not end in NUL */
typedef OLECHAR *LPOLESTR;
typedef const OLECHAR *LPCOLESTR;

/* Text with its length in front of it: see oleauto.h. */
typedef OLECHAR *BSTR;

/* ---- Identifiers -----------------------------------------------------------------------------*/

typedef struct _GUID {
    uint32_t Data1;
    uint16_t Data2;
    uint16_t Data3;
    uint8_t Data4[8];
} GUID;
typedef GUID IID;
typedef GUID CLSID;

#ifdef __cplusplus
typedef const GUID &REFGUID;
typedef const IID &REFIID;
typedef const CLSID &REFCLSID;

inline int IsEqualGUID(REFGUID a, REFGUID b)
{
    return memcmp(&a, &b, sizeof(GUID)) == 0;
}
inline bool operator==(REFGUID a, REFGUID b)
{
    return memcmp(&a, &b, sizeof(GUID)) == 0;
}
inline bool operator!=(REFGUID a, REFGUID b)
{
    return !(a == b);
}
#else
typedef const GUID *REFGUID;
typedef const IID *REFIID;
typedef const CLSID *REFCLSID;

static inline int IsEqualGUID(REFGUID a, REFGUID b)
{
    return memcmp(a, b, sizeof(GUID)) == 0;
}
#endif
#define IsEqualIID(a, b) IsEqualGUID(a, b)
#define IsEqualCLSID(a, b) IsEqualGUID(a, b)

/* An identifier that the library defines. */
#define STACKSPLICE_WINRT_IID(name) \
    STACKSPLICE_WINRT_API const IID name STACKSPLICE_WINRT_LINK(name)

STACKSPLICE_WINRT_API const GUID GUID_NULL STACKSPLICE_WINRT_LINK(GUID_NULL);
#define IID_NULL GUID_NULL

#endif /* _WIN32 */
#endif
