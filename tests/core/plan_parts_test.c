/* Of a stack that is repeated, callers may want a part, or native addresses alone. */
#include "plan_support.h"

/* ---- Combined stacks --------------------------------------------------------------------------*/

typedef struct part {
    uintptr_t frames[MAX];
    uint32_t count;
    stacksplice_hresult hr;
} part;

enum { PLAIN, SKIPPED, CUT, ENDS, CUT_ENDS, BEHIND, PARTS };

static ONE_PLACE void take_part(int which, part *p)
{
    const void *here = __builtin_frame_address(0);
    uint32_t max = which == CUT || which == CUT_ENDS ? 4 : MAX;
    uintptr_t behind = which == BEHIND ? nodes[0].token : 0;

    if (which < ENDS)
        p->hr = stacksplice_capture(which == SKIPPED ? 2 : 0, max, p->frames, &p->count, NULL);
    else
        p->hr = stacksplice_capture_ends(here, behind, max, p->frames, &p->count);
    AFTER();
}

/* Each part is taken while no capture is repeated, and while most are. */
PLAN_TEST(test_parts_of_a_repeated_stack)
{
    part full, again;

    for (int which = 0; which < PARTS; which++)
        for (volatile unsigned i = 0; i < 3 * ENOUGH; i += one) {
            script.refuses = i == 0;
            if (script.refuses)
                stacksplice_reclassify();
            take_part(which, i ? &again : &full);
            if (i == 0)
                continue;
            assert_int_equal(again.hr, full.hr);
            assert_int_equal(again.count, full.count);
            assert_memory_equal(again.frames + 1, full.frames + 1,
                                (full.count - 1) * sizeof *full.frames);
        }
}

/* ---- Native addresses -------------------------------------------------------------------------*/

static ONE_PLACE uint32_t native_times(uintptr_t *frames, uint32_t skip, uint32_t max,
                                       unsigned times)
{
    uint32_t count = 0;

    for (unsigned i = 0; i < times; i += one) {
        uint32_t now = RtlCaptureStackBackTrace(skip, max, (void **)frames, NULL);

        assert_true(!i || now == count);
        count = now;
    }
    return count;
}

TEST(test_native_addresses_are_repeated)
{
    uintptr_t all[MAX], part_of[MAX];
    uint32_t count = native_times(all, 0, MAX, 1);
    uint32_t own = 1; /* the number of this function in the stack */

    for (uint32_t skip = 0; skip < 3; skip += one)
        for (uint32_t max = 1; max < count + 2; max += one) {
            uint32_t want = count - skip < max ? count - skip : max;

            assert_int_equal(native_times(part_of, skip, max, ENOUGH), want);
            /* This function has two calls. */
            for (uint32_t i = 0; i < want; i++)
                assert_true(skip + i == own || part_of[i] == all[skip + i]);
        }
}
