/* HSTRING, in the layout that C++/WinRT itself creates and reads. */
#include "base/alloc.h"

#include <stacksplice/winrt/oleauto.h>
#include <stacksplice/winrt/winstring.h>
#include <stdatomic.h>
#include <string.h>

enum { IS_REFERENCE = 1 };

/* The content of HSTRING_HEADER, and the start of a heap string. */
typedef struct string_header {
    uint32_t flags;
    uint32_t length;
    uint32_t padding1;
    uint32_t padding2;
    const WCHAR *text;
} string_header;

typedef struct heap_string {
    string_header header;
    _Atomic int32_t refs; /* (ATOMIC) */
    WCHAR text[];         /* with its NUL */
} heap_string;

_Static_assert(sizeof(string_header) <= sizeof(HSTRING_HEADER), "a header fits the caller's room");
_Static_assert(offsetof(string_header, length) == 4 && offsetof(string_header, text) == 16,
               "C++/WinRT reads these offsets");
_Static_assert(sizeof(void *) == 4 ||
                   (offsetof(heap_string, refs) == 24 && offsetof(heap_string, text) == 28),
               "C++/WinRT writes these offsets");

static string_header *impl_from_HSTRING(HSTRING string)
{
    return (string_header *)(void *)string;
}

HRESULT WindowsCreateString(PCNZWCH source, UINT32 length, HSTRING *string)
{
    heap_string *made;

    if (!string)
        return E_INVALIDARG;
    *string = NULL;
    if (!length)
        return S_OK;
    if (!source)
        return E_POINTER;
    if (length > (UINT32_MAX - sizeof *made) / sizeof(WCHAR) - 1)
        return E_OUTOFMEMORY;
    made = ss_alloc_dirty(sizeof *made + (length + (size_t)1) * sizeof(WCHAR));
    if (!made)
        return E_OUTOFMEMORY;
    made->header = (string_header){.length = length, .text = made->text};
    atomic_init(&made->refs, 1);
    memcpy(made->text, source, length * sizeof(WCHAR));
    made->text[length] = 0;
    *string = (HSTRING)(void *)made;
    return S_OK;
}

HRESULT WindowsCreateStringReference(PCWSTR source, UINT32 length, HSTRING_HEADER *header,
                                     HSTRING *string)
{
    string_header *made;

    if (!header || !string)
        return E_INVALIDARG;
    *string = NULL;
    if (!source)
        return length ? E_POINTER : S_OK;
    if (source[length])
        return E_INVALIDARG;
    if (!length)
        return S_OK;
    made = (string_header *)(void *)header;
    *made = (string_header){.flags = IS_REFERENCE, .length = length, .text = source};
    *string = (HSTRING)(void *)made;
    return S_OK;
}

HRESULT WindowsDeleteString(HSTRING string)
{
    string_header *header = impl_from_HSTRING(string);

    if (header && !(header->flags & IS_REFERENCE)) {
        heap_string *heap = (heap_string *)header;

        if (atomic_fetch_sub(&heap->refs, 1) == 1)
            ss_free(heap);
    }
    return S_OK;
}

HRESULT WindowsDuplicateString(HSTRING string, HSTRING *copy)
{
    string_header *header = impl_from_HSTRING(string);

    if (!copy)
        return E_INVALIDARG;
    *copy = NULL;
    if (!header)
        return S_OK;
    if (header->flags & IS_REFERENCE)
        return WindowsCreateString(header->text, header->length, copy);
    atomic_fetch_add(&((heap_string *)header)->refs, 1);
    *copy = string;
    return S_OK;
}

PCWSTR WindowsGetStringRawBuffer(HSTRING string, UINT32 *length)
{
    static const WCHAR empty[1];
    string_header *header = impl_from_HSTRING(string);

    if (length)
        *length = header ? header->length : 0;
    return header ? header->text : empty;
}

UINT32 WindowsGetStringLen(HSTRING string)
{
    return string ? impl_from_HSTRING(string)->length : 0;
}

BOOL WindowsIsStringEmpty(HSTRING string)
{
    return WindowsGetStringLen(string) == 0;
}

/* ---- Bstr ------------------------------------------------------------------------------------*/

/* BSTR: a length in bytes right before the text, which ends in a NUL. */

/* Offset of the text in its block: aligned as malloc aligns it on Windows. */
enum { PREFIX = sizeof(void *) };

static BSTR new_bstr(const void *bytes, size_t length)
{
    /* Two bytes for the NUL, and one to align it after an odd length. */
    size_t rounded = (length + 1) & ~(size_t)1;
    uint32_t stored = (uint32_t)length;
    char *block = ss_alloc_dirty(PREFIX + rounded + sizeof(WCHAR));
    char *text;

    if (!block)
        return NULL;
    text = block + PREFIX;
    memcpy(text - sizeof stored, &stored, sizeof stored);
    if (bytes)
        memcpy(text, bytes, length);
    memset(text + length, 0, rounded - length + sizeof(WCHAR));
    return (BSTR)(void *)text;
}

BSTR SysAllocStringByteLen(LPCSTR bytes, UINT length)
{
    /* Leave room for the prefix and the NUL where size_t has 32 bits. */
    if (length > UINT32_MAX - 16)
        return NULL;
    return new_bstr(bytes, length);
}

BSTR SysAllocStringLen(const OLECHAR *text, UINT length)
{
    if (length > (UINT32_MAX - 16) / sizeof(WCHAR))
        return NULL;
    return new_bstr(text, length * sizeof(WCHAR));
}

BSTR SysAllocString(const OLECHAR *text)
{
    size_t length = 0;

    if (!text)
        return NULL;
    while (text[length])
        length++;
    return length > UINT32_MAX ? NULL : SysAllocStringLen(text, (UINT)length);
}

void SysFreeString(BSTR string)
{
    if (string)
        ss_free((char *)string - PREFIX);
}

UINT SysStringByteLen(BSTR string)
{
    uint32_t length = 0;

    if (string)
        memcpy(&length, (char *)string - sizeof length, sizeof length);
    return length;
}

UINT SysStringLen(BSTR string)
{
    return SysStringByteLen(string) / (UINT)sizeof(WCHAR);
}
