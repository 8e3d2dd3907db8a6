/*
 * Memory that runs out at any moment of learning Lua's layout, and threads that are not to be had:
 * a capture then says so, and a later one learns the whole layout.  Linked with --wrap=realloc,
 * which is how Lua's blocks are got.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "calibrate/calibrate.h"
#include "instruments.h"
#include "support.h"
#include "threads.h"

static long reallocs, fail_from = -1, fail_count;

void *__real_realloc(void *block, size_t size);
/* Visible: a linker that wraps believes that libraries refer to it, too. */
__attribute__((visibility("default"))) void *__wrap_realloc(void *block, size_t size);

void *__wrap_realloc(void *block, size_t size)
{
    long now = reallocs++;

    if (fail_from >= 0 && now >= fail_from && now < fail_from + fail_count)
        return NULL;
    return __real_realloc(block, size);
}

static bool equal_places(ss_lua_place a, ss_lua_place b)
{
    return a.kind == b.kind && a.at == b.at;
}

static bool equal_sites(const ss_lua_layout *a, const ss_lua_layout *b)
{
    if (a->site_count != b->site_count)
        return false;
    for (uint32_t i = 0; i < a->site_count; i++)
        if (a->sites[i].ip != b->sites[i].ip || a->sites[i].hook != b->sites[i].hook ||
            !equal_places(a->sites[i].state, b->sites[i].state) ||
            !equal_places(a->sites[i].ci, b->sites[i].ci))
            return false;
    return true;
}

static bool equal_layouts(const ss_lua_layout *a, const ss_lua_layout *b)
{
    return !a->failure && !b->failure && equal_sites(a, b) && a->knows_state && b->knows_state;
}

enum { LEARNT, NOTHING_FAILED, LEARNT_TOO_MUCH, NOT_LEARNT_AGAIN, DIFFERENT, UNLIMITED };

/* In a child; REFERENCE was learnt by another one. */
static int learn_starved(long from, long count, const ss_lua_layout *reference)
{
    const ss_lua_layout *layout;

    reallocs = 0;
    fail_from = from;
    fail_count = count;
    layout = ss_lua_layout_get();
    /* To make a block smaller may fail: it stays as it is. */
    if (!layout->failure)
        return equal_layouts(layout, reference) ? NOTHING_FAILED : LEARNT_TOO_MUCH;
    if (strcmp(layout->failure, "out of memory while locating Lua's call sites") != 0)
        return LEARNT_TOO_MUCH;
    fail_from = -1;
    layout = ss_lua_layout_get();
    if (layout->failure)
        return NOT_LEARNT_AGAIN;
    return equal_layouts(layout, reference) ? LEARNT : DIFFERENT;
}

/* What a child that learns without a failure finds; its memory is shared with this process. */
static long learn_in_child(ss_lua_layout *reference)
{
    struct {
        ss_lua_layout layout;
        long reallocs;
    } result;
    int pipes[2];
    pid_t child;

    assert_int_equal(pipe(pipes), 0);
    child = fork();
    if (child == 0) {
        memset(&result, 0, sizeof result);
        result.layout = *ss_lua_layout_get();
        result.reallocs = reallocs;
        _exit(write(pipes[1], &result, sizeof result) != sizeof result);
    }
    /* More than a pipe holds at once, so it is read while the child writes. */
    for (size_t got = 0; got < sizeof result;) {
        ssize_t bytes = read(pipes[0], (char *)&result + got, sizeof result - got);

        assert_true(bytes > 0);
        got += (size_t)bytes;
    }
    child_check(child);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    *reference = result.layout;
    return result.reallocs;
}

TEST(test_learning_is_whole_or_said_to_have_failed)
{
    static ss_lua_layout reference;
    long total = learn_in_child(&reference);
    int starved = 0;

    assert_null(reference.failure);
    assert_true(total > 100);
    for (long from = 0; from < total; from += from < 20 ? 1 : 1 + total / 31) {
        for (long count = 1; count <= 1000000; count += 999999) {
            pid_t child = fork();
            int status;

            if (child == 0)
                _exit(learn_starved(from, count, &reference));
            status = child_status(child);
            assert_true(WIFEXITED(status));
            if (WEXITSTATUS(status) == NOTHING_FAILED)
                continue;
            assert_int_equal(WEXITSTATUS(status), LEARNT);
            starved++;
        }
    }
    assert_true(starved > 50);
}

enum { LITTLE_STACK = 5120 };

/* Down to where little of the stack that begins at LOW is left. */
static bool learn_near(const char *low, const ss_lua_layout *reference)
{
    volatile char block[512];
    bool equal;

    block[0] = 0;
    if ((const char *)__builtin_frame_address(0) > low + LITTLE_STACK + sizeof block)
        equal = learn_near(low, reference);
    else
        equal = equal_layouts(ss_lua_layout_get(), reference);
    return equal && !block[0];
}

static void *learn_at_the_end(void *reference)
{
    pthread_attr_t attributes;
    void *low;
    size_t size;
    bool right = pthread_getattr_np(pthread_self(), &attributes) == 0 &&
                 pthread_attr_getstack(&attributes, &low, &size) == 0 && learn_near(low, reference);

    return (void *)(uintptr_t)right;
}

/* In a child, that its own thread is the first to learn. */
static int learn_at_the_end_of_a_stack(ss_lua_layout *reference)
{
    pthread_t thread;
    void *right = NULL;

    if (pthread_create(&thread, NULL, learn_at_the_end, reference) != 0 ||
        pthread_join(thread, &right) != 0)
        return DIFFERENT;
    return right ? LEARNT : DIFFERENT;
}

TEST(test_learning_needs_little_of_the_stack_that_captures)
{
    static ss_lua_layout reference;
    pid_t child;
    int status;

    if (SANITIZED)
        SKIP("the frames of sanitizers are larger");
    (void)learn_in_child(&reference);
    child = fork();
    if (child == 0)
        _exit(learn_at_the_end_of_a_stack(&reference));
    status = child_status(child);
    assert_int_equal(status, LEARNT);
}

/* In a child: memory for the stack of a thread is not to be had, then it is. */
static int learn_without_a_thread(const ss_lua_layout *reference)
{
    struct rlimit before, none;
    const ss_lua_layout *layout;

    if (getrlimit(RLIMIT_AS, &before) != 0)
        return DIFFERENT;
    none = before;
    none.rlim_cur = 1 << 20;
    if (setrlimit(RLIMIT_AS, &none) != 0)
        return DIFFERENT;
    if (mmap(NULL, none.rlim_cur, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        return UNLIMITED;
    layout = ss_lua_layout_get();
    if (!layout->failure ||
        strcmp(layout->failure, "could not start a thread to locate Lua's call sites") != 0)
        return LEARNT_TOO_MUCH;
    if (setrlimit(RLIMIT_AS, &before) != 0)
        return DIFFERENT;
    return equal_layouts(ss_lua_layout_get(), reference) ? LEARNT : NOT_LEARNT_AGAIN;
}

TEST(test_learning_without_a_thread_says_so)
{
    static ss_lua_layout reference;
    pid_t child;
    int status;

    if (SANITIZED)
        SKIP("sanitizers end a process that has no memory");
    (void)learn_in_child(&reference);
    child = fork();
    if (child == 0)
        _exit(learn_without_a_thread(&reference));
    status = child_status(child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == UNLIMITED)
        SKIP("qemu's user-mode emulation takes a limit of memory and does nothing");
    assert_int_equal(WEXITSTATUS(status), LEARNT);
}
