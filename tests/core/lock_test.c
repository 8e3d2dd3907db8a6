/* A lock that is not waited for. */
#include "base/thread.h"
#include "support.h"
#include "threads.h"

SS_LOCK(a_lock);

static void *try_lock(void *data)
{
    bool taken = ss_lock_take_within(&a_lock, 1);

    if (taken)
        ss_lock_drop(&a_lock);
    return taken ? data : NULL;
}

static bool another_thread_gets_it(void)
{
    void *result;

    result = thread_run(try_lock, &a_lock);
    return result != NULL;
}

TEST(test_lock_is_not_waited_for)
{
    assert_true(ss_lock_take(&a_lock));
    assert_false(ss_lock_take_within(&a_lock, 1));
    assert_false(another_thread_gets_it());
    ss_lock_drop(&a_lock);
    assert_true(another_thread_gets_it());
}
