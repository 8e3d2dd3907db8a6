/*
 * HSTRING: immutable, reference-counted UTF-16 text.
 *
 * The empty string is NULL and NULL is the empty string: every function takes it.  A string always
 * ends in a NUL that its length does not count, and may hold others.
 *
 * Source: "winstring.h header" and the page of each function.
 */
#ifndef STACKSPLICE_WINRT_WINSTRING_H
#define STACKSPLICE_WINRT_WINSTRING_H

#include "hstring.h"
#include "winerror.h"

#ifdef _WIN32
#include <winstring.h>
#else

/*
 * A copy of LENGTH units at SOURCE, which need not end in NUL; NULL when LENGTH is 0.
 * Errors: E_INVALIDARG if string is NULL; E_POINTER if source is NULL and length is not 0;
 * E_OUTOFMEMORY; and then *STRING is NULL where it can be.
 * [own: caller deletes *string | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_WINRT_API HRESULT WindowsCreateString(PCNZWCH source, UINT32 length, HSTRING *string)
    STACKSPLICE_WINRT_LINK(WindowsCreateString);

/*
 * A string that lives in *HEADER and points to SOURCE, which must have a NUL at [LENGTH] and
 * outlive it.  Deleting it does nothing; a duplicate is a copy.
 * Errors: E_INVALIDARG if header or string is NULL, or there is no NUL at [length]; E_POINTER if
 * source is NULL and length is not 0.
 * [own: borrows source and header | thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_WINRT_API HRESULT WindowsCreateStringReference(PCWSTR source, UINT32 length,
                                                           HSTRING_HEADER *header, HSTRING *string)
    STACKSPLICE_WINRT_LINK(WindowsCreateStringReference);

/*
 * Give up one reference.  Always S_OK.
 * [own: takes string | thread: any | alloc: frees | signal: no]
 */
STACKSPLICE_WINRT_API HRESULT WindowsDeleteString(HSTRING string)
    STACKSPLICE_WINRT_LINK(WindowsDeleteString);

/*
 * A further reference to STRING, or a copy of a string made by WindowsCreateStringReference.
 * Errors: E_INVALIDARG if copy is NULL; E_OUTOFMEMORY.
 * [own: caller deletes *copy | thread: any | alloc: for a reference string | signal: no]
 */
STACKSPLICE_WINRT_API HRESULT WindowsDuplicateString(HSTRING string, HSTRING *copy)
    STACKSPLICE_WINRT_LINK(WindowsDuplicateString);

/*
 * The text, which lives as long as STRING does, and its length (LENGTH may be NULL); never NULL.
 * [own: borrowed | thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_WINRT_API PCWSTR WindowsGetStringRawBuffer(HSTRING string, UINT32 *length)
    STACKSPLICE_WINRT_LINK(WindowsGetStringRawBuffer);

/* The length in units.  [own: nothing | thread: any | alloc: no | signal: yes] */
STACKSPLICE_WINRT_API UINT32 WindowsGetStringLen(HSTRING string)
    STACKSPLICE_WINRT_LINK(WindowsGetStringLen);

/* Whether the length is 0.  [own: nothing | thread: any | alloc: no | signal: yes] */
STACKSPLICE_WINRT_API BOOL WindowsIsStringEmpty(HSTRING string)
    STACKSPLICE_WINRT_LINK(WindowsIsStringEmpty);

#endif /* _WIN32 */
#endif
