/* Combined captures through the public functions: what they hold, and arguments. */
#include "splice_fixture.h"

#include <stacksplice/source.h>

TEST(test_capture_is_the_callers_stack)
{
    stack ours, theirs;

    capture_both(&ours, &theirs);
    assert_true(ours.count > 3);
    check_same(&ours, &theirs);
}

TEST(test_capture_skips_and_stops)
{
    stack all = {.count = 0}, some, same;

    for (volatile int i = 0; i < 2; i++) { /* from one place, so that both are one stack */
        same = all;
        capture(&all, 0, MAX);
    }
    assert_int_equal(all.count, same.count);
    assert_int_equal(all.hash, same.hash);
    assert_memory_equal(all.frames, same.frames, all.count * sizeof *all.frames);
    for (uint32_t skip = 0; skip < all.count + 2; skip++)
        for (uint32_t max = 0; max < all.count + 2; max++) {
            uint32_t left = all.count > skip ? all.count - skip : 0;

            capture(&some, skip, max);
            assert_int_equal(some.count, left < max ? left : max);
            assert_int_equal(some.hr, left > max ? S_FALSE : S_OK);
            for (uint32_t i = skip == 0; i < some.count; i++)
                if (i + skip != 1) /* this function's own call differs */
                    assert_true(some.frames[i] == all.frames[i + skip]);
            if (skip > 1 && some.count)
                assert_true(some.hash != all.hash);
        }
}

TEST(test_capture_refuses_bad_arguments)
{
    uintptr_t frame;
    uint32_t count = 77;

    assert_int_equal(stacksplice_capture(0, 1, &frame, NULL, NULL), E_POINTER);
    assert_int_equal(stacksplice_capture(0, 1, NULL, &count, NULL), E_POINTER);
    assert_int_equal(stacksplice_capture_above(&frame, 1, &frame, NULL, NULL), E_POINTER);
    assert_int_equal(stacksplice_capture_above(&frame, 1, NULL, &count, NULL), E_POINTER);
    assert_int_equal(count, 77);
    assert_int_equal(stacksplice_capture(0, 0, NULL, &count, NULL), S_FALSE);
    assert_int_equal(count, 0);
    assert_int_equal(stacksplice_capture(UINT32_MAX, 1, &frame, &count, NULL), S_OK);
    assert_int_equal(count, 0);
}

static NOINLINE void capture_above_me(stack *s)
{
    s->hr =
        stacksplice_capture_above(__builtin_frame_address(0), MAX, s->frames, &s->count, &s->hash);
    AFTER();
}

static NOINLINE void capture_above_me_deeper(stack *s, const void *frame_address)
{
    s->hr = stacksplice_capture_above(frame_address, MAX, s->frames, &s->count, &s->hash);
    AFTER();
}

static NOINLINE void capture_above_two(stack *s)
{
    capture_above_me_deeper(s, __builtin_frame_address(0));
    AFTER();
}

TEST(test_capture_above_hides_the_asking_functions)
{
    stack all, above, above_two, not_above;

    capture(&all, 0, MAX);
    capture_above_me(&above);
    capture_above_two(&above_two);
    assert_int_equal(above.hr, S_OK);
    assert_int_equal(above.count, all.count - 1);
    assert_int_equal(above_two.count, all.count - 1);
    for (uint32_t i = 1; i < above.count; i++) {
        assert_true(above.frames[i] == all.frames[i + 1]);
        assert_true(above_two.frames[i] == all.frames[i + 1]);
    }
    capture_above_me_deeper(&not_above, NULL); /* then only our own are hidden */
    assert_int_equal(not_above.count, all.count);
}

static NOINLINE uint32_t native_hash(void **frames, uint16_t *count, uint32_t skip, uint32_t max)
{
    ULONG hash = 1;

    *count = RtlCaptureStackBackTrace(skip, max, frames, &hash);
    AFTER();
    return hash;
}

TEST(test_native_capture_has_the_documented_hash)
{
    void *frames[MAX], *fewer[MAX];
    uint16_t count = 0, less;
    uint32_t sum = 0, hash = native_hash(frames, &count, 0, MAX);

    assert_true(count > 3);
    assert_true((uintptr_t)frames[0] - (uintptr_t)native_hash < 1000); /* begins at the caller */
    for (uint16_t i = 0; i < count; i++)
        sum += (uint32_t)(uintptr_t)frames[i];
    assert_int_equal(hash, sum);
    (void)native_hash(fewer, &less, 2, 2);
    assert_int_equal(less, 2);
    assert_memory_equal(fewer, frames + 2, 2 * sizeof *frames);
    (void)native_hash(frames, &count, 100000, 2);
    assert_int_equal(count, 0);
    assert_int_equal(RtlCaptureStackBackTrace(0, 0, frames, NULL), 0);
    assert_int_equal(CaptureStackBackTrace(0, 3, NULL, NULL), 0);
    assert_int_equal(RtlWalkFrameChain(frames, 3, 0), 3);
    assert_int_equal(RtlWalkFrameChain(frames, 4, 1), 0);
}
