/* What tiny gives back: on other threads, at its end, and without memory. */
#include "host.h"

#include <pthread.h>
#include <string.h>

#include "failing_allocator.h"
#include "text.h"

static const char throws[] =
    "function throws\n e = error \"access\" \"no entry\"\n made e\n throw e\n"
    "function main\n throws\n"
    "function again\n e = try native\n throw e\n";

/* ---- Threads and ends -------------------------------------------------------------------------*/

static void *release_here(void *error)
{
    ((IRestrictedErrorInfo *)error)->lpVtbl->Release(error);
    return NULL;
}

TEST(test_a_value_is_dropped_by_its_own_thread)
{
    host *h = open_host(throws);
    tiny_object *object = NULL;
    IRestrictedErrorInfo *error;
    pthread_t thread;
    int idle, held;

    assert_true(tiny_define(h->t, "made", made, &object));
    idle = h->blocks;
    assert_int_equal(run(h, "main"), E_ACCESSDENIED);
    error = take_error();
    held = h->blocks;
    assert_true(held > idle);
    assert_int_equal(object->references, 1);
    assert_int_equal(pthread_create(&thread, NULL, release_here, error), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(h->blocks, held); /* the other thread dropped nothing */
    assert_int_equal(run(h, "return"), S_OK);
    assert_int_equal(h->blocks, idle);
    close_host(h);
}

TEST(test_an_error_outlives_its_interpreter)
{
    host *h = open_host(throws);
    tiny_object *object = NULL;
    IRestrictedErrorInfo *error;
    char text[4000] = "";

    assert_true(tiny_define(h->t, "made", made, &object));
    assert_int_equal(run(h, "main"), E_ACCESSDENIED);
    error = take_error();
    close_host(h);
    assert_int_equal(
        stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, append, text), S_OK);
    assert_non_null(strstr(text, "access: no entry"));
    error->lpVtbl->Release(error);
}

/* ---- Memory -----------------------------------------------------------------------------------*/

/* MAIN crosses borders in both directions; whatever fails, it fails cleanly. */
static const char crossings[] = "function inner\n cause = try native\n"
                                " e = error \"access\" \"no entry\" cause\n throw e\n"
                                "function main\n inner\n"
                                "function outer\n e = try again\n report e\n throw e\n";

static HRESULT cross(host *h)
{
    IRestrictedErrorInfo *error = NULL;
    HRESULT hr = run(h, "outer");

    assert_true(hr == E_ACCESSDENIED || hr == E_OUTOFMEMORY || hr == E_FAIL || hr == E_BOUNDS);
    assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
    error->lpVtbl->Release(error);
    assert_int_equal(run(h, "return"), S_OK);
    return hr;
}

static tiny_value fail_native(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)data;
    (void)arguments;
    (void)count;
    (void)stacksplice_originate(E_BOUNDS, "too far", 7, NULL, NULL);
    return stacksplice_tiny_raise(t, E_BOUNDS);
}

static host *open_crossings(void)
{
    host *h = open_host(crossings);

    assert_true(tiny_define(h->t, "native", fail_native, NULL));
    assert_true(tiny_define(h->t, "again", at_other, h));
    return h;
}

TEST(test_every_allocation_of_the_interpreter_may_fail)
{
    for (int nth = 0; nth < 100; nth++) {
        host *h = open_crossings();
        int idle = h->blocks;

        h->left = nth;
        (void)cross(h);
        h->left = -1;
        assert_int_equal(run(h, "return"), S_OK);
        assert_int_equal(h->blocks, idle);
        (void)cross(h);
        close_host(h);
    }
}

TEST(test_every_allocation_of_the_binding_may_fail)
{
    int failures = 0;

    for (int nth = 0; nth < 40; nth++) {
        host *h = open_crossings();
        int idle = h->blocks;

        binding_left = nth;
        failures += cross(h) == E_OUTOFMEMORY;
        binding_left = -1;
        assert_int_equal(run(h, "return"), S_OK);
        assert_int_equal(h->blocks, idle);
        close_host(h);
    }
    assert_true(failures > 0);
}

TEST(test_every_allocation_of_the_core_may_fail)
{
    bool failed = true;

    for (long nth = 1; failed; nth++) {
        host *h = open_crossings();
        int idle = h->blocks;

        memory_arm(nth);
        (void)cross(h);
        failed = memory_failed;
        memory_disarm();
        assert_int_equal(run(h, "return"), S_OK);
        assert_int_equal(h->blocks, idle);
        close_host(h);
        assert_true(nth < 1000);
    }
}

static int use_memory(void **state)
{
    (void)state;
    return memory_use();
}

GROUP(use_memory, NULL)
