/* BSTR and HSTRING: what the functions do and how the memory looks. */
#include "conformance.h"

#include <string.h>

/* ---- BSTR ------------------------------------------------------------------------------------*/

static uint32_t bstr_prefix(BSTR string)
{
    uint32_t bytes;

    memcpy(&bytes, (char *)string - 4, sizeof bytes);
    return bytes;
}

TEST(test_bstr_holds_its_length_in_bytes_before_the_text)
{
    BSTR string = SysAllocString(OLESTR("four"));

    assert_int_equal(bstr_prefix(string), 8);
    assert_int_equal(SysStringByteLen(string), 8);
    assert_int_equal(SysStringLen(string), 4);
    assert_int_equal(string[4], 0);
    assert_int_equal((uintptr_t)string % sizeof(void *), 0);
    check_text(string, OLESTR("four"));
    SysFreeString(string);
}

TEST(test_bstr_null_is_empty_and_empty_is_not_null)
{
    BSTR string;

    assert_null(SysAllocString(NULL));
    assert_int_equal(SysStringLen(NULL), 0);
    assert_int_equal(SysStringByteLen(NULL), 0);
    SysFreeString(NULL);
    string = SysAllocString(OLESTR(""));
    assert_non_null(string);
    assert_int_equal(SysStringLen(string), 0);
    assert_int_equal(string[0], 0);
    SysFreeString(string);
}

TEST(test_bstr_may_hold_nuls_and_odd_bytes)
{
    BSTR string = SysAllocStringLen(OLESTR("a\0b"), 3);

    assert_int_equal(SysStringLen(string), 3);
    assert_true(string[0] == 'a' && string[1] == 0 && string[2] == 'b' && string[3] == 0);
    SysFreeString(string);
    string = SysAllocStringByteLen("12345", 5);
    assert_int_equal(SysStringByteLen(string), 5);
    assert_int_equal(SysStringLen(string), 2);
    assert_memory_equal(string, "12345\0\0", 8);
    SysFreeString(string);
    string = SysAllocStringLen(NULL, 7);
    assert_int_equal(SysStringLen(string), 7);
    memset(string, 0x55, 14);
    assert_int_equal(string[7], 0);
    SysFreeString(string);
    string = SysAllocStringByteLen(NULL, 3);
    assert_int_equal(SysStringByteLen(string), 3);
    SysFreeString(string);
}

TEST(test_bstr_of_impossible_length_is_null)
{
    assert_null(SysAllocStringLen(NULL, 0xFFFFFFFF));
    assert_null(SysAllocStringLen(NULL, 0x80000000));
    assert_null(SysAllocStringByteLen(NULL, 0xFFFFFFFF));
}

/* ---- HSTRING ---------------------------------------------------------------------------------*/

TEST(test_hstring_empty_is_null)
{
    HSTRING_HEADER header;
    int marker;
    HSTRING string = (HSTRING)(void *)&marker;
    UINT32 length = 7;

    assert_int_equal(WindowsCreateString(OLESTR("x"), 0, &string), S_OK);
    assert_null(string);
    assert_int_equal(WindowsCreateString(NULL, 0, &string), S_OK);
    assert_null(string);
    string = (HSTRING)(void *)&marker;
    assert_int_equal(WindowsCreateStringReference(OLESTR(""), 0, &header, &string), S_OK);
    assert_null(string);
    assert_int_equal(WindowsGetStringLen(NULL), 0);
    assert_int_equal(WindowsIsStringEmpty(NULL), TRUE);
    check_text(WindowsGetStringRawBuffer(NULL, &length), OLESTR(""));
    assert_int_equal(length, 0);
    assert_non_null(WindowsGetStringRawBuffer(NULL, NULL));
    assert_int_equal(WindowsDeleteString(NULL), S_OK);
    string = (HSTRING)(void *)&marker;
    assert_int_equal(WindowsDuplicateString(NULL, &string), S_OK);
    assert_null(string);
}

TEST(test_hstring_argument_errors)
{
    HSTRING_HEADER header;
    HSTRING string = NULL;
    static const WCHAR text[] = OLESTR("abc");

    assert_int_equal(WindowsCreateString(text, 3, NULL), E_INVALIDARG);
    assert_int_equal(WindowsCreateString(NULL, 0, NULL), E_INVALIDARG);
    assert_int_equal(WindowsCreateString(NULL, 3, &string), E_POINTER);
    assert_int_equal(WindowsCreateString(text, 0xFFFFFFFF, &string), E_OUTOFMEMORY);
    assert_null(string);
    assert_int_equal(WindowsCreateStringReference(text, 3, NULL, &string), E_INVALIDARG);
    assert_int_equal(WindowsCreateStringReference(text, 3, &header, NULL), E_INVALIDARG);
    assert_int_equal(WindowsCreateStringReference(text, 2, &header, &string), E_INVALIDARG);
    assert_int_equal(WindowsCreateStringReference(NULL, 2, &header, &string), E_POINTER);
    assert_int_equal(WindowsCreateStringReference(NULL, 0, &header, &string), S_OK);
    assert_int_equal(WindowsDuplicateString(NULL, NULL), E_INVALIDARG);
}

TEST(test_hstring_copies_and_counts)
{
    WCHAR text[] = OLESTR("abc");
    HSTRING string = NULL, copy = NULL;
    UINT32 length = 0;

    assert_int_equal(WindowsCreateString(text, 3, &string), S_OK);
    text[0] = 'X';
    assert_int_equal(WindowsDuplicateString(string, &copy), S_OK);
    assert_ptr_equal(copy, string);
    assert_int_equal(WindowsDeleteString(string), S_OK);
    check_text(WindowsGetStringRawBuffer(copy, &length), OLESTR("abc"));
    assert_int_equal(length, 3);
    assert_int_equal(WindowsGetStringLen(copy), 3);
    assert_int_equal(WindowsIsStringEmpty(copy), FALSE);
    assert_int_equal(WindowsDeleteString(copy), S_OK);
}

TEST(test_hstring_reference_borrows_and_duplicates_to_the_heap)
{
    WCHAR text[] = OLESTR("abc");
    HSTRING_HEADER header;
    HSTRING string = NULL, copy = NULL;

    assert_int_equal(WindowsCreateStringReference(text, 3, &header, &string), S_OK);
    assert_ptr_equal(string, &header);
    assert_ptr_equal(WindowsGetStringRawBuffer(string, NULL), text);
    assert_int_equal(WindowsDuplicateString(string, &copy), S_OK);
    assert_ptr_not_equal(copy, string);
    assert_int_equal(WindowsDeleteString(string), S_OK);
    text[0] = 'X';
    check_text(WindowsGetStringRawBuffer(string, NULL), OLESTR("Xbc"));
    check_text(WindowsGetStringRawBuffer(copy, NULL), OLESTR("abc"));
    assert_int_equal(WindowsDeleteString(copy), S_OK);
}

static uint32_t u32_at(const void *base, size_t offset)
{
    uint32_t value;

    memcpy(&value, (const char *)base + offset, sizeof value);
    return value;
}

/* What C++/WinRT reads and writes itself, on 64-bit machines. */
TEST(test_hstring_layout)
{
    HSTRING_HEADER header;
    HSTRING string = NULL;
    const WCHAR *text;

    if (sizeof(void *) != 8)
        SKIP("the header has this size where pointers have 8 bytes");
    assert_int_equal(sizeof header, 24);
    assert_int_equal(WindowsCreateString(OLESTR("abc"), 3, &string), S_OK);
    assert_int_equal(u32_at(string, 0) & 1, 0);
    assert_int_equal(u32_at(string, 4), 3);
    memcpy((void *)&text, (char *)(void *)string + 16, sizeof text);
    assert_ptr_equal(text, (char *)(void *)string + 28);
    assert_int_equal(u32_at(string, 24), 1);
    WindowsDeleteString(string);
    WindowsCreateStringReference(OLESTR("abc"), 3, &header, &string);
    assert_int_equal(u32_at(string, 0) & 1, 1);
    assert_int_equal(u32_at(string, 4), 3);
}
