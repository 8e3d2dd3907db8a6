/*
 * Memory that runs out at any moment of learning Lua's layout, and threads that are not to be had:
 * a capture then says so, and a later one learns the whole layout.  Linked with --wrap=realloc,
 * which is how Lua's blocks are got.
 */
#include <stdlib.h>
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
    return !a->failure && !b->failure && equal_sites(a, b) && a->knows_state == !SS_LUA_JIT &&
           b->knows_state == !SS_LUA_JIT;
}

/* ---- Children that learn -------------------------------------------------------------------*/

/* What a child learns without a failure; children write it here. */
static struct {
    ss_lua_layout layout;
    long reallocs;
} * reference;

/* None is the status with which Lua ends a process that has no protected call. */
enum {
    LEARNT = EXIT_FAILURE + 1,
    NOTHING_FAILED,
    LEARNT_TOO_MUCH,
    NOT_LEARNT_AGAIN,
    DIFFERENT,
    UNLIMITED
};

/* What LEARN returns in a child, with reallocations from FROM on failing, COUNT of them. */
static int in_child(int (*learn)(void), long from, long count)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        reallocs = 0;
        fail_from = from;
        fail_count = count;
        _exit(learn());
    }
    status = child_status(child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int learn_reference(void)
{
    reference->layout = *ss_lua_layout_get();
    reference->reallocs = reallocs;
    return LEARNT;
}

static int make_reference(void **state)
{
    reference =
        mmap(NULL, sizeof *reference, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(reference != MAP_FAILED);
    assert_int_equal(in_child(learn_reference, -1, 0), LEARNT);
    assert_null(reference->layout.failure);
    return 0;
}

GROUP(make_reference, NULL)

static bool is_learnt(void)
{
    return equal_layouts(ss_lua_layout_get(), &reference->layout);
}

/* Whether there is a layout now, after there was none because of FAILURE. */
static int learn_after(const char *failure)
{
    const char *said = ss_lua_layout_get()->failure;

    /* To make a block smaller may fail: it stays as it is. */
    if (!said)
        return is_learnt() ? NOTHING_FAILED : LEARNT_TOO_MUCH;
    if (strcmp(said, failure) != 0)
        return LEARNT_TOO_MUCH;
    fail_from = -1;
    if (ss_lua_layout_get()->failure)
        return NOT_LEARNT_AGAIN;
    return is_learnt() ? LEARNT : DIFFERENT;
}

/* ---- What is short ---------------------------------------------------------------------------*/

static int learn_starved(void)
{
    return learn_after("out of memory while locating Lua's call sites");
}

TEST(test_learning_is_whole_or_said_to_have_failed)
{
    enum { EVERY = 40 }; /* more than a new state takes */
    long total = reference->reallocs;
    int starved = 0;

    if (SS_LUA_JIT)
        SKIP("LuaJIT's states take memory from the system");
    assert_true(total > 100);
    for (long from = 0; from < total; from += from < EVERY ? 1 : 1 + total / 31)
        for (long count = 1; count <= 1000000; count += 999999) {
            int learnt = in_child(learn_starved, from, count);

            if (learnt == NOTHING_FAILED)
                continue;
            assert_int_equal(learnt, LEARNT);
            starved++;
        }
    assert_true(starved > 50);
}

enum { LITTLE_STACK = 5120 };

/* Down to where little of the stack that begins at LOW is left. */
static bool learn_near(const char *low)
{
    volatile char block[512];
    bool equal;

    block[0] = 0;
    if ((const char *)__builtin_frame_address(0) > low + LITTLE_STACK + sizeof block)
        equal = learn_near(low);
    else
        equal = is_learnt();
    return equal && !block[0];
}

static void *learn_at_the_end(void *unused)
{
    pthread_attr_t attributes;
    void *low;
    size_t size;
    bool right = pthread_getattr_np(pthread_self(), &attributes) == 0 &&
                 pthread_attr_getstack(&attributes, &low, &size) == 0 && learn_near(low);

    return (void *)(uintptr_t)right;
}

/* A thread is the first to learn. */
static int learn_at_the_end_of_a_stack(void)
{
    return thread_run(learn_at_the_end, NULL) ? LEARNT : DIFFERENT;
}

TEST(test_learning_needs_little_of_the_stack_that_captures)
{
    if (SANITIZED)
        SKIP("the frames of sanitizers are larger");
    assert_int_equal(in_child(learn_at_the_end_of_a_stack, -1, 0), LEARNT);
}

/* Memory for the stack of a thread is not to be had, then it is. */
static int learn_without_a_thread(void)
{
    const char failure[] = "could not start a thread to locate Lua's call sites";
    struct rlimit before, none;
    const char *said;

    if (getrlimit(RLIMIT_AS, &before) != 0)
        return DIFFERENT;
    none = before;
    none.rlim_cur = 1 << 20;
    if (setrlimit(RLIMIT_AS, &none) != 0)
        return DIFFERENT;
    if (mmap(NULL, none.rlim_cur, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        return UNLIMITED;
    said = ss_lua_layout_get()->failure;
    if (!said || strcmp(said, failure) != 0 || setrlimit(RLIMIT_AS, &before) != 0)
        return LEARNT_TOO_MUCH;
    return is_learnt() ? LEARNT : NOT_LEARNT_AGAIN;
}

TEST(test_learning_without_a_thread_says_so)
{
    int learnt;

    if (SANITIZED)
        SKIP("sanitizers end a process that has no memory");
    learnt = in_child(learn_without_a_thread, -1, 0);
    if (learnt == UNLIMITED)
        SKIP("qemu's user-mode emulation takes a limit of memory and does nothing");
    assert_int_equal(learnt, LEARNT);
}
