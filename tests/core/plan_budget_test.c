/* Plans stay within their memory, and are made only where they pay. */
#include "plan_support.h"

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
