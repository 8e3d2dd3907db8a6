/* The two counts: what an error holds awake, what at rest, and from several threads. */
#include "error_test.h"
#include "threads.h"

#include <string.h>

static IScriptErrorInfo *script_of(void *error)
{
    return query(error, &stacksplice_IID_IScriptErrorInfo);
}

#define check_counts(double, want_outside, want_inside)   \
    do {                                                  \
        assert_int_equal((double).outside, want_outside); \
        assert_int_equal((double).inside, want_inside);   \
    } while (0)

FRESH_TEST(test_error_holds_outside_only_while_held_outside)
{
    error_double x, at_node;
    IRestrictedErrorInfo *error;
    IScriptErrorInfo *script;
    ILanguageExceptionErrorInfo2 *node;

    error_double_init(&x, 1);
    error_double_init(&at_node, 1);
    RoOriginateLanguageException(E_FAIL, NULL, error_double_unknown(&x));
    check_counts(x, 2, 1);
    assert_int_equal(stacksplice_propagate(E_FAIL, error_double_unknown(&at_node)), S_OK);
    check_counts(at_node, 2, 1);
    error = take();
    script = script_of(error);
    script->lpVtbl->AddInside(script); /* the anchor in the script's exception */
    assert_int_equal(script->lpVtbl->Release(script), 1);
    assert_int_equal(error->lpVtbl->Release(error), 0);
    check_counts(x, 1, 1); /* at rest: nothing back */
    check_counts(at_node, 1, 1);
    assert_int_equal(script->lpVtbl->AddRef(script), 1);
    check_counts(x, 2, 1); /* awake again */
    check_counts(at_node, 2, 1);
    node = head_of(script);
    assert_non_null(node);
    release(node);
    assert_int_equal(script->lpVtbl->Release(script), 0);
    script->lpVtbl->ReleaseInside(script);
    check_counts(x, 1, 0); /* gone */
    check_counts(at_node, 1, 0);
}

FRESH_TEST(test_error_without_anchor_goes_at_the_last_release)
{
    error_double x;
    IRestrictedErrorInfo *error;

    error_double_init(&x, 1);
    error = originated_with(E_FAIL, &x);
    assert_int_equal(error->lpVtbl->Release(error), 0);
    check_counts(x, 1, 0);
}

FRESH_TEST(test_foreign_exception_is_held_for_life)
{
    error_double x;
    IRestrictedErrorInfo *error;
    IScriptErrorInfo *script;

    error_double_init(&x, 0);
    error = originated_with(E_FAIL, &x);
    script = script_of(error);
    script->lpVtbl->AddInside(script);
    release(script);
    release(error);
    check_counts(x, 2, 0);
    script->lpVtbl->ReleaseInside(script);
    check_counts(x, 1, 0);
}

FRESH_TEST(test_cause_sleeps_with_the_error_it_caused)
{
    error_double x, y;
    IRestrictedErrorInfo *cause, *error;
    IScriptErrorInfo *script;

    error_double_init(&x, 1);
    error_double_init(&y, 1);
    cause = originated_with(E_BOUNDS, &x);
    y.cause = cause;
    error = originated_with(E_FAIL, &y);
    release(cause);
    check_counts(x, 2, 1);
    script = script_of(error);
    script->lpVtbl->AddInside(script);
    release(script);
    release(error);
    check_counts(x, 1, 1); /* the cause rests, as its holder does */
    check_counts(y, 1, 1);
    assert_int_equal(script->lpVtbl->AddRef(script), 1);
    check_counts(x, 2, 1);
    assert_int_equal(script->lpVtbl->Release(script), 0);
    script->lpVtbl->ReleaseInside(script);
    check_counts(x, 1, 0);
    check_counts(y, 1, 0);
}

FRESH_TEST(test_resting_error_is_not_found_by_its_reference)
{
    IRestrictedErrorInfo *error, *found = NULL;
    IScriptErrorInfo *script;
    BSTR reference = NULL;

    error = originated(E_FAIL);
    assert_int_equal(error->lpVtbl->GetReference(error, &reference), S_OK);
    script = script_of(error);
    script->lpVtbl->AddInside(script);
    release(script);
    release(error);
    assert_int_equal(RoResolveRestrictedErrorInfoReference(reference, &found), E_INVALIDARG);
    script->lpVtbl->AddRef(script);
    assert_int_equal(RoResolveRestrictedErrorInfoReference(reference, &found), S_OK);
    assert_ptr_equal(found, error);
    release(found);
    release(script);
    script->lpVtbl->ReleaseInside(script);
    SysFreeString(reference);
}

FRESH_TEST(test_node_added_at_rest_rests)
{
    error_double at_node;
    IRestrictedErrorInfo *error;
    ILanguageExceptionErrorInfo2 *info;
    IScriptErrorInfo *script;

    error_double_init(&at_node, 1);
    error = originated(E_FAIL);
    info = query(error, &IID_ILanguageExceptionErrorInfo2);
    script = script_of(error);
    script->lpVtbl->AddInside(script);
    release(info);
    release(error);
    release(script);
    assert_int_equal(info->lpVtbl->CapturePropagationContext(info, error_double_unknown(&at_node)),
                     S_OK);
    check_counts(at_node, 1, 1);
    script->lpVtbl->AddRef(script);
    check_counts(at_node, 2, 1);
    release(script);
    check_counts(at_node, 1, 1);
    script->lpVtbl->ReleaseInside(script);
    check_counts(at_node, 1, 0);
}

FRESH_TEST(test_node_is_no_script_error)
{
    IRestrictedErrorInfo *error;
    ILanguageExceptionErrorInfo2 *node;
    void *out = NULL;

    RoOriginateError(E_FAIL, NULL);
    stacksplice_propagate(E_FAIL, NULL);
    error = take();
    node = head_of(error);
    assert_int_equal(node->lpVtbl->QueryInterface(node, &stacksplice_IID_IScriptErrorInfo, &out),
                     E_NOINTERFACE);
    assert_null(out);
    release(node);
    release(error);
}

/* ---- Threads ---------------------------------------------------------------------------------*/

enum { THREADS = 4, ROUNDS = 20000 };

typedef struct crowd {
    IScriptErrorInfo *script;
    error_double at_node[THREADS];
    atomic_int next;
} crowd;

/* Each thread has the script's exception in hand: waking and resting cross all the time. */
static void *wake_and_rest(void *data)
{
    crowd *all = data;
    int me = atomic_fetch_add(&all->next, 1);

    for (int i = 0; i < ROUNDS; i++) {
        all->script->lpVtbl->AddRef(all->script);
        if (i % 1000 == me) {
            ILanguageExceptionErrorInfo2 *info = NULL;

            all->script->lpVtbl->QueryInterface(all->script, &IID_ILanguageExceptionErrorInfo2,
                                                (void **)&info);
            info->lpVtbl->CapturePropagationContext(info, error_double_unknown(&all->at_node[me]));
            info->lpVtbl->Release(info);
        }
        all->script->lpVtbl->Release(all->script);
    }
    return NULL;
}

FRESH_TEST(test_waking_and_resting_balance_across_threads)
{
    static crowd all;
    pthread_t threads[THREADS];
    error_double x;
    IRestrictedErrorInfo *error;

    memset(&all, 0, sizeof all);
    error_double_init(&x, 1);
    error = originated_with(E_FAIL, &x);
    all.script = script_of(error);
    all.script->lpVtbl->AddInside(all.script);
    release(all.script);
    release(error);
    for (int i = 0; i < THREADS; i++)
        error_double_init(&all.at_node[i], 1);
    for (int i = 0; i < THREADS; i++)
        threads[i] = thread_start(wake_and_rest, &all);
    for (int i = 0; i < THREADS; i++)
        (void)thread_end(threads[i]);
    check_counts(x, 1, 1);
    for (int i = 0; i < THREADS; i++)
        check_counts(all.at_node[i], 1, ROUNDS / 1000);
    all.script->lpVtbl->ReleaseInside(all.script);
    check_counts(x, 1, 0);
    for (int i = 0; i < THREADS; i++)
        check_counts(all.at_node[i], 1, 0);
}

static void *resolve_often(void *reference)
{
    for (int i = 0; i < ROUNDS; i++) {
        IRestrictedErrorInfo *found = NULL;

        if (RoResolveRestrictedErrorInfoReference(reference, &found) == S_OK)
            release(found);
    }
    return NULL;
}

FRESH_TEST(test_resolving_races_with_the_last_release)
{
    for (int round = 0; round < 20; round++) {
        IRestrictedErrorInfo *error;
        BSTR reference = NULL;
        pthread_t thread;

        error = originated(E_FAIL);
        assert_int_equal(error->lpVtbl->GetReference(error, &reference), S_OK);
        thread = thread_start(resolve_often, reference);
        release(error);
        (void)thread_end(thread);
        assert_int_equal(RoResolveRestrictedErrorInfoReference(reference, &error), E_INVALIDARG);
        SysFreeString(reference);
    }
}

GROUP(NULL, fresh)
