/* The types behind winstring.h. */
#ifndef STACKSPLICE_WINRT_HSTRING_H
#define STACKSPLICE_WINRT_HSTRING_H

#include "wtypesbase.h"

#ifdef _WIN32
#include <hstring.h>
#else

/* Immutable counted text; NULL is the empty string. */
typedef struct HSTRING__ {
    int unused;
} HSTRING__;
typedef HSTRING__ *HSTRING;

/*
 * Storage that the caller lends to WindowsCreateStringReference.  Private, but in fact fixed since
 * C++/WinRT builds strings itself: u32 flags (bit 0: reference), u32 length, 8 bytes of padding,
 * const WCHAR *text; a string on the heap goes on with i32 count and its text.
 */
typedef struct HSTRING_HEADER {
    union {
        PVOID Reserved1;
        char Reserved2[sizeof(void *) == 8 ? 24 : 20];
    } Reserved;
} HSTRING_HEADER;

#endif /* _WIN32 */
#endif
