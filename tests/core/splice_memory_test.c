/* Captures, tokens, names and stacks while memory runs out, and what threads leave behind. */
#include <stacksplice/source.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "forks.h"
#include "frames.h"
#include "support.h"
#include "threads.h"

static atomic_long live;

/* A fork while a thread is about to note that it has freed something. */
typedef enum meeting { APART, FREED, FORKED } meeting;
static _Atomic meeting met;
static _Thread_local bool meets; /* at the next block that it frees */
static void *gone;               /* that block, which is really freed in the end */
static size_t gone_bytes;
static bool in_child, misused;
static _Thread_local long left = -1; /* allocations until one fails; below 0: none fails */
static _Thread_local bool failed;
static _Thread_local bool maps_too; /* those of captures */

static bool fails(void)
{
    if (left < 0 || left-- > 0)
        return false;
    failed = true;
    left = 0; /* and all that follow */
    return true;
}

static void *alloc(size_t bytes, void *data)
{
    void *block;

    if (fails())
        return NULL;
    block = malloc(bytes);
    live += block != NULL;
    return block;
}

static void *reallocate(void *block, size_t bytes, void *data)
{
    void *grown;

    if (fails())
        return NULL;
    grown = realloc(block, bytes);
    live += grown && !block;
    return grown;
}

static void release(void *block, void *data)
{
    live -= block != NULL;
    free(block);
}

/* ---- Captures map their memory, by these functions -------------------------------------------*/

/* ThreadSanitizer has its own and cannot start with these. */
#if defined(__SANITIZE_THREAD__)
enum { WATCHES_MAPPINGS = 0 };
#else
enum { WATCHES_MAPPINGS = 1 };

#define IN_PLACE_OF_LIBC __attribute__((visibility("default")))

IN_PLACE_OF_LIBC void *mmap(void *place, size_t bytes, int protection, int flags, int file,
                            off_t offset)
{
    if (maps_too && fails())
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
    maps_too = true;
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
    long before;

    if (!WATCHES_MAPPINGS)
        skip();
    run_thread(&a); /* whatever is made once for the process is made now */
    assert_int_equal(a.hr, S_OK);
    whole = a.captured;
    assert_true(whole > 6000);
    before = live;
    for (a.allow = 0;; a.allow++) {
        a.captured = 77;
        run_thread(&a);
        assert_int_equal(live, before); /* captures use no other memory */
        if (!a.failed)
            break;
        assert_int_equal(a.hr, E_OUTOFMEMORY);
        assert_int_equal(a.captured, 0);
    }
    assert_true(a.allow > 5);
    assert_int_equal(a.hr, S_OK);
    assert_int_equal(a.captured, whole);
}

/* Sources may be asked in a signal handler, which may have interrupted the allocator. */
TEST(test_token_needs_no_allocator)
{
    stacksplice_token_info info = {SCRIPT_TOKEN, .language = "test", .function = "f"};

    left = 0;
    for (uint32_t i = 0; i < 30000; i++) { /* over the growth of all that is behind it */
        uintptr_t got, again;

        info.line = i;
        assert_int_equal(stacksplice_intern(&info, &got), S_OK);
        assert_int_equal(stacksplice_intern(&info, &again), S_OK);
        assert_true(again == got);
    }
    left = -1;
}

/* Nor does a capture in a handler that meets a function of a script for the first time. */
TEST(test_names_need_no_allocator)
{
    static char name[5000];

    memset(name, 'n', sizeof name - 1);
    left = 0;
    for (uintptr_t i = 1; i < 3000; i++)
        assert_int_equal(stacksplice_name_function(i, "test", "name"), S_OK);
    assert_int_equal(stacksplice_name_function(1, "test", "other"), S_FALSE);
    assert_int_equal(stacksplice_name_function(3000, "test", name), S_OK);
    left = -1;
}

TEST(test_names_survive_every_mapping_failure)
{
    unsigned failures = 0;

    if (!WATCHES_MAPPINGS)
        skip();
    maps_too = true;
    for (uintptr_t i = 3001; i < 9000; i++) {
        left = 0;
        if (stacksplice_name_function(i, "test", "name") == S_OK)
            continue;
        failures++;
        left = 1;
        assert_int_equal(stacksplice_name_function(i, "test", "name"), S_OK);
    }
    maps_too = false;
    left = -1;
    assert_true(failures > 1);
}

TEST(test_stacks_survive_every_allocation_failure)
{
    static char memory[2000];
    unsigned failures = 0;

    for (size_t i = 0; i < 1000; i++) {
        stacksplice_hresult hr = E_OUTOFMEMORY;

        for (long allow = 0; hr != S_OK; allow++) {
            left = allow;
            hr = stacksplice_add_stack(memory + 2 * i, memory + 2 * i + 1);
            left = -1;
            assert_true(hr == S_OK || hr == E_OUTOFMEMORY);
            failures += hr == E_OUTOFMEMORY;
        }
    }
    assert_true(failures > 5);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(stacksplice_remove_stack(memory + 2 * i), S_OK);
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
    static const stacksplice_allocator allocator = {sizeof allocator, alloc, reallocate, release,
                                                    NULL};
    static const stacksplice_source source = {SOURCE, .language = "test", .identity = &source,
                                              .collect = collect};
    stacksplice_token_info info = {SCRIPT_TOKEN, .language = "test", .function = "pushed"};

    if (stacksplice_set_allocator(&allocator) != S_OK || stacksplice_add_source(&source) != S_OK ||
        stacksplice_intern(&info, &token) != S_OK)
        return 1;
    return run_all_tests();
}
