/* stacksplice/script.h: ties, borders, arguments, gaps and glue, as a binding uses them. */
#include "script_language.h"

/* ---- Ties and borders ----------------------------------------------------------------------*/

FRESH_TEST(test_a_value_leaves_and_comes_back)
{
    stacksplice_owner *owner = new_owner(&toy), *foreign = new_owner(&toy);
    stacksplice_ties ties = {NULL, NULL, 0};
    IRestrictedErrorInfo *first = NULL, *again = NULL;
    IScriptErrorInfo *error = NULL;
    stacksplice_exception *x = new_exception(owner);
    HRESULT hr = S_OK;
    int value = 0;

    stacksplice_ties_set_exception(&ties, x);
    assert_true(stacksplice_exception_keep(x, &value));
    assert_int_equal(stacksplice_leave(&ties, &hr), S_OK);
    assert_int_equal(hr, E_BOUNDS);
    assert_int_equal(stacksplice_arrive(owner, __builtin_frame_address(0), hr, NULL), E_POINTER);
    assert_int_equal(stacksplice_arrive(owner, __builtin_frame_address(0), S_OK, &first),
                     E_INVALIDARG);
    assert_int_equal(stacksplice_arrive(owner, __builtin_frame_address(0), hr, &first), S_OK);
    assert_int_equal(stacksplice_peek_error(&again), S_FALSE);
    assert_ptr_equal(stacksplice_own_exception(owner, UNKNOWN(first)), x);
    assert_null(stacksplice_own_exception(foreign, UNKNOWN(first)));
    /* The same error leaves again, and can be asked for. */
    assert_int_equal(stacksplice_leave(&ties, &hr), S_OK);
    again = take();
    assert_ptr_equal(again, first);
    assert_int_equal(stacksplice_make_error(&ties, &error), S_OK);
    assert_ptr_equal(error, ties.error);
    release(error);
    release(again);
    release(first);
    stacksplice_owner_drain(owner, NULL);
    assert_int_equal(value, 1);
    stacksplice_ties_drop(&ties);
    assert_null(ties.exception);
    stacksplice_owner_close(owner);
    stacksplice_owner_close(foreign);
}

FRESH_TEST(test_an_own_exception_is_found_in_a_node)
{
    stacksplice_owner *owner = new_owner(&toy);
    stacksplice_exception *x = new_exception(owner);
    IRestrictedErrorInfo *error;
    int value = 0;

    RoOriginateError(E_FAIL, NULL);
    assert_true(stacksplice_exception_keep(x, &value));
    assert_int_equal(stacksplice_propagate(E_FAIL, stacksplice_exception_unknown(x)), S_OK);
    assert_int_equal(stacksplice_propagate(E_FAIL, NULL), S_OK);
    error = take();
    assert_ptr_equal(stacksplice_own_exception(owner, UNKNOWN(error)), x);
    release(error);
    stacksplice_exception_unref(x);
    stacksplice_owner_drain(owner, NULL);
    stacksplice_owner_close(owner);
}

FRESH_TEST(test_a_foreign_error_is_held_from_outside)
{
    stacksplice_ties ties = {NULL, NULL, 0};
    IRestrictedErrorInfo *error;
    IScriptErrorInfo *script;
    HRESULT hr = S_OK;

    RoOriginateError(E_HANDLE, NULL);
    error = take();
    script = query(error, &stacksplice_IID_IScriptErrorInfo);
    stacksplice_ties_set_error(&ties, script, 1);
    release(script);
    assert_int_equal(error->lpVtbl->Release(error), 1);
    assert_int_equal(stacksplice_leave(&ties, &hr), S_OK);
    assert_int_equal(hr, E_HANDLE);
    RoClearError();
    stacksplice_ties_drop(&ties);
}

FRESH_TEST(test_the_cause_sleeps_and_wakes_with_its_effect)
{
    stacksplice_owner *owner = new_owner(&toy);
    stacksplice_exception *cause = new_exception(owner), *effect = new_exception(owner);
    stacksplice_ties ties[2] = {{NULL, NULL, 0}, {NULL, NULL, 0}};
    IScriptErrorInfo *errors[2] = {NULL, NULL};
    IRestrictedErrorInfo *behind = NULL, *of_effect;
    stacksplice_relation relation;
    int values[2] = {0, 0};

    stacksplice_ties_set_exception(&ties[0], cause);
    stacksplice_ties_set_exception(&ties[1], effect);
    assert_true(stacksplice_exception_keep(cause, &values[0]));
    assert_int_equal(stacksplice_make_error(&ties[0], &errors[0]), S_OK);
    stacksplice_exception_set_cause(effect, errors[0], STACKSPLICE_RELATION_CONTEXT, 0);
    assert_ptr_equal(stacksplice_exception_related(effect, 0), errors[0]);
    assert_null(stacksplice_exception_related(effect, 1));
    assert_true(stacksplice_exception_keep(effect, &values[1]));
    assert_int_equal(stacksplice_make_error(&ties[1], &errors[1]), S_OK);
    release(errors[0]);
    of_effect = restricted(errors[1]);
    assert_int_equal(stacksplice_error_cause(UNKNOWN(of_effect), &behind, &relation), S_OK);
    assert_int_equal(relation, STACKSPLICE_RELATION_CONTEXT);
    release(behind);
    stacksplice_owner_drain(owner, NULL);
    assert_int_equal(dropped, 0); /* held through the effect */
    release(of_effect);
    release(errors[1]);
    stacksplice_owner_drain(owner, NULL);
    assert_int_equal(values[0], 1);
    assert_int_equal(values[1], 1);
    stacksplice_ties_drop(&ties[1]);
    stacksplice_ties_drop(&ties[0]);
    stacksplice_owner_close(owner);
}

FRESH_TEST(test_nothing_is_made_where_origination_is_switched_off)
{
    stacksplice_owner *owner = new_owner(&toy);
    stacksplice_ties ties = {NULL, NULL, 0};
    IRestrictedErrorInfo *arrived = NULL;
    IScriptErrorInfo *error = NULL;
    HRESULT hr = S_OK;
    int value = 0;

    stacksplice_ties_set_exception(&ties, new_exception(owner));
    assert_true(stacksplice_exception_keep(ties.exception, &value));
    assert_int_equal(RoSetErrorReportingFlags(RO_ERROR_REPORTING_SUPPRESSSETERRORINFO), S_OK);
    assert_int_equal(stacksplice_leave(&ties, &hr), S_FALSE);
    assert_int_equal(hr, E_BOUNDS);
    assert_int_equal(stacksplice_make_error(&ties, &error), S_FALSE);
    assert_null(error);
    assert_int_equal(stacksplice_arrive(owner, __builtin_frame_address(0), hr, &arrived), S_FALSE);
    assert_null(arrived);
    stacksplice_owner_drain(owner, NULL);
    assert_int_equal(value, 1);
    stacksplice_ties_drop(&ties);
    stacksplice_owner_close(owner);
}

/* ---- Arguments, gaps, glue -----------------------------------------------------------------*/

TEST(test_an_owner_needs_a_whole_language)
{
    stacksplice_language without_drop = toy, short_one = toy;

    without_drop.drop = NULL;
    short_one.size = 8;
    assert_null(stacksplice_owner_new(NULL, &record));
    assert_null(stacksplice_owner_new(&without_drop, &record));
    assert_null(stacksplice_owner_new(&short_one, &record));
}

static int keep_frame(const stacksplice_frame *frame, void *data)
{
    *(stacksplice_frame *)data = *frame;
    assert_string_equal(frame->language, "toy");
    assert_string_equal(frame->reason, "a test has no frames");
    return 0;
}

TEST(test_a_gap_is_a_token)
{
    uintptr_t plain = stacksplice_gap("toy", "a test has no frames", 0);
    uintptr_t waits = stacksplice_gap("toy", "a test has no frames", STACKSPLICE_GAP_ASYNCHRONOUS);
    stacksplice_frame frame;

    assert_true(stacksplice_is_token(plain));
    assert_false(stacksplice_is_token((uintptr_t)&frame));
    assert_int_not_equal(plain, waits);
    assert_int_equal(stacksplice_resolve(plain, keep_frame, &frame), S_OK);
    assert_int_equal(frame.kind, STACKSPLICE_FRAME_GAP);
    assert_false(frame.asynchronous);
    assert_int_equal(stacksplice_resolve(waits, keep_frame, &frame), S_OK);
    assert_true(frame.asynchronous);
}

static stacksplice_role role_of(const char *function, const char *binary)
{
    const stacksplice_frame frame = {.size = sizeof frame,
                                     .kind = STACKSPLICE_FRAME_NATIVE,
                                     .function = function,
                                     .module = binary};

    return stacksplice_frame_role(&frame);
}

TEST(test_a_language_adds_its_glue)
{
    static const char *const functions[] = {"toy_call", "toyV_*", "Toy^*", NULL};
    static const char *const binaries[] = {"libtoy#", NULL};
    static const char *const libraries[] = {"toylib#", NULL};
    static const stacksplice_glue glue = {.size = sizeof glue,
                                          .language = "toy",
                                          .functions = functions,
                                          .binaries = binaries,
                                          .libraries = libraries};
    stacksplice_glue wrong = glue;

    assert_int_equal(role_of("toyV_execute", NULL), STACKSPLICE_ROLE_OWN);
    assert_int_equal(stacksplice_add_glue(NULL), E_POINTER);
    wrong.size = 1;
    assert_int_equal(stacksplice_add_glue(&wrong), E_INVALIDARG);
    assert_int_equal(stacksplice_add_glue(&glue), S_OK);
    assert_int_equal(stacksplice_add_glue(&glue), S_FALSE);
    assert_int_equal(role_of("toyV_execute", NULL), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role_of("toy_call.cold", NULL), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role_of("toy_call_back", NULL), STACKSPLICE_ROLE_OWN);
    assert_int_equal(role_of("ToyList", NULL), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role_of("Toyshop", NULL), STACKSPLICE_ROLE_OWN);
    assert_int_equal(role_of("any", "/lib/libtoy-1.2.so"), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role_of("any", "/lib/libtoyota.so"), STACKSPLICE_ROLE_OWN);
    assert_int_equal(role_of("any", "toylib.so"), STACKSPLICE_ROLE_BUILTIN);
    assert_int_equal(role_of(NULL, "toylib.so"), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role_of("toy::list toyV_run<toy::list, 3>(int)", NULL), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role_of("toyV_list run(toyV_list)", NULL), STACKSPLICE_ROLE_OWN);
}

TEST(test_a_glue_names_folders_of_headers)
{
    static const char *const sources[] = {"/include/toy/", NULL};
    static const stacksplice_glue glue = {
        .size = sizeof glue, .language = "toy headers", .sources = sources};
    const stacksplice_frame inside = {.size = sizeof inside,
                                      .kind = STACKSPLICE_FRAME_NATIVE,
                                      .language = "native",
                                      .function = "operator()",
                                      .file = "/usr/include/toy/call.h"};
    stacksplice_frame beside = inside;

    beside.file = "/src/toy/call.h";
    assert_int_equal(stacksplice_add_glue(&glue), S_OK);
    assert_int_equal(stacksplice_frame_role(&inside), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(stacksplice_frame_role(&beside), STACKSPLICE_ROLE_OWN);
}
