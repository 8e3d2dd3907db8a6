#include "conformance.h"

#include <string.h>

BOOL same_text(PCWSTR a, PCWSTR b)
{
    if (!a || !b)
        return a == b;
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

UINT text_length(PCWSTR text)
{
    UINT length = 0;

    while (text[length])
        length++;
    return length;
}

HSTRING make_hstring(PCWSTR text)
{
    HSTRING string = NULL;

    assert_int_equal(WindowsCreateString(text, text ? text_length(text) : 0, &string), S_OK);
    return string;
}

int fresh(void **state)
{
    RoClearError();
    return RoSetErrorReportingFlags(RO_ERROR_REPORTING_USESETERRORINFO) == S_OK ? 0 : -1;
}

static void print_text(const char *label, PCWSTR text)
{
    print_error("%s: \"", label);
    for (; text && *text; text++)
        print_error(*text >= ' ' && *text < 127 ? "%c" : "\\u%04x", (int)*text);
    print_error(text ? "\"\n" : "(null)\n");
}

void check_text_at(int line, PCWSTR got, PCWSTR want)
{
    if (!same_text(got, want)) {
        print_text("got", got);
        print_text("want", want);
        _fail(__FILE__, line);
    }
}

static void check_hr_at(int line, HRESULT got, HRESULT want)
{
    if (got != want) {
        print_error("got 0x%08x, want 0x%08x\n", (unsigned)got, (unsigned)want);
        _fail(__FILE__, line);
    }
}

void check_details_at(int line, IRestrictedErrorInfo *error, HRESULT hr, PCWSTR description,
                      PCWSTR message)
{
    BSTR got_description = NULL, got_message = NULL, sid = NULL;
    HRESULT got = S_OK;

    check_hr_at(line, CALL(error, GetErrorDetails, &got_description, &got, &got_message, &sid),
                S_OK);
    check_hr_at(line, got, hr);
    check_text_at(line, got_description, description);
    check_text_at(line, got_message, message);
    _assert_true(sid == NULL, "no capability SID", __FILE__, line);
    SysFreeString(got_description);
    SysFreeString(got_message);
}

IRestrictedErrorInfo *take_at(int line)
{
    IRestrictedErrorInfo *error = NULL;

    check_hr_at(line, GetRestrictedErrorInfo(&error), S_OK);
    _assert_true(error != NULL, "an error in the slot", __FILE__, line);
    return error;
}

void check_slot_at(int line, HRESULT hr, PCWSTR description, PCWSTR message)
{
    IRestrictedErrorInfo *error = take_at(line);

    check_details_at(line, error, hr, description, message);
    release(error);
    check_empty_at(line);
}

void check_empty_at(int line)
{
    int marker = 0;
    IRestrictedErrorInfo *error = (IRestrictedErrorInfo *)(void *)&marker;

    check_hr_at(line, GetRestrictedErrorInfo(&error), S_FALSE);
    _assert_true(error == NULL, "no error in the slot", __FILE__, line);
}

void *query_at(int line, void *object, REFIID iid)
{
    void *out = NULL;

    check_hr_at(line, CALL((IUnknown *)object, QueryInterface, iid, &out), S_OK);
    return out;
}

BOOL answers(void *object, REFIID iid)
{
    int marker = 0;
    void *out = &marker;
    HRESULT hr = CALL((IUnknown *)object, QueryInterface, iid, &out);

    if (SUCCEEDED(hr)) {
        release(out);
        return TRUE;
    }
    assert_int_equal(hr, E_NOINTERFACE);
    assert_null(out);
    return FALSE;
}

void release(void *object)
{
    if (object)
        CALL0((IUnknown *)object, Release);
}

ULONG refs_of(void *object)
{
    CALL0((IUnknown *)object, AddRef);
    return CALL0((IUnknown *)object, Release);
}

void log_call(exception_state *state, char letter)
{
    for (size_t i = 0; i + 1 < sizeof state->calls; i++) {
        if (!state->calls[i]) {
            state->calls[i] = letter;
            return;
        }
    }
}

void exception_init(exception_state *state)
{
    memset(state, 0, sizeof *state);
}
