/* Combined captures through the public functions: arguments, sources, threads, foreign stacks. */
#include "forks.h"
#include "instruments.h"
#include "machine.h"
#include "frames.h"
#include "support.h"
#include "threads.h"

#include <stacksplice/source.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#define MAX 256

/* ThreadSanitizer knows neither locks that a child makes anew nor stacks of 65536 frames. */

typedef struct stack {
    uintptr_t frames[MAX];
    uint32_t count;
    uint32_t hash;
    stacksplice_hresult hr;
} stack;

/* ---- What a stack should be -------------------------------------------------------------------*/

static _Unwind_Reason_Code keep(struct _Unwind_Context *context, void *data)
{
    stack *s = data;

    if (_Unwind_GetIP(context) && s->count < MAX)
        s->frames[s->count++] = _Unwind_GetIP(context);
    return _URC_NO_REASON;
}

/* The reason of a gap; NULL for anything else. */
static int keep_reason(const stacksplice_frame *frame, void *data)
{
    if (frame->kind == STACKSPLICE_FRAME_GAP)
        (void)snprintf(data, 200, "%s", frame->reason);
    return 1;
}

static const char *gap(uintptr_t element)
{
    static _Thread_local char reason[200];

    reason[0] = 0;
    (void)stacksplice_resolve(element, keep_reason, reason);
    return reason[0] ? reason : NULL;
}

/* ---- Capturing --------------------------------------------------------------------------------*/

static NOINLINE void capture_both(stack *ours, stack *theirs)
{
    theirs->count = 0;
    _Unwind_Backtrace(keep, theirs);
    ours->hr = stacksplice_capture(0, MAX, ours->frames, &ours->count, &ours->hash);
    AFTER();
}

static void check_same(const stack *ours, const stack *theirs)
{
    assert_int_equal(ours->hr, S_OK);
    assert_int_equal(ours->count, theirs->count);
    /* The first differs: two calls from one function. */
    assert_true(ours->frames[0] - theirs->frames[0] < 200);
    for (uint32_t i = 1; i < ours->count; i++)
        assert_true(ours->frames[i] == theirs->frames[i]);
}

TEST(test_capture_is_the_callers_stack)
{
    stack ours, theirs;

    capture_both(&ours, &theirs);
    assert_true(ours.count > 3);
    check_same(&ours, &theirs);
}

static NOINLINE void capture(stack *s, uint32_t skip, uint32_t max)
{
    s->hr = stacksplice_capture(skip, max, s->frames, &s->count, &s->hash);
    AFTER();
}

TEST(test_capture_skips_and_stops)
{
    stack all = {.count = 0}, some, same;

    for (volatile int i = 0; i < 2; i++) { /* from one place, so that both are one stack */
        same = all;
        capture(&all, 0, MAX);
    }
    assert_int_equal(all.count, same.count);
    assert_int_equal(all.hash, same.hash);
    assert_memory_equal(all.frames, same.frames, all.count * sizeof *all.frames);
    for (uint32_t skip = 0; skip < all.count + 2; skip++)
        for (uint32_t max = 0; max < all.count + 2; max++) {
            uint32_t left = all.count > skip ? all.count - skip : 0;

            capture(&some, skip, max);
            assert_int_equal(some.count, left < max ? left : max);
            assert_int_equal(some.hr, left > max ? S_FALSE : S_OK);
            for (uint32_t i = skip == 0; i < some.count; i++)
                if (i + skip != 1) /* this function's own call differs */
                    assert_true(some.frames[i] == all.frames[i + skip]);
            if (skip > 1 && some.count)
                assert_true(some.hash != all.hash);
        }
}

TEST(test_capture_refuses_bad_arguments)
{
    uintptr_t frame;
    uint32_t count = 77;

    assert_int_equal(stacksplice_capture(0, 1, &frame, NULL, NULL), E_POINTER);
    assert_int_equal(stacksplice_capture(0, 1, NULL, &count, NULL), E_POINTER);
    assert_int_equal(stacksplice_capture_above(&frame, 1, &frame, NULL, NULL), E_POINTER);
    assert_int_equal(stacksplice_capture_above(&frame, 1, NULL, &count, NULL), E_POINTER);
    assert_int_equal(count, 77);
    assert_int_equal(stacksplice_capture(0, 0, NULL, &count, NULL), S_FALSE);
    assert_int_equal(count, 0);
    assert_int_equal(stacksplice_capture(UINT32_MAX, 1, &frame, &count, NULL), S_OK);
    assert_int_equal(count, 0);
}

static NOINLINE void capture_above_me(stack *s)
{
    s->hr =
        stacksplice_capture_above(__builtin_frame_address(0), MAX, s->frames, &s->count, &s->hash);
    AFTER();
}

static NOINLINE void capture_above_me_deeper(stack *s, const void *frame_address)
{
    s->hr = stacksplice_capture_above(frame_address, MAX, s->frames, &s->count, &s->hash);
    AFTER();
}

static NOINLINE void capture_above_two(stack *s)
{
    capture_above_me_deeper(s, __builtin_frame_address(0));
    AFTER();
}

TEST(test_capture_above_hides_the_asking_functions)
{
    stack all, above, above_two, not_above;

    capture(&all, 0, MAX);
    capture_above_me(&above);
    capture_above_two(&above_two);
    assert_int_equal(above.hr, S_OK);
    assert_int_equal(above.count, all.count - 1);
    assert_int_equal(above_two.count, all.count - 1);
    for (uint32_t i = 1; i < above.count; i++) {
        assert_true(above.frames[i] == all.frames[i + 1]);
        assert_true(above_two.frames[i] == all.frames[i + 1]);
    }
    capture_above_me_deeper(&not_above, NULL); /* then only our own are hidden */
    assert_int_equal(not_above.count, all.count);
}

static NOINLINE uint32_t native_hash(void **frames, uint16_t *count, uint32_t skip, uint32_t max)
{
    ULONG hash = 1;

    *count = RtlCaptureStackBackTrace(skip, max, frames, &hash);
    AFTER();
    return hash;
}

TEST(test_native_capture_has_the_documented_hash)
{
    void *frames[MAX], *fewer[MAX];
    uint16_t count = 0, less;
    uint32_t sum = 0, hash = native_hash(frames, &count, 0, MAX);

    assert_true(count > 3);
    for (uint16_t i = 0; i < count; i++)
        sum += (uint32_t)(uintptr_t)frames[i];
    assert_int_equal(hash, sum);
    (void)native_hash(fewer, &less, 2, 2);
    assert_int_equal(less, 2);
    assert_memory_equal(fewer, frames + 2, 2 * sizeof *frames);
    (void)native_hash(frames, &count, 100000, 2);
    assert_int_equal(count, 0);
    assert_int_equal(RtlCaptureStackBackTrace(0, 0, frames, NULL), 0);
}

/* ---- Sources ----------------------------------------------------------------------------------*/

/* What the test's source does in the captures of this thread. */
static _Thread_local void (*collecting)(stacksplice_walk *walk);
static _Thread_local int collected;
static int collected_here;

static void collect(stacksplice_walk *walk, void *data)
{
    if (data == &collected_here && collecting)
        collecting(walk);
}

static const stacksplice_source good_source = {SOURCE, .language = "test", .identity = &good_source,
                                               .collect = collect, .data = &collected_here};

TEST(test_source_is_registered_once)
{
    stacksplice_source source = good_source;
    char language[] = "test";

    source.language = language; /* the content counts */
    assert_int_equal(stacksplice_add_source(&source), S_FALSE);
    assert_int_equal(stacksplice_add_source(NULL), E_POINTER);
    source.size--;
    assert_int_equal(stacksplice_add_source(&source), E_INVALIDARG);
    source = good_source;
    source.version++;
    assert_int_equal(stacksplice_add_source(&source), E_INVALIDARG);
    source = good_source;
    source.language = NULL;
    assert_int_equal(stacksplice_add_source(&source), E_POINTER);
    source = good_source;
    source.identity = NULL;
    assert_int_equal(stacksplice_add_source(&source), E_POINTER);
    source = good_source;
    source.collect = NULL;
    assert_int_equal(stacksplice_add_source(&source), E_POINTER);
}

TEST(test_sources_of_other_languages)
{
    char language[] = "test";

    assert_false(stacksplice_has_other_sources(language)); /* the content counts */
    assert_true(stacksplice_has_other_sources("another"));
    assert_true(stacksplice_has_other_sources(NULL));
}

static bool fill_sources(void)
{
    static char identities[40];
    stacksplice_source source = good_source;
    stack s;

    for (size_t i = 0; i < 31; i++) {
        source.identity = &identities[i];
        if (stacksplice_add_source(&source) != S_OK)
            return false;
    }
    source.identity = &identities[39];
    if (stacksplice_add_source(&source) != E_OUTOFMEMORY)
        return false;
    capture(&s, 0, MAX);
    return s.hr == S_OK && stacksplice_add_source(&good_source) == S_FALSE;
}

TEST(test_source_table_is_bounded)
{
    pid_t child;

    if (UNDER_TSAN)
        skip();
    child = fork();
    if (child == 0)
        _exit(!fill_sources());
    child_check(child);
}

static uintptr_t script_token(const char *function)
{
    stacksplice_token_info info = {SCRIPT_TOKEN, .language = "test", .function = function};
    uintptr_t token;

    return stacksplice_intern(&info, &token) == S_OK ? token : 0;
}

static void replace_second(stacksplice_walk *walk)
{
    collected = walk->size == sizeof *walk && walk->frame_count > 3 && !walk->truncated &&
                walk->stack_low == walk->frames[0].sp &&
                walk->stack_high >= walk->frames[walk->frame_count - 1].sp &&
                stacksplice_walk_splice(walk, 1, 1) &&
                stacksplice_walk_push(walk, script_token("a")) &&
                stacksplice_walk_push(walk, script_token("b"));
}

TEST(test_source_replaces_frames)
{
    stack plain, spliced;

    capture(&plain, 0, MAX);
    collecting = replace_second;
    collected = 0;
    capture(&spliced, 0, MAX);
    collecting = NULL;
    assert_true(collected);
    assert_int_equal(spliced.count, plain.count + 1);
    assert_true(spliced.frames[1] == script_token("a"));
    assert_true(spliced.frames[2] == script_token("b"));
    for (uint32_t i = 3; i < spliced.count; i++)
        assert_true(spliced.frames[i] == plain.frames[i - 1]);
}

static void use_badly(stacksplice_walk *walk)
{
    const uint32_t registers[2] = {MACHINE_FP, 1000};
    uintptr_t value, values[2];

    collected = !stacksplice_walk_push(walk, 1) /* no splice is open */
                && !stacksplice_walk_splice(walk, walk->frame_count + 1, 0) &&
                !stacksplice_walk_splice(walk, 1, walk->frame_count) &&
                !stacksplice_walk_splice(walk, 1, UINT32_MAX) &&
                !stacksplice_walk_splice(NULL, 0, 0) && !stacksplice_walk_push(NULL, 1) &&
                !stacksplice_walk_register(walk, walk->frame_count, MACHINE_FP, &value) &&
                !stacksplice_walk_register(walk, 0, 0, &value) /* a call changes it */
                && !stacksplice_walk_register(walk, 0, 1000, &value) &&
                !stacksplice_walk_register(walk, 0, MACHINE_FP, NULL) &&
                !stacksplice_walk_register(NULL, 0, MACHINE_FP, &value) &&
                stacksplice_walk_register(walk, 0, MACHINE_FP, &value) &&
                !stacksplice_walk_registers(walk, walk->frame_count, registers, 1, values) &&
                !stacksplice_walk_registers(walk, 0, registers, 2, values) /* one is unknown */
                && !stacksplice_walk_registers(walk, 0, NULL, 1, values) &&
                !stacksplice_walk_registers(walk, 0, registers, 1, NULL) &&
                !stacksplice_walk_registers(NULL, 0, registers, 1, values) &&
                stacksplice_walk_registers(walk, 0, registers, 1, values) && values[0] == value;
}

TEST(test_source_cannot_break_a_capture)
{
    stack plain, spliced;

    capture(&plain, 0, MAX);
    collecting = use_badly;
    collected = 0;
    capture(&spliced, 0, MAX);
    collecting = NULL;
    assert_true(collected);
    assert_int_equal(spliced.hr, S_OK);
    assert_int_equal(spliced.count, plain.count);
}

static void go_inward(stacksplice_walk *walk)
{
    collected = stacksplice_walk_splice(walk, 2, 1) &&
                stacksplice_walk_push(walk, script_token("a")) &&
                !stacksplice_walk_splice(walk, 1, 1) && !stacksplice_walk_splice(walk, 2, 1);
}

TEST(test_source_out_of_order_is_told)
{
    stack s;

    collecting = go_inward;
    collected = 0;
    capture(&s, 0, MAX);
    collecting = NULL;
    assert_true(collected);
    assert_true(s.frames[2] == script_token("a"));
    assert_string_equal(gap(s.frames[s.count - 1]),
                        "frames omitted: a frame source reported them out of order");
}

static stack inner_stack;

static void capture_again(stacksplice_walk *walk)
{
    (void)walk;
    capture(&inner_stack, 0, MAX);
}

TEST(test_capture_inside_a_capture_is_a_gap)
{
    stack plain, outer;

    capture(&plain, 0, MAX);
    collecting = capture_again;
    capture(&outer, 0, MAX);
    collecting = NULL;
    assert_int_equal(inner_stack.hr, S_FALSE);
    assert_int_equal(inner_stack.count, 1);
    assert_string_equal(gap(inner_stack.frames[0]), "signal handler interrupted another capture");
    assert_int_equal(outer.hr, S_OK); /* and the outer one knows nothing of it */
    assert_int_equal(outer.count, plain.count);
}

static void push_many(stacksplice_walk *walk)
{
    collected = 1;
    for (uint32_t i = 0; i < walk->frame_count; i++) {
        collected &= stacksplice_walk_splice(walk, i, 0);
        for (unsigned n = 0; n < 1000; n++)
            collected &= stacksplice_walk_push(walk, script_token("a"));
    }
}

TEST(test_source_may_push_any_number)
{
    static uintptr_t frames[100000];
    uint32_t plain, count;

    assert_int_equal(stacksplice_capture(0, COUNT_OF(frames), frames, &plain, NULL), S_OK);
    collecting = push_many;
    collected = 0;
    assert_int_equal(stacksplice_capture(0, COUNT_OF(frames), frames, &count, NULL), S_OK);
    collecting = NULL;
    assert_true(collected);
    assert_int_equal(count, plain * 1001);
}

/* ---- Threads, forks, foreign stacks -----------------------------------------------------------*/

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
        skip();
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
    (void)memory;
    (void)size;
    (void)run_in_context;
    print_message("skipped: this C library has no makecontext\n");
    skip();
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
 * before belongs to nothing.  libgcc calls that the end; we say what is known.
 */
static void check_other_stack(void)
{
    stack *ours = &other_stacks[0];
    const char *reason = gap(ours->frames[ours->count - 1]);

    if (reason) {
        assert_string_equal(reason, "callers unknown: this code has no unwind data");
        ours->count--;
    }
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
        print_message("skipped: memory lies where a kernel keeps room for this stack\n");
        free(memory);
        skip(); /* as an emulator lays it out */
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
        skip(); /* it takes the change of stacks for a large frame, whose contents are undefined */
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
        skip();
    (void)thread_run_on(NULL, 64 << 20, descend_in_thread, &s);
    assert_int_equal(s.hr, S_OK);
    assert_true(s.count > 10 && s.count < 40);
    assert_true(s.frames[0] == s.frames[5]);
    assert_non_null(gap(s.frames[s.count - 1]));
    assert_non_null(strstr(gap(s.frames[s.count - 1]), "stack has more than 65536 native frames"));
}

int main(void)
{
    if (stacksplice_add_source(&good_source) != S_OK)
        return 1;
    return run_all_tests();
}
