/*
 * Captures in a signal handler that interrupts a capture at every single instruction: while rules
 * are learned, while the table grows, and when all is known.
 */
#include "failing_allocator.h"
#include "frames.h"
#include "steps.h"
#include "support.h"

#include <stacksplice/source.h>

#include <signal.h>
#include <stdbool.h>

#define MAX 128

typedef struct stack {
    uintptr_t frames[MAX];
    uint32_t count;
    stacksplice_hresult hr;
} stack;

static NOINLINE void capture(stack *s)
{
    s->hr = stacksplice_capture(0, MAX, s->frames, &s->count, NULL);
    AFTER();
}

/* ---- The handler ------------------------------------------------------------------------------*/

static uintptr_t reentered; /* the gap of a capture inside a capture */
static uintptr_t outside;   /* the caller of run_steps: it and all beyond it are on every stack */
static stack whole;         /* with that frame */
static unsigned complete, refused, wrong;
static bool forgetful; /* so that the capture that goes on next has all to learn */

static uint32_t find(const stack *s, uintptr_t frame)
{
    uint32_t i = 0;

    while (i < s->count && s->frames[i] != frame)
        i++;
    return i;
}

/* Whether S ends as the stack of run_steps does. */
static bool ends_well(const stack *s)
{
    uint32_t ours = find(s, outside), first = find(&whole, outside);

    return ours < s->count && s->count - ours == whole.count - first &&
           memcmp(&s->frames[ours], &whole.frames[first], (s->count - ours) * sizeof outside) == 0;
}

static void handle(int number)
{
    static stack s;

    capture(&s);
    if (s.hr == S_FALSE && s.count == 1 && s.frames[0] == reentered)
        refused++;
    else if (s.hr == S_OK && ends_well(&s))
        complete++;
    else
        wrong++;
    if (forgetful)
        stacksplice_reclassify();
}

/* ---- The work ---------------------------------------------------------------------------------*/

static stack stepped;

static NOINLINE void capture_by_steps(void)
{
    begin_steps();
    capture(&stepped);
    end_steps();
    AFTER();
}

static NOINLINE void deeper(int depth)
{
    if (depth)
        deeper(depth - 1);
    else
        capture_by_steps();
    AFTER();
}

static NOINLINE void run_steps(int depth)
{
    capture(&whole);
    outside = whole.frames[2]; /* 0 is in capture, 1 is here */
    complete = refused = wrong = 0;
    deeper(depth);
    AFTER();
}

static void capture_again(stacksplice_walk *walk, void *data)
{
    stack *inner = data;

    if (!inner->count)
        capture(inner);
}

static int begin(void **state)
{
    static stack inner;
    static const stacksplice_source source = {SOURCE, .language = "test", .identity = &source,
                                              .collect = capture_again, .data = &inner};
    struct sigaction action;
    stack s;

    if (memory_use() || stacksplice_add_source(&source) != S_OK)
        return 1;
    capture(&s); /* the thread's first; and the gap becomes known */
    reentered = inner.frames[0];
    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    return inner.count == 1 ? sigaction(SIGTRAP, &action, NULL) : 1;
}

static void check_steps(unsigned least)
{
    assert_int_equal(wrong, 0);
    assert_true(refused >= least);
    assert_true(complete > 10);
    assert_int_equal(stepped.hr, S_OK);
    assert_true(ends_well(&stepped));
}

TEST(test_signals_while_a_capture_learns)
{
    long before = atomic_load(&memory_attempted);

    if (NO_STEPS)
        SKIP(WHY_NO_STEPS);
    forgetful = true;
    run_steps(3);
    forgetful = false;
    check_steps(3000);
    assert_int_equal(atomic_load(&memory_attempted), before);
}

TEST(test_signals_while_the_table_grows)
{
    long before = atomic_load(&memory_attempted);

    if (NO_STEPS)
        SKIP(WHY_NO_STEPS);
    for (int depth = 4; depth < 10; depth++) {
        run_steps(depth);
        check_steps(500);
    }
    assert_int_equal(atomic_load(&memory_attempted), before);
}

TEST(test_signals_in_a_known_stack)
{
    long before = atomic_load(&memory_attempted);

    if (NO_STEPS)
        SKIP(WHY_NO_STEPS);
    for (int i = 0; i < 3; i++) {
        run_steps(5);
        check_steps(300);
    }
    assert_int_equal(atomic_load(&memory_attempted), before);
    printf("%u complete, %u inside a capture\n", complete, refused);
}

GROUP(begin, NULL)
