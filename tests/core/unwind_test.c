/* Native frames against libgcc's, on stacks of many shapes. */
#include "unwind_probe.h"
#include "unwind_workload.h"
#include "instruments.h"
#include "libraries.h"
#include "support.h"
#include "threads.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

static uint64_t frames_before;

static int begin_test(void **state)
{
    frames_before = probe_frames();
    return 0;
}

/* Fails when any comparison since the program began differed, or there was none in this test. */
static void check_probe(void)
{
    const char *first;

    if (probe_differences(&first))
        fail_msg("%u differences from libgcc, the first: %s", probe_differences(&first), first);
    assert_true(probe_frames() > frames_before);
}

static void leaf(void)
{
    (void)probe_compare();
}

TEST_WITH(test_unwind_equals_libgcc_without_frame_pointers, begin_test, NULL)
{
    assert_true(workload_run(leaf) > 10);
    check_probe();
}

TEST_WITH(test_unwind_equals_libgcc_with_frame_pointers, begin_test, NULL)
{
    assert_true(workload_run_frame_pointer(leaf) > 10);
    check_probe();
}

TEST_WITH(test_unwind_equals_libgcc_in_unoptimised_code, begin_test, NULL)
{
    assert_true(workload_run_unoptimised(leaf) > 10);
    check_probe();
}

TEST_WITH(test_unwind_equals_libgcc_in_a_loaded_library, begin_test, NULL)
{
    void *library = open_library(WORKLOAD_LIBRARY);
    int (*run)(void (*)(void));

    (void)find_in(library, "workload_run", &run);
    assert_true(run(leaf) > 10);
    check_probe();
    dlclose(library);
}

/* The name of a library with large frames and of one with small ones; where its code was. */
static void *take_turn(const char *name)
{
    void *library = open_library(name), *symbol;
    int (*turn)(void (*)(void));

    symbol = find_in(library, "turn", &turn);
    assert_int_equal(turn(leaf), 1);
    dlclose(library);
    return symbol;
}

TEST_WITH(test_unwind_forgets_what_was_unloaded, begin_test, NULL)
{
    unsigned same = 0;

    for (unsigned i = 0; i < 100; i++)
        same += take_turn(TURN_SMALL) == take_turn(TURN_LARGE);
    check_probe();
    if (!same)
        SKIP("the loader put the libraries apart each time: nothing was shown");
}

static void *take_turns(void *data)
{
    for (unsigned i = 0; i < 100; i++) {
        (void)take_turn(TURN_SMALL);
        (void)take_turn(TURN_LARGE);
    }
    return NULL;
}

TEST_WITH(test_unwind_is_right_while_others_unload, begin_test, NULL)
{
    pthread_t thread;

    thread = thread_start(take_turns, NULL);
    for (int i = 0; i < 20; i++)
        (void)workload_run(leaf);
    (void)thread_end(thread);
    check_probe();
}

static void *run_in_thread(void *data)
{
    for (int i = 0; i < 5; i++)
        (void)workload_run(leaf);
    return NULL;
}

TEST_WITH(test_unwind_equals_libgcc_in_threads, begin_test, NULL)
{
    pthread_t threads[4];

    for (size_t i = 0; i < 4; i++)
        threads[i] = thread_start(run_in_thread, NULL);
    for (size_t i = 0; i < 4; i++)
        (void)thread_end(threads[i]);
    check_probe();
}

/* ---- Signals ----------------------------------------------------------------------------------*/

static volatile sig_atomic_t handled;

static void handle(int number)
{
    (void)probe_compare();
    handled++;
}

static void use_handler(int number, int flags)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    action.sa_flags = flags;
    assert_int_equal(sigaction(number, &action, NULL), 0);
}

static void raise_from_leaf(void)
{
    raise(SIGUSR1);
}

static void check_signal_frames(uint64_t before)
{
    assert_true(handled > 0);
    assert_true(probe_signals() > before);
    check_probe();
}

TEST_WITH(test_unwind_equals_libgcc_behind_a_signal, begin_test, NULL)
{
    uint64_t before = probe_signals();

    handled = 0;
    use_handler(SIGUSR1, 0);
    (void)workload_run(raise_from_leaf);
    check_signal_frames(before);
}

static void on_alternate_stack(void *memory, size_t size)
{
    uint64_t before = probe_signals();
    stack_t alternate = {.ss_sp = memory, .ss_size = size}, old;

    handled = 0;
    assert_int_equal(sigaltstack(&alternate, &old), 0);
    use_handler(SIGUSR1, SA_ONSTACK);
    (void)workload_run(raise_from_leaf);
    assert_int_equal(sigaltstack(&old, NULL), 0);
    check_signal_frames(before);
}

TEST_WITH(test_unwind_equals_libgcc_from_an_alternate_stack, begin_test, NULL)
{
    size_t size = 1 << 18;
    void *memory = malloc(size);

    assert_non_null(memory);
    on_alternate_stack(memory, size);
    free(memory);
}

/* Then the interrupted frames lie below the handler's. */
TEST_WITH(test_unwind_equals_libgcc_from_an_alternate_stack_inside_the_stack, begin_test, NULL)
{
    char memory[1 << 17];

    on_alternate_stack(memory, sizeof memory);
}

static void *alternate_stack_in_thread(void *data)
{
    (void)probe_compare(); /* a thread's first capture allocates: not in a handler */
    on_alternate_stack(data, 1 << 18);
    return NULL;
}

TEST_WITH(test_unwind_equals_libgcc_from_an_alternate_stack_of_a_thread, begin_test, NULL)
{
    void *memory = malloc(1 << 18);

    assert_non_null(memory);
    (void)thread_run(alternate_stack_in_thread, memory);
    free(memory);
}

/* Enough to meet most instructions of the work below. */
#define INTERRUPTIONS 300

static void nothing(void)
{
}

/* Wherever the program is: in prologues and epilogues too, where nearly every register's place
   changes from instruction to instruction. */
TEST_WITH(test_unwind_equals_libgcc_at_any_instruction, begin_test, NULL)
{
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    uint64_t before = probe_signals();
    volatile uint64_t sum = 0;

#if UNDER_TSAN
    SKIP("ThreadSanitizer keeps signals back until a call of its own");
#endif
    handled = 0;
    use_handler(SIGPROF, SA_RESTART);
    (void)probe_compare(); /* all memory that this thread needs is there now */
    assert_int_equal(setitimer(ITIMER_PROF, &often, NULL), 0);
    while (handled < INTERRUPTIONS) {
        char text[64];

        (void)workload_run_plain(nothing);
        sum += (uint64_t)snprintf(text, sizeof text, "%d %s %f", handled, "text", 1.5);
        sum += (uint64_t)strtod(text, NULL);
    }
    assert_int_equal(setitimer(ITIMER_PROF, &never, NULL), 0);
    (void)sum;
    check_signal_frames(before);
}

int main(void)
{
    int failed;

    probe_begin();
    failed = run_all_tests();
    printf("%llu frames compared with libgcc\n", (unsigned long long)probe_frames());
    return failed;
}
