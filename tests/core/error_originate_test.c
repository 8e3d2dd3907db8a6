/* stacksplice_originate and stacksplice_propagate. */
#include "error_test.h"

#include <string.h>

static void check_message(IRestrictedErrorInfo *error, const char *want)
{
    char got[2000];

    message_of(error, got, sizeof got);
    assert_string_equal(got, want);
}

/* ---- stacksplice_originate -------------------------------------------------------------------*/

static const struct {
    const char *given;
    size_t length;
    const char *want; /* as UTF-8 */
} utf8_cases[] = {
    {"plain", 5, "plain"},
    {"plain", 3, "pla"},
    {NULL, 0, "Unspecified error\r\n"},
    {"", 0, "Unspecified error\r\n"},
    {"one\0two", 7, "one"},
    {"\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80", 9, "\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80"},
    {"\xed\xa0\x80x", 4, "\xef\xbf\xbdx"},               /* a lone surrogate in three bytes */
    {"\xed\xa0\xbd\xed\xb8\x80", 6, "\xf0\x9f\x98\x80"}, /* a pair of them is one character */
    {"a\xff"
     "b",
     3,
     "a\xef\xbf\xbd"
     "b"},
    {"a\xc3", 2, "a\xef\xbf\xbd"}, /* cut off */
    {"\xe4\xb8", 2, "\xef\xbf\xbd"},
    {"\xc0\x80", 2, "\xef\xbf\xbd\xef\xbf\xbd"}, /* overlong */
    {"\xe0\x80\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xf0\x80\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xf4\x90\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xf0\x9f\x98"
     "z",
     4, "\xef\xbf\xbdz"},
};

FRESH_TEST(test_originate_takes_utf8)
{
    for (size_t i = 0; i < COUNT_OF(utf8_cases); i++) {
        IRestrictedErrorInfo *error = NULL, *slot;

        check_row(
            i,
            stacksplice_originate(E_FAIL, utf8_cases[i].given, utf8_cases[i].length, NULL, &error),
            S_OK);
        check_message(error, utf8_cases[i].want);
        slot = take();
        assert_ptr_equal(slot, error);
        release(slot);
        release(error);
    }
}

FRESH_TEST(test_originate_cuts_and_refuses)
{
    char text[1000];
    IRestrictedErrorInfo *error = NULL;

    memset(text, 'x', sizeof text);
    assert_int_equal(stacksplice_originate(E_FAIL, text, sizeof text, NULL, NULL), S_OK);
    error = take();
    message_of(error, text, sizeof text);
    assert_int_equal(strlen(text), 511);
    assert_int_equal(stacksplice_originate(S_OK, "m", 1, NULL, &error), E_INVALIDARG);
    release(error);
    RoSetErrorReportingFlags(RO_ERROR_REPORTING_NONE);
    assert_int_equal(stacksplice_originate(E_FAIL, "m", 1, NULL, &error), S_OK);
    assert_null(error);
}

/* ---- stacksplice_propagate -------------------------------------------------------------------*/

FRESH_TEST(test_propagate_replaces_a_stale_error_first)
{
    IRestrictedErrorInfo *error, *other;
    ILanguageExceptionErrorInfo2 *node;

    assert_int_equal(stacksplice_propagate(S_FALSE, NULL), E_INVALIDARG);
    RoOriginateErrorW(E_FAIL, 0, u"mine");
    assert_int_equal(stacksplice_peek_error(&error), S_OK);
    assert_int_equal(stacksplice_propagate(E_FAIL, NULL), S_OK);
    other = take();
    assert_ptr_equal(other, error);
    node = head_of(error);
    assert_non_null(node);
    release(node);
    assert_int_equal(SetRestrictedErrorInfo(error), S_OK);
    release(other);
    assert_int_equal(stacksplice_propagate(E_INVALIDARG, NULL), S_OK);
    other = take();
    assert_ptr_not_equal(other, error);
    check_message(other, "The parameter is incorrect.\r\n");
    node = head_of(other);
    assert_non_null(node);
    release(node);
    release(other);
    release(error);
    RoSetErrorReportingFlags(RO_ERROR_REPORTING_SUPPRESSSETERRORINFO);
    assert_int_equal(stacksplice_propagate(E_FAIL, NULL), S_OK);
    assert_int_equal(stacksplice_peek_error(&error), S_FALSE);
}

static void check_language(ILanguageExceptionErrorInfo2 *node, const char *want)
{
    const char *language = NULL;

    assert_int_equal(stacksplice_node_language(UNKNOWN(node), &language), S_OK);
    assert_string_equal(language, want);
}

FRESH_TEST(test_a_node_has_the_language_that_received)
{
    static const char *const older[] = {"native", "double", "native"};
    char name[] = "a language of which nobody has heard";
    const void *here = __builtin_frame_address(0);
    ILanguageExceptionErrorInfo2 *node, *next;
    const char *language = NULL;
    IRestrictedErrorInfo *error;
    error_double x;

    error_double_init(&x, 1);
    RoOriginateErrorW(E_FAIL, 0, u"travels");
    assert_int_equal(stacksplice_propagate(E_FAIL, NULL), S_OK);
    assert_int_equal(stacksplice_propagate(E_FAIL, error_double_unknown(&x)), S_OK);
    assert_int_equal(stacksplice_propagate_above(here, S_OK, "lua"), E_INVALIDARG);
    assert_int_equal(stacksplice_propagate_above(here, E_FAIL, NULL), S_OK);
    assert_int_equal(stacksplice_propagate_above(here, E_FAIL, name), S_OK);
    memset(name, '?', sizeof name - 1); /* as if it were unloaded */
    error = take();
    node = head_of(error);
    check_language(node, "a language of which nobody has heard");
    for (size_t i = 0; i < COUNT_OF(older); i++) {
        assert_int_equal(node->lpVtbl->GetPreviousLanguageExceptionErrorInfo(node, &next), S_OK);
        release(node);
        node = next;
        check_language(node, older[i]);
    }
    assert_int_equal(stacksplice_node_language(NULL, &language), E_POINTER);
    assert_int_equal(stacksplice_node_language(UNKNOWN(node), NULL), E_POINTER);
    assert_int_equal(stacksplice_node_language(UNKNOWN(error), &language), E_INVALIDARG);
    assert_int_equal(stacksplice_node_language(error_double_unknown(&x), &language), E_INVALIDARG);
    release(node);
    release(error);
}

GROUP(NULL, fresh)
