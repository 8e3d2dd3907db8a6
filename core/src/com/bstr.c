/* BSTR: a length in bytes right before the text, which ends in a NUL. */
#include "base/alloc.h"

#include <stacksplice/winrt/oleauto.h>

#include <string.h>

/* Offset of the text in its block: aligned as malloc aligns it on Windows. */
enum { PREFIX = sizeof(void *) };

static char *block_of(BSTR string)
{
    return (char *)string - PREFIX;
}

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
        ss_free(block_of(string));
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
