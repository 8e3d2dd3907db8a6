/* Plans stay within their memory, and are made only where they pay. */
#include "plan_support.h"

static ONE_PLACE void go_along(stack *s, unsigned way, unsigned steps);

static ONE_PLACE void go_left(stack *s, unsigned way, unsigned steps)
{
    go_along(s, way, steps);
    AFTER();
}

static ONE_PLACE void go_right(stack *s, unsigned way, unsigned steps)
{
    go_along(s, way, steps);
    __asm__ volatile("nop" ::: "memory");
}

/* WAY has a bit for each of STEPS: one of two callers. */
static ONE_PLACE void go_along(stack *s, unsigned way, unsigned steps)
{
    if (!steps)
        (void)capture_times(s, 1);
    else if (way & 1)
        go_left(s, way >> 1, steps - one);
    else
        go_right(s, way >> 1, steps - one);
    AFTER();
}

/* Capture MANY stacks of one entry in turn; returns how many captures were repeated. */
static unsigned take_turns(unsigned many, unsigned rounds)
{
    unsigned repeated = 0;
    stack s;

    for (unsigned i = 0; i < rounds * many; i++) {
        go_along(&s, i % many, 5);
        repeated += !script.asked;
    }
    return repeated;
}

/* A place has few plans: those of more stacks would overwrite each other. */
PLAN_TEST(test_stacks_that_recur_too_seldom_are_not_recorded)
{
    /* A prime: after many misses one in eight is looked at. */
    assert_int_equal(take_turns(31, 20), 0);
    assert_true(take_turns(6, 100) > 300);
}

/* A stack that is DEPTH frames deeper.  Returns how many of its captures were made in full. */
static ONE_PLACE unsigned capture_deep(stack *s, unsigned depth)
{
    unsigned in_full = depth ? capture_deep(s, depth - one) : capture_times(s, ENOUGH);

    AFTER();
    return in_full;
}

/* More plans than there is room for: the newest ones overwrite the oldest. */
PLAN_TEST(test_room_for_plans_is_used_again)
{
    enum { DEEPEST = 200 };
    unsigned forgotten = 0;
    uint32_t least = 0;
    stack s;

    for (volatile unsigned round = 0; round < 3; round += one)
        for (volatile unsigned depth = 0; depth < DEEPEST; depth += one) {
            unsigned in_full = capture_deep(&s, depth);

            forgotten += round && in_full > 1;
            least = depth ? least : s.count;
            assert_in_range(in_full, 0, ENOUGH / 2);
            assert_int_equal(s.count, least + depth);
            assert_true(s.frames[0] == nodes[0].token);
        }
    assert_true(forgotten > DEEPEST);
}

/* What is refused is seldom asked for. */
PLAN_TEST(test_source_may_refuse)
{
    stack s;

    script.refuses = true;
    script.reports = 0;
    assert_int_equal(capture_times(&s, 30 * ENOUGH), 30 * ENOUGH);
    assert_in_range(script.reports, 1, ENOUGH / 2);
}
