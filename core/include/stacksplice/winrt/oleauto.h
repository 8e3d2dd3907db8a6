/*
 * BSTR, and the thread's error slot as COM Automation sees it.
 *
 * A BSTR points to UTF-16 text that ends in a NUL and may hold others; the four bytes before it
 * hold its length in bytes.  Readers take NULL for the empty string.
 *
 * Source: "oleauto.h header" and the page of each function.
 */
#ifndef STACKSPLICE_WINRT_OLEAUTO_H
#define STACKSPLICE_WINRT_OLEAUTO_H

#include "oaidl.h"

#ifdef _WIN32
#include <oleauto.h>
#else

/* ---- BSTR ------------------------------------------------------------------------------------*/

/*
 * A copy of TEXT up to its NUL.  NULL when TEXT is NULL or memory ran out; a copy of "" is not
 * NULL.
 * [own: caller frees | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_WINRT_API BSTR SysAllocString(const OLECHAR *text)
    STACKSPLICE_WINRT_LINK(SysAllocString);

/*
 * A copy of LENGTH units at TEXT, NULs included; with TEXT NULL their content is undefined.  NULL
 * when memory ran out.
 * [own: caller frees | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_WINRT_API BSTR SysAllocStringLen(const OLECHAR *text, UINT length)
    STACKSPLICE_WINRT_LINK(SysAllocStringLen);

/* SysAllocStringLen for LENGTH bytes, which may be odd. */
STACKSPLICE_WINRT_API BSTR SysAllocStringByteLen(LPCSTR bytes, UINT length)
    STACKSPLICE_WINRT_LINK(SysAllocStringByteLen);

/* Free STRING; NULL is allowed.  [own: takes string | thread: any | alloc: frees | signal: no] */
STACKSPLICE_WINRT_API void SysFreeString(BSTR string) STACKSPLICE_WINRT_LINK(SysFreeString);

/* The length in units, of NULL 0.  [own: nothing | thread: any | alloc: no | signal: yes] */
STACKSPLICE_WINRT_API UINT SysStringLen(BSTR string) STACKSPLICE_WINRT_LINK(SysStringLen);

/* The length in bytes, of NULL 0.  [own: nothing | thread: any | alloc: no | signal: yes] */
STACKSPLICE_WINRT_API UINT SysStringByteLen(BSTR string) STACKSPLICE_WINRT_LINK(SysStringByteLen);

/* ---- The thread's error slot -----------------------------------------------------------------*/

/*
 * Take the calling thread's error out of its slot.  S_OK and the object, or S_FALSE and NULL when
 * the slot is empty.
 * Errors: E_INVALIDARG if reserved is not 0 or info is NULL.
 * [own: caller releases *info | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_WINRT_API HRESULT GetErrorInfo(ULONG reserved, IErrorInfo **info)
    STACKSPLICE_WINRT_LINK(GetErrorInfo);

/*
 * Put INFO, which may be of any implementation, into the calling thread's slot and release what was
 * there; NULL empties the slot.
 * Errors: E_INVALIDARG if reserved is not 0.
 * [own: the slot takes a reference of its own | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_WINRT_API HRESULT SetErrorInfo(ULONG reserved, IErrorInfo *info)
    STACKSPLICE_WINRT_LINK(SetErrorInfo);

#endif /* _WIN32 */
#endif
