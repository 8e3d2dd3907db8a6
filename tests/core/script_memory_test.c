/* What an error keeps of its language exception's stack: nothing twice. */
#include "failing_allocator.h"
#include "script_language.h"

enum { FRAMES = 400 };

static int count_from_now(void **state)
{
    (void)state;
    return memory_use();
}

GROUP(count_from_now, NULL)

static stacksplice_exception *new_deep_exception(stacksplice_owner *owner, uintptr_t *frames)
{
    stacksplice_exception_parts parts = {.size = sizeof parts, .hresult = E_FAIL};
    stacksplice_exception *x;

    for (uintptr_t i = 0; i < FRAMES; i++)
        frames[i] = 0x1000 + i;
    parts.frames = frames;
    parts.frame_count = FRAMES;
    x = stacksplice_exception_new(owner, &parts);
    assert_non_null(x);
    return x;
}

static void check_frames(IUnknown *exception, const uintptr_t *frames)
{
    IScriptException *keeper = query(exception, &stacksplice_IID_IScriptException);
    uint32_t count = 0;

    assert_memory_equal(keeper->lpVtbl->GetFrames(keeper, &count), frames, FRAMES * sizeof *frames);
    assert_int_equal(count, FRAMES);
    release(keeper);
}

static void check_stack(IUnknown *error, const uintptr_t *frames)
{
    uintptr_t found[FRAMES + 1];
    uint32_t count = 0;

    assert_int_equal(stacksplice_error_stack(error, FRAMES + 1, found, &count), S_OK);
    assert_int_equal(count, FRAMES);
    assert_memory_equal(found, frames, FRAMES * sizeof *frames);
}

/* The error, in the slot and with nodes, after everything else has let the exception go. */
FRESH_TEST(test_an_error_and_its_nodes_share_the_frames_of_their_exception)
{
    stacksplice_owner *owner = new_owner(&toy);
    uintptr_t frames[FRAMES];
    stacksplice_exception *x = new_deep_exception(owner, frames);
    IUnknown *unknown = stacksplice_exception_unknown(x);
    IRestrictedErrorInfo *error = NULL;
    long before = atomic_load(&memory_asked);

    check_frames(unknown, frames);
    assert_int_equal(stacksplice_originate(E_FAIL, "m", 1, unknown, &error), S_OK);
    assert_int_equal(stacksplice_propagate(E_FAIL, unknown), S_OK);
    assert_in_range(atomic_load(&memory_asked) - before, 1, FRAMES * sizeof *frames);
    stacksplice_exception_unref(x);
    check_stack((IUnknown *)(void *)error, frames);
    release(take());
    check_stack((IUnknown *)(void *)error, frames);
    release(error);
    stacksplice_owner_close(owner);
}

/* More frames than an error may have: it keeps both ends, which no exception has. */
FRESH_TEST(test_an_error_with_fewer_frames_has_its_own)
{
    stacksplice_owner *owner = new_owner(&toy);
    uintptr_t frames[FRAMES], found[FRAMES];
    stacksplice_exception *x = new_deep_exception(owner, frames);
    IRestrictedErrorInfo *error = NULL;
    uint32_t count = 0;

    assert_int_equal(stacksplice_set_max_frames(20), S_OK);
    (void)stacksplice_originate(E_FAIL, "m", 1, stacksplice_exception_unknown(x), &error);
    (void)stacksplice_set_max_frames(512);
    assert_int_equal(stacksplice_error_stack((IUnknown *)(void *)error, FRAMES, found, &count),
                     S_OK);
    assert_int_equal(count, 20);
    assert_int_equal(found[0], frames[0]);
    assert_int_equal(found[19], frames[FRAMES - 1]);
    release(error);
    release(take());
    stacksplice_exception_unref(x);
    stacksplice_owner_close(owner);
}

FRESH_TEST(test_nothing_is_left)
{
    long before = atomic_load(&memory_live);

    test_an_error_and_its_nodes_share_the_frames_of_their_exception(state);
    assert_int_equal(atomic_load(&memory_live), before);
}
