/*
 * The native frames between two places of one stack, asked by the smallest loop of an interpreter:
 * its own functions call it again, one inside of the other.
 */
#include "frames.h"
#include "support.h"
#include "threads.h"

#include <stacksplice/source.h>

#include <alloca.h>
#include <signal.h>
#include <sys/mman.h>

enum { MOST = 16, PATHS = 24 };

/* Which functions lie between the two loops, and how large their frames are. */
typedef struct path {
    unsigned length, size;
} path;

/* The frames that the functions themselves tell, and those that were asked for. */
typedef struct seen {
    uintptr_t told[MOST], between[MOST];
    uint32_t told_count, count, max;
    HRESULT hr;
    void (*within)(struct seen *s, const void *inner, const void *outer); /* instead of asking */
} seen;

static NOINLINE void ask(seen *s, const void *inner, const void *outer)
{
    s->hr = stacksplice_native_between(inner, outer, s->max, s->between, &s->count);
    AFTER();
}

static void run_loop(const path *p, const void *outer, seen *s);

/* One function between: calls the next one, or the inner loop. */
static NOINLINE void step(const path *p, unsigned left, const void *outer, seen *s)
{
    volatile char *room = alloca(p->size * 16 + 1);

    room[0] = 1;
    if (left > 1)
        step(p, left - 1, outer, s);
    else
        run_loop(p, outer, s);
    s->told[s->told_count++] = (uintptr_t)__builtin_return_address(0);
    AFTER();
}

static NOINLINE void run_loop(const path *p, const void *outer, seen *s)
{
    volatile char marker = 1;

    if (outer && s->within)
        s->within(s, (const void *)&marker, outer);
    else if (outer)
        ask(s, (const void *)&marker, outer);
    else
        step(p, p->length, (const void *)&marker, s);
    if (outer)
        s->told[s->told_count++] = (uintptr_t)__builtin_return_address(0);
    AFTER();
}

static void check_path(path p, uint32_t max)
{
    seen s = {.max = max};

    run_loop(&p, NULL, &s);
    /* The outermost of what was told is in the outer loop. */
    assert_int_equal(s.told_count, p.length + 1);
    if (max < p.length) {
        assert_int_equal(s.hr, S_FALSE);
        return;
    }
    assert_int_equal(s.hr, S_OK);
    assert_int_equal(s.count, p.length);
    assert_memory_equal(s.between, s.told, p.length * sizeof *s.told);
}

/* More paths in turn than are kept, with frames of equal and of different sizes, and each again. */
static void *check_paths(void *data)
{
    for (unsigned turn = 0; turn < 4; turn++)
        for (unsigned i = 0; i < PATHS; i++) {
            check_path((path){1 + i % 5, i / 5}, MOST);
            check_path((path){1 + i % 5, 7 - i % 2}, MOST);
        }
    return data;
}

TEST(test_between_are_the_frames_that_the_functions_tell)
{
    NEEDS_NATIVE_FRAMES();
    (void)check_paths(NULL);
    (void)thread_run(check_paths, NULL);
}

TEST(test_all_of_them_or_not_known)
{
    NEEDS_NATIVE_FRAMES();
    for (uint32_t max = 0; max < 8; max++)
        check_path((path){4, 0}, max);
}

/* ---- Where nothing is known -------------------------------------------------------------------*/

static seen *asked;
static const void *asked_inner, *asked_outer;

static void handle(int number)
{
    ask(asked, asked_inner, asked_outer);
}

/*
 * A handler asks on a stack of its own.  Mapped: an emulator puts a program and its static memory
 * where the kernel leaves room for the main thread's stack.
 */
static void from_handler(seen *s, const void *inner, const void *outer)
{
    enum { SIZE = 64 << 10 };
    void *room = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t own = {.ss_sp = room, .ss_size = SIZE}, old;
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK}, before;

    assert_ptr_not_equal(room, MAP_FAILED);
    asked = s;
    asked_inner = inner;
    asked_outer = outer;
    assert_int_equal(sigaltstack(&own, &old), 0);
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    assert_int_equal(sigaltstack(&old, NULL), 0);
    assert_int_equal(munmap(room, SIZE), 0);
}

TEST(test_across_stacks_nothing_is_known)
{
    seen s = {.max = MOST, .within = from_handler};
    path p = {3, 0};

    NEEDS_NATIVE_FRAMES();
    run_loop(&p, NULL, &s);
    assert_int_equal(s.hr, S_FALSE);
    assert_int_equal(s.count, 0);
}

static void reversed(seen *s, const void *inner, const void *outer)
{
    ask(s, outer, inner);
}

TEST(test_places_in_wrong_order)
{
    seen s = {.max = MOST, .within = reversed};
    path p = {3, 0};

    run_loop(&p, NULL, &s);
    assert_int_equal(s.hr, S_FALSE);
    assert_int_equal(s.count, 0);
}

TEST(test_bad_arguments)
{
    uintptr_t frame = 7;
    uint32_t count = 7;

    assert_int_equal(stacksplice_native_between(&frame, &count, 1, &frame, NULL), E_POINTER);
    assert_int_equal(stacksplice_native_between(&frame, &count, 1, NULL, &count), E_POINTER);
    assert_int_equal(count, 7);
    assert_int_equal(frame, 7);
}
