/* Plans belong to a thread; the child of a fork keeps them, and signal handlers have none. */
#include "plan_support.h"
#include "threads.h"

#include <signal.h>

static void *capture_in_thread(void *data)
{
    stack before, after;

    script.head = nodes;
    (void)data;
    return asks_after(NULL, &before, &after) ? "asked" : NULL;
}

PLAN_TEST(test_each_thread_has_its_plans)
{
    for (int i = 0; i < 40; i++)
        assert_null(thread_run(capture_in_thread, NULL));
}

PLAN_TEST(test_child_of_a_fork_repeats_too)
{
    stack before, after;
    pid_t child;

    assert_false(asks_after(NULL, &before, &after));
    child = fork();
    if (child == 0)
        child_end(!asks_after(NULL, &before, &after) && !asks_after(NULL, &before, &after));
    child_check(child);
}

static stack in_handler;
static volatile sig_atomic_t handled;

static void on_signal(int number)
{
    (void)number;
    in_handler.hr = stacksplice_capture(0, MAX, in_handler.frames, &in_handler.count, NULL);
    handled++;
}

/* The handler's stack recurs, but a signal may come anywhere: it is always captured in full. */
PLAN_TEST(test_handlers_are_not_repeated)
{
    (void)signal(SIGUSR1, on_signal);
    script.asked = 0;
    for (unsigned i = 0; i < 2 * ENOUGH; i++)
        assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(handled, 2 * ENOUGH);
    assert_int_equal(script.asked, 2 * ENOUGH);
    (void)signal(SIGUSR1, SIG_DFL);
}
