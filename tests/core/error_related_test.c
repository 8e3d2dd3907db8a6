/* Causes with their relation, members of groups, notes: as C code sees them. */
#include "error_test.h"

#include <string.h>

static IRestrictedErrorInfo *originate(HRESULT hr, error_double *language)
{
    IUnknown *exception = language ? error_double_unknown(language) : NULL;

    assert_int_equal(stacksplice_originate(hr, NULL, 0, exception, NULL), S_OK);
    return take();
}

static void check_cause(IRestrictedErrorInfo *error, IRestrictedErrorInfo *want,
                        stacksplice_relation want_relation)
{
    IRestrictedErrorInfo *cause = NULL;
    stacksplice_relation relation = 7;

    assert_int_equal(stacksplice_error_cause(UNKNOWN(error), &cause, &relation),
                     want ? S_OK : S_FALSE);
    assert_ptr_equal(cause, want);
    assert_int_equal(relation, want_relation);
    release(cause);
}

FRESH_TEST(test_cause_tells_its_relation)
{
    IRestrictedErrorInfo *cause = originate(E_FAIL, NULL), *error;
    error_double language;

    check_cause(cause, NULL, STACKSPLICE_RELATION_NONE);
    error_double_init(&language, 1);
    language.cause = cause;
    error = originate(E_ABORT, &language);
    check_cause(error, cause, STACKSPLICE_RELATION_CAUSE);
    release(error);
    language.relation = STACKSPLICE_RELATION_CONTEXT;
    error = originate(E_ABORT, &language);
    check_cause(error, cause, STACKSPLICE_RELATION_CONTEXT);
    release(error);
    language.cause = NULL; /* a context of nothing */
    error = originate(E_ABORT, &language);
    check_cause(error, NULL, STACKSPLICE_RELATION_NONE);
    release(error);
    release(cause);
}

FRESH_TEST(test_members_and_depth)
{
    IRestrictedErrorInfo *inner = originate(E_FAIL, NULL), *error, *member = NULL;
    error_double second, group;
    IRestrictedErrorInfo *members[2];
    uint32_t count = 7, left_out = 7, depth = 7;

    assert_int_equal(stacksplice_error_group(UNKNOWN(inner), &count, &left_out), S_FALSE);
    assert_int_equal(count + left_out, 0);
    error_double_init(&second, 1);
    second.cause = inner;
    members[0] = inner;
    members[1] = originate(E_ABORT, &second);
    error_double_init(&group, 1);
    group.members = members;
    group.member_count = 2;
    group.members_left_out = 3;
    error = originate(E_POINTER, &group);
    assert_int_equal(stacksplice_error_group(UNKNOWN(error), &count, &left_out), S_OK);
    assert_int_equal(count, 2);
    assert_int_equal(left_out, 3);
    assert_int_equal(stacksplice_error_group(UNKNOWN(error), NULL, NULL), S_OK);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(stacksplice_error_member(UNKNOWN(error), i, &member), S_OK);
        assert_ptr_equal(member, members[i]);
        release(member);
    }
    assert_int_equal(stacksplice_error_member(UNKNOWN(error), 2, &member), S_FALSE);
    assert_null(member);
    assert_int_equal(stacksplice_error_depth(UNKNOWN(error), &depth), S_OK);
    assert_int_equal(depth, 2); /* the longest way: member, its cause */
    release(error);
    release(members[1]);
    release(inner);
}

typedef struct heard {
    char text[256];
    int stop_after;
} heard;

static int hear(const char *text, size_t length, void *data)
{
    heard *h = data;

    strncat(h->text, text, length);
    strcat(h->text, "|");
    return --h->stop_after == 0;
}

FRESH_TEST(test_notes_of_the_exception_come_first)
{
    static const char *const notes[] = {"one", "two"};
    ILanguageExceptionErrorInfo2 *node;
    IRestrictedErrorInfo *error;
    error_double language;
    heard h = {"", 0};

    error_double_init(&language, 1);
    language.notes = notes;
    language.note_count = 2;
    error = originate(E_FAIL, &language);
    assert_int_equal(stacksplice_add_note(UNKNOWN(error), "three and more", 5), S_OK);
    assert_int_equal(stacksplice_add_note(UNKNOWN(error), NULL, 0), S_OK);
    assert_int_equal(stacksplice_error_notes(UNKNOWN(error), hear, &h), S_OK);
    assert_string_equal(h.text, "one|two|three||");
    h = (heard){"", 2};
    assert_int_equal(stacksplice_error_notes(UNKNOWN(error), hear, &h), S_FALSE);
    assert_string_equal(h.text, "one|two|");
    assert_int_equal(SetRestrictedErrorInfo(error), S_OK);
    assert_int_equal(stacksplice_propagate(E_FAIL, NULL), S_OK);
    node = head_of(error);
    h = (heard){"", 0};
    assert_int_equal(stacksplice_error_notes(UNKNOWN(node), hear, &h), S_OK);
    assert_string_equal(h.text, "one|two|three||");
    release(node);
    release(error);
    RoClearError(); /* while LANGUAGE is here */
}

FRESH_TEST(test_bad_arguments)
{
    IRestrictedErrorInfo *error = originate(E_FAIL, NULL), *out = NULL;
    error_double foreign;
    IUnknown *other;
    uint32_t depth;
    heard h = {"", 0};

    error_double_init(&foreign, 0);
    other = error_double_unknown(&foreign);
    assert_int_equal(stacksplice_error_cause(NULL, &out, NULL), E_POINTER);
    assert_int_equal(stacksplice_error_cause(UNKNOWN(error), NULL, NULL), E_POINTER);
    assert_int_equal(stacksplice_error_cause(other, &out, NULL), E_INVALIDARG);
    assert_int_equal(stacksplice_error_group(NULL, NULL, NULL), E_POINTER);
    assert_int_equal(stacksplice_error_group(other, NULL, NULL), E_INVALIDARG);
    assert_int_equal(stacksplice_error_member(NULL, 0, &out), E_POINTER);
    assert_int_equal(stacksplice_error_member(UNKNOWN(error), 0, NULL), E_POINTER);
    assert_int_equal(stacksplice_error_member(other, 0, &out), E_INVALIDARG);
    assert_int_equal(stacksplice_error_notes(UNKNOWN(error), NULL, NULL), E_POINTER);
    assert_int_equal(stacksplice_error_notes(NULL, hear, &h), E_POINTER);
    assert_int_equal(stacksplice_error_notes(other, hear, &h), E_INVALIDARG);
    assert_int_equal(stacksplice_add_note(NULL, "", 0), E_POINTER);
    assert_int_equal(stacksplice_add_note(UNKNOWN(error), NULL, 1), E_POINTER);
    assert_int_equal(stacksplice_add_note(UNKNOWN(error), "", SIZE_MAX), E_OUTOFMEMORY);
    assert_int_equal(stacksplice_add_note(other, "", 0), E_INVALIDARG);
    assert_int_equal(stacksplice_error_depth(UNKNOWN(error), NULL), E_POINTER);
    assert_int_equal(stacksplice_error_depth(other, &depth), E_INVALIDARG);
    release(error);
}
