/* stacksplice/script.h: the language exception and its owner, as a binding uses them. */
#include "script_language.h"
#include "threads.h"

/* ---- What an exception tells ---------------------------------------------------------------*/

FRESH_TEST(test_an_exception_tells_its_parts)
{
    stacksplice_owner *owner = new_owner(&toy);
    stacksplice_exception *x = new_exception(owner);
    IUnknown *unknown = stacksplice_exception_unknown(x);
    IScriptException *script = query(unknown, &stacksplice_IID_IScriptException);
    ILanguageExceptionStackBackTrace *trace = query(unknown, &IID_ILanguageExceptionStackBackTrace);
    UINT_PTR frames[4];
    ULONG count = 0;
    size_t length = 0;
    void *out = &out;

    assert_string_equal(script->lpVtbl->GetLanguage(script), "toy");
    assert_string_equal(script->lpVtbl->GetTypeName(script, 0), "KeyError");
    assert_memory_equal(script->lpVtbl->GetMessage(script, &length), "no\0key", 7);
    assert_int_equal(length, 6);
    assert_string_equal(script->lpVtbl->GetTypeName(script, 1), "LookupError");
    assert_null(script->lpVtbl->GetTypeName(script, 2));
    assert_int_equal(trace->lpVtbl->GetStackBackTrace(trace, 4, frames, &count), S_OK);
    assert_int_equal(count, 2);
    assert_int_equal(frames[1], 0x2000);
    assert_int_equal(trace->lpVtbl->GetStackBackTrace(trace, 4, NULL, &count), E_POINTER);
    assert_int_equal(
        unknown->lpVtbl->QueryInterface(unknown, &IID_ILanguageExceptionTransform, &out),
        E_NOINTERFACE);
    assert_null(out);
    assert_false(script->lpVtbl->IsInterrupt(script));
    assert_int_equal(unknown->lpVtbl->QueryInterface(unknown, &IID_IUnknown, NULL), E_POINTER);
    assert_ptr_equal(stacksplice_exception_from((IUnknown *)(void *)script, owner), x);
    assert_null(stacksplice_exception_from(NULL, owner));
    release(trace);
    release(script);
    stacksplice_exception_unref(x);
    stacksplice_owner_close(owner);
}

FRESH_TEST(test_variables_are_copied)
{
    stacksplice_owner *owner = new_owner(&toy);
    const uintptr_t frames[] = {0x1000, 0x2000};
    char name[] = "x", value[] = "12";
    const stacksplice_kept_local given[] = {{0, {name, {value, 2}}}, {1, {"y", {"", 0}}}};
    const stacksplice_exception_parts parts = {.size = sizeof parts,
                                               .hresult = E_FAIL,
                                               .frames = frames,
                                               .frame_count = 2,
                                               .locals = given,
                                               .local_count = 2};
    stacksplice_exception *x = stacksplice_exception_new(owner, &parts);
    const stacksplice_kept_local *kept;
    uint32_t count;

    assert_non_null(x);
    name[0] = value[0] = '?';
    kept = stacksplice_exception_locals(x, &count);
    assert_int_equal(count, 2);
    assert_int_equal(kept[0].element, 0);
    assert_string_equal(kept[0].local.name, "x");
    assert_string_equal(kept[0].local.value.text, "12");
    assert_int_equal(kept[1].element, 1);
    assert_string_equal(kept[1].local.name, "y");
    assert_int_equal(kept[1].local.value.length, 0);
    stacksplice_exception_unref(x);
    x = new_exception(owner);
    assert_null(stacksplice_exception_locals(x, &count));
    assert_int_equal(count, 0);
    stacksplice_exception_unref(x);
    stacksplice_owner_close(owner);
}

FRESH_TEST(test_an_exception_tells_its_details)
{
    stacksplice_owner *owner = new_owner(&toy);
    stacksplice_ties ties = {NULL, NULL, 0};
    stacksplice_document_text note = {"a note", 6};
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
    IScriptException *details;
    IRestrictedErrorInfo *got = NULL;
    uint32_t members = 0, left_out = 0;
    size_t length = 0;

    stacksplice_ties_set_exception(&ties, new_exception(owner));
    assert_int_equal(stacksplice_make_error(&ties, &member), S_OK);
    parts.members = &member;
    x = stacksplice_exception_new(owner, &parts);
    stacksplice_exception_set_cause(x, NULL, STACKSPLICE_RELATION_NONE, 1);
    details = query(stacksplice_exception_unknown(x), &stacksplice_IID_IScriptException);
    assert_true(details->lpVtbl->IsInterrupt(details));
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

/* ---- Values --------------------------------------------------------------------------------*/

static void *release_it(void *object)
{
    release(object);
    return NULL;
}

static void release_elsewhere(void *object)
{
    (void)thread_run(release_it, object);
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

    assert_true(stacksplice_exception_keep(x, &value));
    unknown->lpVtbl->AddRef(unknown);
    outer = stacksplice_section_enter(owner);
    inner = stacksplice_section_enter(owner);
    release(unknown);
    stacksplice_section_leave(inner, NULL);
    assert_int_equal(dropped, 0);
    stacksplice_section_leave(outer, NULL);
    assert_int_equal(dropped, 1);
    assert_int_equal(woken, 0);
    stacksplice_exception_unref(x);
    stacksplice_owner_close(owner);
}

FRESH_TEST(test_a_section_inside_that_of_another_language_drops_nothing)
{
    stacksplice_owner *other = new_owner(&toy), *owner = new_owner(&toy);
    stacksplice_exception *x = new_exception(owner);
    IUnknown *unknown = stacksplice_exception_unknown(x);
    stacksplice_section outer, inner;
    int value = 0;

    assert_true(stacksplice_exception_keep(x, &value));
    unknown->lpVtbl->AddRef(unknown);
    outer = stacksplice_section_enter(other);
    inner = stacksplice_section_enter(owner);
    release(unknown);
    assert_int_equal(woken, 0);
    stacksplice_section_leave(inner, NULL);
    assert_int_equal(woken, 1);
    stacksplice_section_leave(outer, NULL);
    assert_int_equal(dropped, 0);
    stacksplice_owner_drain(owner, NULL);
    assert_int_equal(value, 1);
    stacksplice_exception_unref(x);
    stacksplice_owner_close(owner);
    stacksplice_owner_close(other);
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
