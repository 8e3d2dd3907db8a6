/* Captures, tokens and names while memory runs out, and what threads leave behind. */
#include <stacksplice/source.h>

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "failing_allocator.h"
#include "forks.h"
#include "frames.h"
#include "support.h"
#include "threads.h"

/* A fork while a thread is about to note that it has freed something. */
typedef enum meeting { APART, FREED, FORKED } meeting;
static _Atomic meeting met;
static _Thread_local bool meets; /* at the next block that it frees */
static void *gone;               /* that block, which is really freed in the end */
static size_t gone_bytes;
static bool in_child, misused;
static _Thread_local long left = -1; /* mappings until one fails; below 0: none fails */
static _Thread_local bool failed;

/* ---- Captures map their memory, by these functions -------------------------------------------*/

/* ThreadSanitizer has its own and cannot start with these. */
#if defined(__SANITIZE_THREAD__)
enum { WATCHES_MAPPINGS = 0 };
#else
enum { WATCHES_MAPPINGS = 1 };

#define IN_PLACE_OF_LIBC __attribute__((visibility("default")))

static bool fails(void)
{
    if (left < 0 || left-- > 0)
        return false;
    failed = true;
    left = 0; /* and all that follow */
    return true;
}

IN_PLACE_OF_LIBC void *mmap(void *place, size_t bytes, int protection, int flags, int file,
                            off_t offset)
{
    if (fails())
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, place, bytes, protection, flags, file, offset);
}

IN_PLACE_OF_LIBC int munmap(void *block, size_t bytes)
{
    if (in_child && block == gone) {
        misused = true;
        return 0;
    }
    if (!meets)
        return (int)syscall(SYS_munmap, block, bytes);
    meets = false;
    gone = block;
    gone_bytes = bytes;
    met = FREED;
    while (met == FREED)
        sched_yield();
    return 0;
}
#endif

/* ---- Tests -----------------------------------------------------------------------------------*/

static uintptr_t token;
static _Thread_local bool pushing;

static void collect(stacksplice_walk *walk, void *data)
{
    for (uint32_t i = 0; pushing && i < walk->frame_count; i++)
        if (!stacksplice_walk_splice(walk, i, 0) || !stacksplice_walk_push(walk, token))
            return; /* as every source does */
}

typedef struct attempt {
    long allow;
    stacksplice_hresult hr;
    uint32_t captured;
    bool failed;
} attempt;

static uintptr_t frames[8192];

static NOINLINE int descend(int depth, attempt *a)
{
    int below = 0;

    if (depth == 0)
        a->hr = stacksplice_capture(0, 8192, frames, &a->captured, NULL);
    else
        below = descend(depth - 1, a);
    AFTER();
    return below + 1;
}

/* Deep, and with many splices, so that everything grows; in a new thread, so that it does so anew.
 */
static void *capture_in_thread(void *data)
{
    attempt *a = data;

    pushing = true;
    left = a->allow;
    failed = false;
    (void)descend(3000, a);
    left = -1;
    a->failed = failed;
    return NULL;
}

static void run_thread(attempt *a)
{
    (void)thread_run(capture_in_thread, a);
}

TEST(test_capture_survives_every_allocation_failure)
{
    attempt a = {.allow = -1};
    uint32_t whole;

    if (!WATCHES_MAPPINGS)
        skip();
    run_thread(&a); /* whatever is made once for the process is made now */
    assert_int_equal(a.hr, S_OK);
    whole = a.captured;
    assert_true(whole > 6000);
    memory_arm(0);
    for (a.allow = 0;; a.allow++) {
        a.captured = 77;
        run_thread(&a);
        if (!a.failed)
            break;
        assert_int_equal(a.hr, E_OUTOFMEMORY);
        assert_int_equal(a.captured, 0);
    }
    assert_true(a.allow > 5);
    assert_int_equal(memory_attempted, 0); /* captures use no other memory */
    assert_int_equal(a.hr, S_OK);
    assert_int_equal(a.captured, whole);
}

/* Sources may be asked in a signal handler, which may have interrupted the allocator; and may meet a
   function of a script for the first time. */
TEST(test_tokens_and_names_need_no_allocator)
{
    stacksplice_token_info info = {SCRIPT_TOKEN, .language = "test", .function = "f"};
    static char name[5000];

    memory_arm(0);
    for (uint32_t i = 0; i < 30000; i++) { /* over the growth of all that is behind it */
        uintptr_t got, again;

        info.line = i;
        assert_int_equal(stacksplice_intern(&info, &got), S_OK);
        assert_int_equal(stacksplice_intern(&info, &again), S_OK);
        assert_true(again == got);
    }
    memset(name, 'n', sizeof name - 1);
    for (uintptr_t i = 1; i < 3000; i++)
        assert_int_equal(stacksplice_name_function(i, "test", "name"), S_OK);
    assert_int_equal(stacksplice_name_function(1, "test", "other"), S_FALSE);
    assert_int_equal(stacksplice_name_function(3000, "test", name), S_OK);
    assert_int_equal(memory_attempted, 0);
}

TEST(test_names_survive_every_mapping_failure)
{
    unsigned failures = 0;

    if (!WATCHES_MAPPINGS)
        skip();
    for (uintptr_t i = 3001; i < 9000; i++) {
        left = 0;
        if (stacksplice_name_function(i, "test", "name") == S_OK)
            continue;
        failures++;
        left = 1;
        assert_int_equal(stacksplice_name_function(i, "test", "name"), S_OK);
    }
    left = -1;
    assert_true(failures > 1);
}

static void *capture_and_meet(void *data)
{
    meets = true;
    return capture_in_thread(data);
}

TEST(test_child_uses_nothing_that_another_thread_has_freed)
{
    attempt a = {.allow = -1}, in_fork = {.allow = -1};
    pthread_t thread;
    pid_t child;

    if (!WATCHES_MAPPINGS)
        skip();
    thread = thread_start(capture_and_meet, &a);
    while (met != FREED)
        sched_yield();
    child = fork();
    if (child == 0) {
        in_child = true;
        (void)descend(3000, &in_fork);
        _exit(misused ? 1 : in_fork.hr == S_OK ? 0 : 2);
    }
    met = FORKED;
    (void)thread_end(thread);
    (void)munmap(gone, gone_bytes);
    child_check(child);
}

int main(void)
{
    static const stacksplice_source source = {SOURCE, .language = "test", .identity = &source,
                                              .collect = collect};
    stacksplice_token_info info = {SCRIPT_TOKEN, .language = "test", .function = "pushed"};

    if (memory_use() || stacksplice_add_source(&source) != S_OK ||
        stacksplice_intern(&info, &token) != S_OK)
        return 1;
    return run_all_tests();
}
