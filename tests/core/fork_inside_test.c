/*
 * Forks by a thread that holds a lock of the library: in the host's allocator, and in a signal
 * handler.  The fork must not wait for its own thread, and the child goes on where that was.
 */
#include "steps.h"
#include "support.h"

#include <stacksplice/script.h>

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Nothing here waits: who is still there after so many seconds waits for itself. */
enum { PATIENCE = 120 };

static bool armed, in_child;
static unsigned forks, failed;

/* Returns in both; the child ends where it is told to. */
static void fork_here(void)
{
    int status = 1;
    pid_t child = fork();

    forks++;
    if (child == 0) {
        (void)alarm(PATIENCE);
        armed = false;
        in_child = true;
        return;
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        failed++;
}

static void *allocate(size_t bytes, void *data)
{
    if (armed)
        fork_here();
    return malloc(bytes);
}

static void *reallocate(void *block, size_t bytes, void *data)
{
    return realloc(block, bytes);
}

static void release(void *block, void *data)
{
    free(block);
}

static int begin(void **state)
{
    static const stacksplice_allocator allocator = {sizeof allocator, allocate, reallocate, release,
                                                    NULL};

    forks = failed = 0;
    (void)alarm(PATIENCE);
    return stacksplice_set_allocator(&allocator) == S_OK ||
                   stacksplice_set_allocator(&allocator) == E_ILLEGAL_METHOD_CALL
               ? 0
               : 1;
}

static int count_frame(const stacksplice_frame *frame, void *data)
{
    ++*(unsigned *)data;
    return 0;
}

TEST_WITH(test_the_allocator_forks_while_names_are_looked_up, begin, NULL)
{
    unsigned frames = 0;

    armed = true;
    assert_int_equal(stacksplice_resolve((uintptr_t)malloc + 1, count_frame, &frames), S_OK);
    armed = false;
    if (in_child)
        _exit(frames > 0 ? 0 : 1);
    assert_true(frames > 0 && forks > 0);
    assert_int_equal(failed, 0);
}

#if defined(__x86_64__)
/* A lock is held for more instructions than are left out here. */
static void fork_now_and_then(int number)
{
    static unsigned steps;

    if (armed && ++steps % 23 == 0)
        fork_here();
}

TEST_WITH(test_a_handler_forks_while_an_error_is_made, begin, NULL)
{
    struct sigaction action;

    if (NO_STEPS)
        SKIP(WHY_NO_STEPS);
    memset(&action, 0, sizeof action);
    action.sa_handler = fork_now_and_then;
    assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
    assert_int_equal(stacksplice_originate(E_FAIL, "first", 5, NULL, NULL), S_OK);
    armed = true;
    begin_steps();
    RoClearError();
    end_steps();
    if (in_child)
        _exit(stacksplice_originate(E_FAIL, "again", 5, NULL, NULL) == S_OK ? 0 : 1);
    armed = false;
    assert_true(forks > 10);
    assert_int_equal(failed, 0);
}
#endif
