/* Combined captures on stacks of other kinds. */
#include "instruments.h"
#include "splice_fixture.h"

#include <stacksplice/source.h>

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

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

/* ---- Handlers that each run on a stack of their own -----------------------------------------------*/

#ifndef SS_AUTODISARM /* glibc's header lacks it */
#define SS_AUTODISARM (1U << 31)
#endif
enum { MOST_STACKS = 8, STACK_SIZE = 1 << 17, GUARD = 1 << 16 };

static unsigned wanted, depth;
static char *stacks; /* each behind a part that cannot be read */
static stack innermost;
static uintptr_t caller_of_all;

static char *stack_at(unsigned number)
{
    return stacks + number * (size_t)(GUARD + STACK_SIZE) + GUARD;
}

/* A handler may choose another alternate stack for those that interrupt it.  The system does not tell
   where such a stack lies while a handler runs on it. */
static NOINLINE void go_deeper(void)
{
    stack_t next = {.ss_size = STACK_SIZE, .ss_flags = (int)SS_AUTODISARM};

    if (depth == wanted) {
        innermost.hr = stacksplice_capture(0, MAX, innermost.frames, &innermost.count, NULL);
        return;
    }
    next.ss_sp = stack_at(depth++);
    assert_int_equal(sigaltstack(&next, NULL), 0);
    (void)raise(SIGUSR1);
}

static void nest(int number)
{
    go_deeper();
}

static NOINLINE void capture_on_stacks(unsigned count)
{
    struct sigaction action = {.sa_handler = nest, .sa_flags = SA_ONSTACK | SA_NODEFER}, old;
    stack_t none = {.ss_flags = SS_DISABLE};
    size_t size = MOST_STACKS * (size_t)(GUARD + STACK_SIZE);

    caller_of_all = (uintptr_t)__builtin_return_address(0);
    depth = 0;
    wanted = count - 1; /* one is the thread's own */
    stacks = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(stacks != MAP_FAILED);
    for (unsigned i = 0; i < wanted; i++) { /* not in a handler: it allocates */
        assert_int_equal(mprotect(stack_at(i), STACK_SIZE, PROT_READ | PROT_WRITE), 0);
        assert_int_equal(stacksplice_add_stack(stack_at(i), stack_at(i) + STACK_SIZE), S_OK);
    }
    assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
    go_deeper();
    for (unsigned i = 0; i < wanted; i++)
        assert_int_equal(stacksplice_remove_stack(stack_at(i)), S_OK);
    assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
    assert_int_equal(sigaltstack(&none, NULL), 0);
    assert_int_equal(munmap(stacks, size), 0);
    AFTER();
}

static bool has_frame(const stack *s, uintptr_t frame)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->frames[i] == frame)
            return true;
    return false;
}

TEST(test_more_stacks_of_handlers_than_are_followed_end_in_a_gap)
{
    if (UNDER_VALGRIND || SANITIZED)
        SKIP("valgrind knows one alternate stack, sanitizers have their own, or call handlers "
             "themselves");
    capture_on_stacks(MOST_STACKS);
    assert_true(has_frame(&innermost, caller_of_all));
    assert_null(gap(innermost.frames[innermost.count - 1]));
    capture_on_stacks(MOST_STACKS + 1);
    assert_false(has_frame(&innermost, caller_of_all));
    assert_string_equal(gap(innermost.frames[innermost.count - 1]),
                        "next frame would lie outside this stack");
}
