/* stacksplice/script.h: the language exception, its owner, ties and borders, as a binding uses
 * them. */
#include "error_test.h"

#include <stacksplice/script.h>

#include <pthread.h>
#include <string.h>

/* ---- A language: its values are ints that count how often they were dropped
 * --------------------*/

static int dropped, woken;
static void *drop_context;
static HRESULT slot_while_dropping;

static void drop(void *context, void *data, void *value)
{
    IRestrictedErrorInfo *in_flight = NULL;

    assert_non_null(data);
    ++*(int *)value;
    dropped++;
    drop_context = context;
    slot_while_dropping = stacksplice_peek_error(&in_flight);
    release(in_flight);
    RoOriginateError(E_ABORT, NULL); /* a destructor that fails in its own way */
}

static int wake(stacksplice_owner *owner)
{
    assert_non_null(stacksplice_owner_data(owner));
    woken++;
    return 1;
}

static const stacksplice_language toy = {sizeof toy, "toy", 0, drop, wake};
static const stacksplice_language free_toy = {sizeof free_toy, "free",
                                              STACKSPLICE_LANGUAGE_ANY_THREAD, drop, NULL};
static int record; /* the owner's data */

static stacksplice_owner *new_owner(const stacksplice_language *language)
{
    stacksplice_owner *owner = stacksplice_owner_new(language, &record);

    assert_non_null(owner);
    dropped = woken = 0;
    return owner;
}

static stacksplice_exception *new_exception(stacksplice_owner *owner)
{
    static const char *const types[] = {"KeyError", "LookupError"};
    static const uintptr_t frames[] = {0x1000, 0x2000};
    const stacksplice_exception_parts parts = {.size = sizeof parts,
                                               .hresult = E_BOUNDS,
                                               .types = types,
                                               .type_count = 2,
                                               .message = "no\0key",
                                               .message_length = 6,
                                               .frames = frames,
                                               .frame_count = 2};
    stacksplice_exception *x = stacksplice_exception_new(owner, &parts);

    assert_non_null(x);
    return x;
}

static IRestrictedErrorInfo *restricted(IScriptErrorInfo *error)
{
    return query(error, &IID_IRestrictedErrorInfo);
}

/* ---- What an exception tells
 * -------------------------------------------------------------------*/

FRESH_TEST(test_an_exception_tells_its_parts)
{
    stacksplice_owner *owner = new_owner(&toy);
    stacksplice_exception *x = new_exception(owner);
    IUnknown *unknown = stacksplice_exception_unknown(x);
    IScriptException *script = query(unknown, &stacksplice_IID_IScriptException);
    IScriptExceptionType *type = query(unknown, &stacksplice_IID_IScriptExceptionType);
    ILanguageExceptionStackBackTrace *trace = query(unknown, &IID_ILanguageExceptionStackBackTrace);
    UINT_PTR frames[4];
    ULONG count = 0;
    size_t length = 0;
    void *out = &out;

    assert_string_equal(script->lpVtbl->GetLanguage(script), "toy");
    assert_string_equal(script->lpVtbl->GetTypeName(script), "KeyError");
    assert_memory_equal(script->lpVtbl->GetMessage(script, &length), "no\0key", 7);
    assert_int_equal(length, 6);
    assert_string_equal(type->lpVtbl->GetName(type, 1), "LookupError");
    assert_null(type->lpVtbl->GetName(type, 2));
    assert_int_equal(trace->lpVtbl->GetStackBackTrace(trace, 4, frames, &count), S_OK);
    assert_int_equal(count, 2);
    assert_int_equal(frames[1], 0x2000);
    assert_int_equal(trace->lpVtbl->GetStackBackTrace(trace, 4, NULL, &count), E_POINTER);
    assert_int_equal(
        unknown->lpVtbl->QueryInterface(unknown, &IID_ILanguageExceptionTransform, &out),
        E_NOINTERFACE);
    assert_null(out);
    assert_int_equal(
        unknown->lpVtbl->QueryInterface(unknown, &stacksplice_IID_IScriptInterrupt, &out),
        E_NOINTERFACE);
    assert_int_equal(unknown->lpVtbl->QueryInterface(unknown, &IID_IUnknown, NULL), E_POINTER);
    assert_ptr_equal(stacksplice_exception_from((IUnknown *)(void *)type, owner), x);
    assert_null(stacksplice_exception_from(NULL, owner));
    release(trace);
    release(type);
    release(script);
    stacksplice_exception_unref(x);
    stacksplice_owner_close(owner);
}

FRESH_TEST(test_details_are_answered_where_there_are_some)
{
    stacksplice_owner *owner = new_owner(&toy);
    stacksplice_ties ties = {NULL, NULL, 0};
    stacksplice_told_text note = {"a note", 6};
    IScriptErrorInfo *member = NULL;
    stacksplice_exception_parts parts = {.size = sizeof parts,
                                         .hresult = E_FAIL,
                                         .interrupt = 1,
                                         .group = 1,
                                         .member_count = 1,
                                         .members_left_out = 3,
                                         .notes = &note,
                                         .note_count = 1};
    stacksplice_exception *x;
    IScriptExceptionDetails *details;
    IRestrictedErrorInfo *got = NULL;
    uint32_t members = 0, left_out = 0;
    size_t length = 0;

    stacksplice_ties_set_exception(&ties, new_exception(owner));
    assert_int_equal(stacksplice_make_error(&ties, &member), S_OK);
    parts.members = &member;
    x = stacksplice_exception_new(owner, &parts);
    stacksplice_exception_set_cause(x, NULL, STACKSPLICE_RELATION_NONE, 1);
    release(query(stacksplice_exception_unknown(x), &stacksplice_IID_IScriptInterrupt));
    details = query(stacksplice_exception_unknown(x), &stacksplice_IID_IScriptExceptionDetails);
    assert_int_equal(details->lpVtbl->GetRelation(details, &left_out), STACKSPLICE_RELATION_NONE);
    assert_int_equal(left_out, 1);
    assert_true(details->lpVtbl->GetGroup(details, &members, &left_out));
    assert_int_equal(members, 1);
    assert_int_equal(left_out, 3);
    assert_string_equal(details->lpVtbl->GetNote(details, 0, &length), "a note");
    assert_int_equal(length, 6);
    assert_null(details->lpVtbl->GetNote(details, 1, &length));
    assert_int_equal(details->lpVtbl->GetMember(details, 0, &got), S_OK);
    release(got);
    assert_int_equal(details->lpVtbl->GetMember(details, 1, &got), S_FALSE);
    assert_null(got);
    assert_int_equal(details->lpVtbl->GetMember(details, 0, NULL), E_POINTER);
    release(details);
    release(member);
    stacksplice_ties_drop(&ties);
    stacksplice_exception_unref(x); /* the last that held the member */
    stacksplice_owner_close(owner);
}

/* ---- Values
 * ------------------------------------------------------------------------------------*/

static void *release_it(void *object)
{
    release(object);
    return NULL;
}

static void release_elsewhere(void *object)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, release_it, object), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

FRESH_TEST(test_a_value_is_kept_until_the_owner_drains)
{
    stacksplice_owner *owner = new_owner(&toy);
    stacksplice_exception *x = new_exception(owner);
    IUnknown *unknown = stacksplice_exception_unknown(x);
    IRestrictedErrorInfo *in_flight;
    int value = 0, other = 0;

    assert_true(stacksplice_exception_keep(x, &value));
    assert_false(stacksplice_exception_keep(x, &other));
    assert_false(stacksplice_exception_is_held(x));
    unknown->lpVtbl->AddRef(unknown);
    assert_true(stacksplice_exception_is_held(x));
    release_elsewhere(unknown);
    assert_int_equal(woken, 1);
    assert_ptr_equal(stacksplice_exception_value(x), &value);
    assert_true(stacksplice_owner_waits(owner));
    /* Held again before the drain: it stays. */
    unknown->lpVtbl->AddRef(unknown);
    stacksplice_owner_drain(owner, NULL);
    assert_int_equal(value, 0);
    release_elsewhere(unknown);
    assert_int_equal(woken, 2);

    RoOriginateError(E_FAIL, NULL);
    stacksplice_owner_drain(owner, &other);
    assert_int_equal(value, 1);
    assert_null(stacksplice_exception_value(x));
    assert_ptr_equal(drop_context, &other);
    assert_int_equal(slot_while_dropping, S_FALSE);
    in_flight = take(); /* not that of the drop */
    release(in_flight);
    assert_int_equal(GetRestrictedErrorInfo(&in_flight), S_FALSE);
    stacksplice_exception_unref(x);
    stacksplice_owner_close(owner);
}

FRESH_TEST(test_a_release_in_a_section_wakes_nobody)
{
    stacksplice_owner *owner = new_owner(&toy);
    stacksplice_exception *x = new_exception(owner);
    IUnknown *unknown = stacksplice_exception_unknown(x);
    stacksplice_section outer, inner;
    int value = 0;

    assert_null(stacksplice_section_owner());
    assert_true(stacksplice_exception_keep(x, &value));
    unknown->lpVtbl->AddRef(unknown);
    outer = stacksplice_section_enter(owner);
    inner = stacksplice_section_enter(owner);
    assert_ptr_equal(stacksplice_section_owner(), owner);
    release(unknown);
    stacksplice_section_leave(inner, NULL);
    assert_int_equal(dropped, 0);
    stacksplice_section_leave(outer, NULL);
    assert_int_equal(dropped, 1);
    assert_int_equal(woken, 0);
    stacksplice_exception_unref(x);
    stacksplice_owner_close(owner);
}

FRESH_TEST(test_a_closed_owner_is_asked_nothing)
{
    stacksplice_owner *owner = new_owner(&toy);
    stacksplice_exception *kept = new_exception(owner), *released = new_exception(owner);
    IUnknown *first = stacksplice_exception_unknown(kept);
    IUnknown *second = stacksplice_exception_unknown(released);
    int values[2] = {0, 0};

    assert_true(stacksplice_exception_keep(kept, &values[0]));
    assert_true(stacksplice_exception_keep(released, &values[1]));
    first->lpVtbl->AddRef(first);
    second->lpVtbl->AddRef(second);
    release_elsewhere(second);
    stacksplice_owner_ref(owner);
    stacksplice_owner_close(owner);
    assert_null(stacksplice_owner_data(owner));
    assert_null(stacksplice_exception_value(kept));
    assert_false(stacksplice_exception_keep(kept, &values[0]));
    release_elsewhere(first);
    assert_int_equal(woken, 1);
    assert_int_equal(dropped, 0);
    assert_false(stacksplice_owner_waits(owner));
    stacksplice_exception_unref(kept);
    stacksplice_exception_unref(released);
    stacksplice_owner_unref(owner);
}

FRESH_TEST(test_a_value_that_nobody_came_for_is_dropped)
{
    stacksplice_owner *owner = new_owner(&toy);
    stacksplice_exception *x = new_exception(owner);
    int value = 0;

    assert_true(stacksplice_exception_keep(x, &value));
    stacksplice_exception_unref(x);
    stacksplice_owner_drain(owner, NULL);
    assert_int_equal(value, 1);
    stacksplice_owner_close(owner);
}

FRESH_TEST(test_all_values_are_dropped_at_the_end)
{
    stacksplice_owner *owner = new_owner(&toy);
    stacksplice_exception *x[3];
    int values[3] = {0, 0, 0};

    for (int i = 0; i < 3; i++) {
        x[i] = new_exception(owner);
        assert_true(stacksplice_exception_keep(x[i], &values[i]));
        (void)query(stacksplice_exception_unknown(x[i]), &IID_IUnknown);
    }
    release(stacksplice_exception_unknown(x[1]));
    stacksplice_owner_drain(owner, NULL);
    assert_int_equal(dropped, 1);
    stacksplice_owner_drop_all(owner, NULL);
    assert_int_equal(dropped, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(values[i], 1);
    release(stacksplice_exception_unknown(x[0]));
    release(stacksplice_exception_unknown(x[2]));
    for (int i = 0; i < 3; i++)
        stacksplice_exception_unref(x[i]);
    stacksplice_owner_close(owner);
}

FRESH_TEST(test_any_thread_drops_where_the_language_allows_it)
{
    stacksplice_owner *owner = new_owner(&free_toy);
    stacksplice_exception *x = new_exception(owner);
    IUnknown *unknown = stacksplice_exception_unknown(x);
    int value = 0;

    assert_true(stacksplice_exception_keep(x, &value));
    unknown->lpVtbl->AddRef(unknown);
    release_elsewhere(unknown);
    assert_int_equal(value, 1);
    stacksplice_exception_unref(x);
    stacksplice_owner_close(owner);
}

/* ---- Ties and borders
 * --------------------------------------------------------------------------*/

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

/* ---- Arguments, gaps, glue
 * ---------------------------------------------------------------------*/

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
}
