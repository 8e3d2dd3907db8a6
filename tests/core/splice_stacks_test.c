/* Combined captures in threads and children, and on stacks of other kinds. */
#include "forks.h"
#include "instruments.h"
#include "splice_fixture.h"
#include "threads.h"

#include <stacksplice/source.h>

#include <stdlib.h>
#include <ucontext.h>

static void *capture_in_thread(void *data)
{
    stack *stacks = data;

    for (int i = 0; i < 100; i++)
        capture_both(&stacks[0], &stacks[1]);
    return NULL;
}

TEST(test_capture_in_threads)
{
    static stack stacks[8][2];
    pthread_t threads[8];

    for (size_t i = 0; i < COUNT_OF(threads); i++)
        threads[i] = thread_start(capture_in_thread, stacks[i]);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        (void)thread_end(threads[i]);
        check_same(&stacks[i][0], &stacks[i][1]);
    }
}

static void *fork_in_thread(void *data)
{
    stack stacks[2];
    pthread_t thread;
    pid_t child;

    capture_both(&stacks[0], &stacks[1]);
    child = fork();
    if (child == 0) {
        static stack others[2];

        alarm(20);
        capture_both(&stacks[0], &stacks[1]);
        if (stacks[0].hr != S_OK || stacks[0].count != stacks[1].count)
            child_end(false);
        if (pthread_create(&thread, NULL, capture_in_thread, others) != 0)
            child_end(false);
        (void)thread_end(thread);
        child_end(others[0].hr == S_OK && others[0].count == others[1].count);
    }
    *(pid_t *)data = child;
    return NULL;
}

/* The child has one thread, what the others had is used again, and bounds are asked anew. */
TEST(test_capture_after_fork)
{
    static stack stacks[2];
    pthread_t threads[2];
    pid_t child = -1;

    if (UNDER_TSAN)
        SKIP("ThreadSanitizer supports no new threads in the child of several");
    threads[0] = thread_start(capture_in_thread, stacks);
    threads[1] = thread_start(fork_in_thread, &child);
    (void)thread_end(threads[0]);
    (void)thread_end(threads[1]);
    assert_true(child > 0);
    child_check(child);
}

#if defined(__GLIBC__)
static ucontext_t main_context, other_context;
#endif
static stack other_stacks[2];

static void run_in_context(void)
{
    capture_both(&other_stacks[0], &other_stacks[1]);
}

static void run_on(void *memory, size_t size)
{
#if !defined(__GLIBC__)
    (void)run_in_context;
    SKIP("this C library has no makecontext");
#else
    assert_int_equal(getcontext(&other_context), 0);
    other_context.uc_stack.ss_sp = memory;
    other_context.uc_stack.ss_size = size;
    other_context.uc_link = &main_context;
    makecontext(&other_context, run_in_context, 0);
    assert_int_equal(swapcontext(&main_context, &other_context), 0);
#endif
}

/*
 * makecontext puts the first address of a function where a return address is expected, and the byte
 * before belongs to nothing.  That is the end, as libgcc calls it, and nothing is missing.
 */
static void check_other_stack(void)
{
    const stack *ours = &other_stacks[0];

    assert_null(gap(ours->frames[ours->count - 1]));
    check_same(ours, &other_stacks[1]);
}

TEST(test_capture_on_a_known_foreign_stack)
{
    size_t size = 1 << 18;
    char *memory = malloc(size);

    assert_non_null(memory);
    assert_int_equal(stacksplice_add_stack(memory, memory + size), S_OK);
    run_on(memory, size);
    check_other_stack();
    assert_int_equal(stacksplice_remove_stack(memory), S_OK);
    free(memory);
}

TEST(test_capture_on_an_unknown_foreign_stack)
{
    size_t size = 1 << 18;
    char *memory = malloc(size);

    assert_non_null(memory);
    if ((uintptr_t)&size - (uintptr_t)memory < (uintptr_t)128 << 20) {
        free(memory);
        SKIP("an emulator put memory where a kernel keeps room for this stack");
    }
    run_on(memory, size);
    assert_int_equal(other_stacks[0].hr, S_OK);
    assert_int_equal(other_stacks[0].count, 2); /* the caller is known: its callee is ours */
    assert_true(other_stacks[0].frames[0] - other_stacks[1].frames[0] < 200);
    assert_string_equal(gap(other_stacks[0].frames[1]), "bounds of this stack unknown");
    free(memory);
}

/* A stack inside the stack: the smaller one holds. */
TEST(test_capture_on_a_stack_inside_the_stack)
{
    char memory[1 << 17];

    if (UNDER_VALGRIND)
        SKIP("valgrind takes the change of stacks for a large frame with undefined contents");
    assert_int_equal(stacksplice_add_stack(memory, memory + sizeof memory), S_OK);
    run_on(memory, sizeof memory);
    check_other_stack();
    assert_int_equal(stacksplice_remove_stack(memory), S_OK);
}

TEST(test_stacks_are_checked)
{
    char memory[3000];

    assert_int_equal(stacksplice_add_stack(NULL, memory), E_INVALIDARG);
    assert_int_equal(stacksplice_add_stack(memory, memory), E_INVALIDARG);
    assert_int_equal(stacksplice_add_stack(memory + 1, memory), E_INVALIDARG);
    assert_int_equal(stacksplice_remove_stack(memory), E_INVALIDARG);
    assert_int_equal(stacksplice_remove_stack(NULL), E_INVALIDARG);
    assert_int_equal(stacksplice_add_stack(memory + 1000, memory + 2000), S_OK);
    assert_int_equal(stacksplice_add_stack(memory + 1999, memory + 3000), E_INVALIDARG);
    assert_int_equal(stacksplice_add_stack(memory, memory + 1001), E_INVALIDARG);
    assert_int_equal(stacksplice_add_stack(memory, memory + 3000), E_INVALIDARG);
    assert_int_equal(stacksplice_add_stack(memory, memory + 1000), S_OK);
    assert_int_equal(stacksplice_add_stack(memory + 2000, memory + 3000), S_OK);
    assert_int_equal(stacksplice_remove_stack(memory + 1), E_INVALIDARG);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(stacksplice_remove_stack(memory + 1000 * i), S_OK);
    for (size_t i = 0; i < 500; i++) /* more than have room at first */
        assert_int_equal(stacksplice_add_stack(memory + 2 * i, memory + 2 * i + 1), S_OK);
    for (size_t i = 0; i < 500; i++)
        assert_int_equal(stacksplice_remove_stack(memory + 2 * i), S_OK);
}

static NOINLINE int descend(int depth, stack *s)
{
    int below;

    if (depth == 0) {
        s->hr = stacksplice_capture(65500, MAX, s->frames, &s->count, NULL);
        return 1;
    }
    below = descend(depth - 1, s);
    AFTER();
    return below + 1;
}

static void *descend_in_thread(void *data)
{
    (void)descend(70000, data);
    return NULL;
}

TEST(test_capture_of_an_endless_recursion_ends)
{
    static stack s;

    if (UNDER_TSAN)
        SKIP("ThreadSanitizer's own list of calls has 65536 entries");
    (void)thread_run_on(NULL, 64 << 20, descend_in_thread, &s);
    assert_int_equal(s.hr, S_OK);
    assert_true(s.count > 10 && s.count < 40);
    assert_true(s.frames[0] == s.frames[5]);
    assert_non_null(gap(s.frames[s.count - 1]));
    assert_string_equal(gap(s.frames[s.count - 1]), "stack has more than 65536 native frames");
}
