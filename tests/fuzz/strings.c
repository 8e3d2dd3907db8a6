/*
 * UTF-8 and UTF-16, HSTRING and BSTR, and the writer's escapes, on texts of any content.
 *
 * Input: a capacity, then the bytes, which are read both as UTF-8 and as UTF-16.
 */
#include "input.h"
#include "utf8.h"

#include "base/utf.h"
#include <stacksplice/script.h>
#include <stacksplice/winrt/oleauto.h>
#include <stacksplice/winrt/winstring.h>

typedef struct text {
    char *bytes;
    WCHAR *units; /* the same bytes, two for each unit */
    size_t length, unit_count;
} text;

/* Into room that is too small as well as into enough: never more is written than there is. */
static void convert(const text *t, size_t capacity)
{
    WCHAR *cut = malloc(capacity * sizeof *cut + 1), *whole = malloc(t->length * sizeof *whole + 1);
    char *back = malloc(3 * t->length + 1), *cut_back = malloc(capacity + 1);
    size_t count;

    ALWAYS(cut && whole && back && cut_back);
    ALWAYS(ss_utf16_from_utf8(t->bytes, t->length, cut, capacity) <= capacity);
    count = ss_utf16_from_utf8(t->bytes, t->length, whole, t->length);
    ALWAYS(count <= t->length);
    ALWAYS(stacksplice_utf8(whole, (uint32_t)count, back, 3 * t->length + 1) <= 3 * count);
    (void)stacksplice_utf8(t->units, (uint32_t)t->unit_count, cut_back, capacity);
    free(cut_back);
    free(back);
    free(whole);
    free(cut);
}

static void write_escaped(const text *t)
{
    static const ss_escape escapes[] = {SS_ESCAPE_TABS, SS_ESCAPE_LINE, SS_ESCAPE_JSON};

    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        utf8_output out = {0};
        ss_writer w;

        ss_writer_init(&w, utf8_collect, &out);
        ss_writer_utf8(&w, t->bytes, t->length, escapes[i]);
        ss_writer_text(&w, "|");
        ss_writer_utf16(&w, (const uint16_t *)t->units, t->unit_count, escapes[i]);
        ALWAYS(ss_writer_finish(&w));
        ALWAYS(utf8_is_harmless(&out, escapes[i], escapes[i] == SS_ESCAPE_TABS ? "\t" : ""));
        free(out.bytes);
    }
}

static void make_strings(const text *t)
{
    HSTRING string = NULL, twin = NULL, reference;
    HSTRING_HEADER header;
    UINT32 length;
    BSTR bstr;

    ALWAYS(WindowsCreateString(t->units, (UINT32)t->unit_count, &string) == S_OK);
    ALWAYS(!WindowsGetStringRawBuffer(string, &length)[t->unit_count] && length == t->unit_count);
    ALWAYS(WindowsDuplicateString(string, &twin) == S_OK);
    (void)WindowsDeleteString(string);
    ALWAYS(WindowsGetStringLen(twin) == t->unit_count);
    (void)WindowsDeleteString(twin);
    if (WindowsCreateStringReference(t->units, (UINT32)t->unit_count, &header, &reference) ==
        S_OK) {
        ALWAYS(WindowsDuplicateString(reference, &twin) == S_OK);
        ALWAYS(WindowsGetStringLen(twin) == t->unit_count);
        (void)WindowsDeleteString(twin);
    }
    bstr = SysAllocStringByteLen(t->bytes, (UINT)t->length);
    ALWAYS(bstr && SysStringByteLen(bstr) == t->length);
    SysFreeString(bstr);
    bstr = SysAllocStringLen(t->units, (UINT)t->unit_count);
    ALWAYS(bstr && SysStringLen(bstr) == t->unit_count);
    SysFreeString(bstr);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    size_t capacity = input_u32(&in) % 64;
    text t = {.length = in.left, .unit_count = in.left / 2};

    t.bytes = malloc(t.length + 1);
    t.units = calloc(t.unit_count + 1, sizeof *t.units);
    ALWAYS(t.bytes && t.units);
    memcpy(t.bytes, in.at, t.length);
    t.bytes[t.length] = 0;
    memcpy(t.units, in.at, 2 * t.unit_count);
    convert(&t, capacity);
    write_escaped(&t);
    make_strings(&t);
    free(t.units);
    free(t.bytes);
    return 0;
}
