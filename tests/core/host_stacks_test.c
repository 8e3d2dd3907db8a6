/* Where stacks lie: those that the host adds, and a thread's own. */
#include "unwind/stack.h"
#include "instruments.h"
#include "random.h"
#include "support.h"
#include "threads.h"

#include <stacksplice/stacksplice.h>

#define STACKS (UNDER_TSAN ? 1000 : 10000) /* each change looks at all */
#define STACK_BYTES 64

static uint8_t memory[STACKS * 2][STACK_BYTES];

static bool finds(unsigned i, bool added)
{
    ss_stack_cache cache = {.low = 0};
    ss_range stack;

    /* Twice: the second answer may come from the cache. */
    for (int round = 0; round < 2; round++) {
        uintptr_t sp = (uintptr_t)memory[i] + next_random(STACK_BYTES);

        if (ss_stack_find_cached(&cache, sp, &stack) != added ||
            (added && (stack.low != (uintptr_t)memory[i] ||
                       stack.high != (uintptr_t)memory[i] + STACK_BYTES)))
            return false;
    }
    return true;
}

static void change_half(bool add)
{
    for (unsigned i = 0; i < STACKS; i++) {
        unsigned at = (i * 7919 % STACKS) * 2; /* each once, in no order */

        if (add)
            assert_int_equal(stacksplice_add_stack(memory[at], memory[at] + STACK_BYTES), 0);
        else
            assert_int_equal(stacksplice_remove_stack(memory[at]), 0);
    }
}

/* Whether MEMORY lies where this thread's own stack may grow: what lies there is found as that. */
static bool is_below_own_stack(void)
{
    return (uintptr_t)__builtin_frame_address(0) - (uintptr_t)memory < (uintptr_t)128 << 20;
}

TEST(test_many_stacks_are_found)
{
    ss_range stack;

    if (is_below_own_stack())
        SKIP("an emulator put memory where a kernel keeps room for this stack");
    change_half(true);
    assert_int_equal(stacksplice_add_stack(memory[1], memory[2] + 1), E_INVALIDARG);
    for (unsigned i = 0; i < STACKS * 2; i++)
        assert_true(finds(i, i % 2 == 0));
    assert_true(ss_stack_find((uintptr_t)&stack, &stack));
    change_half(false);
    assert_int_equal(stacksplice_remove_stack(memory[0]), E_INVALIDARG);
    for (unsigned i = 0; i < STACKS * 2; i += 97)
        assert_true(finds(i, false));
}

static atomic_bool is_found;

static void *change_others(void *refused)
{
    for (unsigned i = 0; i < 100 || (i < 100000 && !atomic_load(&is_found)); i++) {
        unsigned at = 2 * (i % 3); /* before the one that stays, or behind it */

        if (at == 2)
            continue;
        *(bool *)refused |= stacksplice_add_stack(memory[at], memory[at] + STACK_BYTES) ||
                            stacksplice_remove_stack(memory[at]);
    }
    return NULL;
}

TEST(test_a_stack_is_found_while_others_come_and_go)
{
    bool all = true, refused = false, apart = !is_below_own_stack();
    pthread_t thread;

    assert_int_equal(stacksplice_add_stack(memory[2], memory[2] + STACK_BYTES), 0);
    thread = thread_start(change_others, &refused);
    for (unsigned i = 0; i < 20000; i++)
        all = all && finds(2, true) && (!apart || finds(1, false));
    atomic_store(&is_found, true);
    (void)thread_end(thread);
    assert_true(all && !refused);
    assert_int_equal(stacksplice_remove_stack(memory[2]), 0);
}

/* What this thread's stack is, by us and by the C library. */
typedef struct both {
    ss_range ours, theirs;
    bool found;
} both;

static void *find_both(void *data)
{
    both *b = data;
    pthread_attr_t attributes;
    void *low = NULL;
    size_t size = 0;

    b->found = ss_own_stack_find((uintptr_t)&attributes, &b->ours);
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        (void)pthread_attr_getstack(&attributes, &low, &size);
        pthread_attr_destroy(&attributes);
    }
    b->theirs = (ss_range){(uintptr_t)low, (uintptr_t)low + size};
    return NULL;
}

static both find_in_thread(void *stack, size_t size)
{
    both b = {.found = false};

    if (stack)
        (void)thread_run_on(stack, size, find_both, &b);
    else
        (void)thread_run(find_both, &b);
    assert_true(b.found);
    return b;
}

/* As the C library tells it, which allocates; and without its record not more than that. */
TEST(test_a_thread_knows_its_own_stack)
{
    /* ThreadSanitizer keeps a megabyte of its own on the stack of each thread. */
    static _Alignas(4096) char stack[UNDER_TSAN ? 4 << 20 : 1 << 17];

    for (int given = 0; given < 2; given++) {
        both b = find_in_thread(given ? stack : NULL, sizeof stack);

        assert_true(b.ours.low == b.theirs.low && b.ours.high == b.theirs.high);
    }
#ifdef __GLIBC__
    assert_true(ss_own_stack_described(false));
    (void)ss_own_stack_described(true);
    for (int given = 0; given < 2; given++) {
        both b = find_in_thread(given ? stack : NULL, sizeof stack);

        assert_true(b.ours.high <= b.theirs.high && (given || b.ours.low == b.theirs.low));
    }
#endif
}
