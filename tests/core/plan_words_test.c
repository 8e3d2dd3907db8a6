/* A recurring stack is repeated while the words it follows from are the same. */
#include "plan_support.h"

#include <sys/mman.h>

PLAN_TEST(test_recurring_stack_is_repeated)
{
    stack before, after;

    assert_false(asks_after(NULL, &before, &after));
    check_equal(&before, &after);
    assert_true(after.frames[0] == nodes[0].token);
    assert_true(after.frames[1] == nodes[1].token);
}

static void change_head(void)
{
    script.head = &nodes[1];
}

PLAN_TEST(test_changed_word_is_seen)
{
    stack before, after;

    assert_true(asks_after(change_token, &before, &after));
    assert_true(after.frames[1] == script_token("c"));
    (void)set_up(NULL);
    assert_true(asks_after(change_head, &before, &after));
    assert_true(after.frames[0] == nodes[1].token);
    assert_int_equal(after.count, before.count - 1);
}

static node *page;

static void unmap_page(void)
{
    script.head = nodes;
    assert_int_equal(munmap(page, 4096), 0);
}

/* What a pointer led to is gone: the pointer is compared first, and its target is not read. */
PLAN_TEST(test_memory_behind_a_changed_pointer_is_not_read)
{
    stack before, after;

    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    page[0] = (node){NULL, script_token("d")};
    script.head = page;
    assert_true(asks_after(unmap_page, &before, &after));
    assert_true(before.frames[0] == script_token("d"));
    assert_true(after.frames[0] == nodes[0].token);
}

/* ---- The stack itself -------------------------------------------------------------------------*/

static ONE_PLACE void path_left(stack *s)
{
    (void)capture_times(s, 1);
    AFTER();
}

static ONE_PLACE void path_right(stack *s)
{
    (void)capture_times(s, 1);
    __asm__ volatile("nop" ::: "memory");
}

/* Two stacks of the same shape, which differ in one return address alone. */
PLAN_TEST(test_other_callers_have_other_stacks)
{
    stack left, right;
    unsigned repeated = 0;

    for (int i = 0; i < 20; i++) {
        path_left(&left);
        repeated += !script.asked;
        path_right(&right);
        repeated += !script.asked;
        assert_int_equal(left.count, right.count);
        assert_memory_not_equal(left.frames, right.frames, left.count * sizeof *left.frames);
    }
    assert_true(repeated > 20);
}
