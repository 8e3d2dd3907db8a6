/* The errors of tiny: identity and causes. */
#include "host.h"

#include <string.h>

/* ---- Identity ---------------------------------------------------------------------------------*/

static const char throws[] =
    "function main\n e = error \"access\" \"no entry\"\n made e\n throw e\n";

TEST(test_an_error_that_comes_back_is_the_same_object)
{
    host *h = open_host(throws);
    tiny_object *first = NULL;
    tiny_value second;

    assert_true(tiny_define(h->t, "made", made, &first));
    assert_true(tiny_define(h->t, "native", at_other, h));
    assert_true(tiny_load(h->t, "more.tiny", "function outer\n native\n"));
    assert_false(tiny_call(h->t, "outer", NULL, 0, &second));
    assert_non_null(first);
    assert_ptr_equal(second.object, first);
    check_slot_is_empty();
    tiny_drop(h->t, second);
    close_host(h);
}

static tiny_value compare(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)t;
    assert_int_equal(count, 2);
    assert_ptr_equal(arguments[0].object, arguments[1].object);
    assert_string_equal(arguments[0].object->text, "too far");
    *(bool *)data = true;
    return (tiny_value){0, NULL};
}

TEST(test_an_error_that_arrives_twice_is_one_object)
{
    host *h = open_host("function main\n a = try native\n b = try native\n compare a b\n");
    IRestrictedErrorInfo *error;
    bool compared = false;

    (void)stacksplice_originate(E_BOUNDS, "too far", 7, NULL, NULL);
    error = take_error();
    assert_true(tiny_define(h->t, "native", raise_native, error));
    assert_true(tiny_define(h->t, "compare", compare, &compared));
    assert_int_equal(run(h, "main"), S_OK);
    assert_true(compared);
    error->lpVtbl->Release(error);
    close_host(h);
}

TEST(test_another_interpreter_sees_a_foreign_error)
{
    host *inner = open_host(throws), *outer = open_host("function main\n other\n");
    tiny_object *object = NULL;
    tiny_value error;

    assert_true(tiny_define(inner->t, "made", made, &object));
    assert_true(tiny_define(outer->t, "other", at_other, inner));
    assert_false(tiny_call(outer->t, "main", NULL, 0, &error));
    assert_ptr_not_equal(error.object, object);
    assert_string_equal(error.object->type, "access");
    assert_string_equal(error.object->text, "no entry");
    tiny_drop(outer->t, error);
    close_host(inner);
    close_host(outer);
}

/* ---- Causes -----------------------------------------------------------------------------------*/

static const char reports[] = "function fails\n e = error \"odd\" \"the cause\"\n throw e\n"
                              "function main\n cause = try fails\n"
                              " e = error \"access\" \"no entry\" cause\n throw e\n"
                              "function show\n e = try main\n text = report e\n return text\n";

TEST(test_an_error_has_its_cause)
{
    host *h = open_host(reports);
    IRestrictedErrorInfo *error, *cause = NULL;
    stacksplice_relation relation;
    IUnknown *exception = NULL;
    ILanguageExceptionErrorInfo *info = NULL;

    assert_int_equal(run(h, "main"), E_ACCESSDENIED);
    error = take_error();
    assert_int_equal(stacksplice_error_cause((IUnknown *)error, &cause, &relation), S_OK);
    assert_int_equal(relation, STACKSPLICE_RELATION_CAUSE);
    write_error_stack(h->text, cause);
    if (has_native_frames())
        assert_string_equal(h->text, "fails:3 main:5 ");
    /* While somebody holds the error, its value and that of the cause are alive. */
    assert_int_equal(run(h, "return"), S_OK);
    assert_int_equal(
        cause->lpVtbl->QueryInterface(cause, &IID_ILanguageExceptionErrorInfo, (void **)&info),
        S_OK);
    assert_int_equal(info->lpVtbl->GetLanguageException(info, &exception), S_OK);
    assert_string_equal(stacksplice_tiny_object(h->t, exception)->text, "the cause");
    exception->lpVtbl->Release(exception);
    info->lpVtbl->Release(info);
    cause->lpVtbl->Release(cause);
    error->lpVtbl->Release(error);
    close_host(h);
}

TEST(test_a_cause_that_was_never_thrown_says_so)
{
    host *h =
        open_host("function main\n a = error \"a\" \"inside\"\n e = error \"b\" \"outside\" a\n"
                  " throw e\n");
    IRestrictedErrorInfo *error, *cause = NULL;

    assert_int_equal(run(h, "main"), E_FAIL);
    error = take_error();
    assert_int_equal(stacksplice_error_cause((IUnknown *)error, &cause, NULL), S_OK);
    write_error_stack(h->text, cause);
    assert_string_equal(h->text, "[exception created but never raised] ");
    cause->lpVtbl->Release(cause);
    error->lpVtbl->Release(error);
    close_host(h);
}

TEST(test_causes_end_at_the_limit)
{
    enum { ERRORS = 400 };
    host *h = open_host("");
    IRestrictedErrorInfo *error;
    tiny_value value = {0, NULL}, outer;
    uint32_t depth = 0;

    for (int i = 0; i < ERRORS; i++) {
        outer = tiny_error(h->t, "odd", "it is", 5, value.object);
        tiny_drop(h->t, value);
        value = outer;
    }
    assert_int_equal(stacksplice_tiny_originate(h->t, value.object), E_FAIL);
    error = take_error();
    assert_int_equal(stacksplice_error_depth((IUnknown *)error, &depth), S_OK);
    assert_int_equal(depth, STACKSPLICE_MAX_DEPTH);
    /* One that is made from it again has no room for all of them. */
    outer = tiny_error(h->t, "odd", "it is", 5, value.object);
    assert_int_equal(stacksplice_tiny_originate(h->t, outer.object), E_FAIL);
    error->lpVtbl->Release(error);
    error = take_error();
    assert_int_equal(stacksplice_error_depth((IUnknown *)error, &depth), S_OK);
    assert_int_equal(depth, 0);
    error->lpVtbl->Release(error);
    tiny_drop(h->t, value);
    tiny_drop(h->t, outer);
    close_host(h);
}
