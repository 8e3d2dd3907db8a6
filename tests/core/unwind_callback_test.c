/*
 * Walks from callbacks out through the C library.  glibc describes its code, and each frame is known.  musl
 * describes none: what called its function is inferred, or a gap is the end, and no other frame is ever there.
 */
#include "frames.h"
#include "support.h"

#include <stacksplice/script.h>
#include <stacksplice/stacksplice.h>

#include <dlfcn.h>
#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX = 128 };

#ifdef __GLIBC__
enum { DESCRIBED = 1 };
#else
enum { DESCRIBED = 0 };
#endif

typedef struct stack {
    uintptr_t frames[MAX];
    uint32_t count;
} stack;

static stack captured;
static volatile int after; /* what a function does after a call keeps its frame */

static NOINLINE void capture(void)
{
    assert_int_equal(stacksplice_capture(0, MAX, captured.frames, &captured.count, NULL), S_OK);
    after++;
}

/* ---- Callbacks --------------------------------------------------------------------------------*/

static NOINLINE int compare(const void *a, const void *b)
{
    const int *left = a, *right = b;

    capture();
    return *left - *right;
}

static void on_signal(int number)
{
    (void)number;
    capture();
}

/* Called by the library that the test opens, when it is loaded. */
__attribute__((visibility("default"))) void callback_of_library(void);
void callback_of_library(void)
{
    capture();
}

static NOINLINE void by_qsort(void)
{
    int numbers[] = {3, 1, 2};

    qsort(numbers, COUNT_OF(numbers), sizeof *numbers, compare);
    after++;
}

static NOINLINE void by_bsearch(void)
{
    static const int numbers[] = {1, 2, 3}, wanted = 3;

    assert_non_null(bsearch(&wanted, numbers, COUNT_OF(numbers), sizeof *numbers, compare));
    after++;
}

static NOINLINE void by_lfind(void)
{
    static const int numbers[] = {1, 2, 3}, wanted = 3;
    size_t count = COUNT_OF(numbers);

    assert_non_null(lfind(&wanted, numbers, &count, sizeof *numbers, compare));
    after++;
}

static NOINLINE void by_once(void)
{
    pthread_once_t once = PTHREAD_ONCE_INIT;

    assert_int_equal(pthread_once(&once, capture), 0);
    after++;
}

static NOINLINE void by_dlopen(void)
{
    assert_non_null(dlopen(CALLING_LIBRARY, RTLD_NOW));
    after++;
}

static NOINLINE void by_raise(void)
{
    assert_int_equal(raise(SIGUSR1), 0);
    after++;
}

static NOINLINE void by_kill(void)
{
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    after++;
}

/* ---- What is shown ----------------------------------------------------------------------------*/

typedef struct gap {
    bool is;
    const char *reason;
} gap;

static int note_gap(const stacksplice_frame *frame, void *data)
{
    if (frame->kind == STACKSPLICE_FRAME_GAP)
        *(gap *)data = (gap){true, frame->reason};
    return 1;
}

static gap gap_at(uint32_t at)
{
    gap found = {false, ""};

    if (is_token(captured.frames[at]))
        (void)stacksplice_resolve(captured.frames[at], note_gap, &found);
    return found;
}

/* Whether ADDRESS is in FUNCTION, a small one of this program. */
static bool is_in(uintptr_t address, void (*function)(void))
{
    return address - (uintptr_t)function < 256;
}

typedef struct way {
    void (*call)(void);
    bool
        is_inferred; /* with musl: the function that the program called is exported, and no other of musl's
                         is between it and the callback.  Else a gap is the end. */
} way;

static const way ways[] = {
    {by_qsort, false},  {by_bsearch, true}, {by_lfind, true}, {by_once, false},
    {by_dlopen, false}, {by_raise, true},   {by_kill, true},
};

/* Of both from one place, so that the stack further out is the same. */
static NOINLINE void run(void (*function)(void))
{
    function();
    after++;
}

/* The stack of way number ROW; outside of what called the C library are the OUTER frames of WHOLE's end. */
static void check(uint32_t row, const stack *whole, uint32_t outer)
{
    uint32_t gaps = 0, last = captured.count - 1;
    bool ends = gap_at(last).is;

    for (uint32_t i = 0; i < captured.count; i++)
        gaps += gap_at(i).is;
    check_row(row, gaps, DESCRIBED ? 0 : 1);
    check_row(row, ends, !DESCRIBED && !ways[row].is_inferred);
    if (ends) {
        assert_string_equal(gap_at(last).reason, "callers unknown: this code has no unwind data");
        return;
    }
    check_row(row, captured.count > outer + 2, true);
    check_row(row, is_in(captured.frames[last - outer], ways[row].call), true);
    for (uint32_t i = 0; i < outer; i++)
        check_row(row, captured.frames[last - i], whole->frames[whole->count - 1 - i]);
}

TEST(test_unwind_from_callbacks_of_the_c_library)
{
    struct sigaction action = {.sa_handler = on_signal}, before;
    stack whole = {.count = 0};

    NEEDS_NATIVE_FRAMES();
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    for (volatile uint32_t i = 0; i <= COUNT_OF(ways); i++) { /* one call, not several */
        run(i ? ways[i - 1].call : capture);
        if (i)
            check(i - 1, &whole, whole.count - 1); /* all but that of capture */
        else
            whole = captured;
    }
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}
