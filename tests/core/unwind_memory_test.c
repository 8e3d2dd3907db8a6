/* Walks without memory, and without room: they say what is missing, and the next one has it. */
#include "unwind/table.h"
#include "unwind/walk.h"
#include "frames.h"
#include "instruments.h"
#include "support.h"
#include "threads.h"

#include <sys/mman.h>
#include <sys/resource.h>

static ss_unwind walk;

/* A recursion whose calls all look alike. */
static SS_NOINLINE unsigned deep(unsigned depth, void (*function)(void))
{
    volatile unsigned result;

    if (depth)
        result = deep(depth - 1, function);
    else
        function();
    result = depth;
    return result + 1;
}

TEST(test_first_walk_without_memory_fails)
{
    pid_t child;

    if (SANITIZED)
        SKIP("sanitizers have mapped the whole address space");
    child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0}, was;
        ss_unwind fresh = {.table = NULL};
        bool failed;

        if (getrlimit(RLIMIT_AS, &was) != 0)
            _exit(2);
        none.rlim_max = was.rlim_max;
        (void)setrlimit(RLIMIT_AS, &none);
        if (mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
            _exit(CHILD_SKIPS); /* an emulator that knows of limits and does not keep them */
        failed = !ss_unwind_walk(&fresh, SS_HERE(), 100) && !fresh.table;
        (void)setrlimit(RLIMIT_AS, &was);
        _exit(failed && ss_unwind_walk(&fresh, SS_HERE(), 100) && fresh.count > 1 ? 0 : 1);
    }
    child_check_unless(child, NO_LIMITS);
}

static struct rlimit as_limit;
static uint32_t walked_without;
static bool more_without;

static SS_NOINLINE void walk_without_memory(void)
{
    struct rlimit none = {0, as_limit.rlim_max};

    (void)setrlimit(RLIMIT_AS, &none);
    if (mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        _exit(CHILD_SKIPS); /* an emulator that knows of limits and does not keep them */
    if (!ss_unwind_walk(&walk, SS_HERE(), SS_UNWIND_MAX_FRAMES))
        _exit(3);
    walked_without = walk.count;
    more_without = walk.has_more;
    (void)setrlimit(RLIMIT_AS, &as_limit);
    if (!ss_unwind_walk(&walk, SS_HERE(), SS_UNWIND_MAX_FRAMES))
        _exit(4);
}

static void do_nothing(void)
{
}

/* A deep stack's inner part is found, and that there is more. */
TEST(test_deep_walk_without_memory_says_so)
{
    pid_t child;

    if (SANITIZED)
        SKIP("sanitizers have mapped the whole address space");
    (void)deep(31000, do_nothing); /* the stack grows now: without memory it cannot */
    ss_unwind_trim(&walk, true);
    assert_true(ss_unwind_walk(&walk, SS_HERE(), SS_UNWIND_MAX_FRAMES));
    child = fork();
    if (child == 0) {
        uint32_t room = walk.table->room.frames;

        if (getrlimit(RLIMIT_AS, &as_limit) != 0)
            _exit(2);
        (void)deep(30000, walk_without_memory);
        _exit(walked_without == room && more_without && walk.count > 30000 && !walk.has_more ? 0
                                                                                             : 1);
    }
    child_check_unless(child, NO_LIMITS);
}

TEST(test_full_table_without_memory_begins_anew)
{
    const ss_rule rule = ss_rule_frame_pointer();
    const char *ends_by;
    pid_t child;

    if (SANITIZED)
        SKIP("sanitizers have mapped the whole address space");
    ss_unwind_trim(&walk, true);
    assert_true(ss_unwind_walk(&walk, SS_HERE(), SS_UNWIND_MAX_FRAMES));
    ends_by = walk.end_reason; /* musl has no unwind data for its callers of main */
    child = fork();
    if (child == 0) {
        ss_table_forget(walk.table);
        for (uintptr_t ip = 1; ss_table_add(walk.table, ip, &rule, 0);)
            ip++;
        if (getrlimit(RLIMIT_AS, &as_limit) != 0)
            _exit(2);
        walk_without_memory();
        _exit(walked_without == walk.count && more_without == walk.has_more &&
                      walk.end_reason == ends_by && walk.table->size == SS_TABLE_SMALL &&
                      ss_table_count(walk.table) < 1000
                  ? 0
                  : 1);
    }
    child_check_unless(child, NO_LIMITS);
}

/* All that a thread maps is locked then, at once. */
TEST(test_walk_in_locked_memory_takes_little)
{
    pid_t child = fork();

    if (child == 0) {
        struct rlimit limit = {0, 0};
        ss_unwind fresh = {.table = NULL};

        if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || mlockall(MCL_FUTURE) != 0)
            _exit(CHILD_SKIPS);
        limit.rlim_cur = (rlim_t)512 << 10; /* which only an unprivileged process is held to */
        if (limit.rlim_cur > limit.rlim_max || setrlimit(RLIMIT_MEMLOCK, &limit) != 0)
            _exit(CHILD_SKIPS);
        _exit(ss_unwind_walk(&fresh, SS_HERE(), SS_UNWIND_MAX_FRAMES) && fresh.count > 1 &&
                      fresh.table->bytes < 512 << 10
                  ? 0
                  : 1);
    }
    child_check_unless(child, "this process may not lock memory");
}

/* ---- Room -------------------------------------------------------------------------------------*/

static const char *const too_many = "too many functions here have a rare kind of unwind data";

/* Addresses without code, which have their place in common in a table of any size. */
static void fill(ss_table *table)
{
    const ss_rule rule = ss_rule_frame_pointer();
    uintptr_t number = 1;

    ss_table_forget(table);
    while (ss_table_add(table, number << 40, &rule, 0))
        number++;
    assert_true(ss_table_is_full(table));
}

static SS_NOINLINE void walk_whole(void)
{
    assert_true(ss_unwind_walk(&walk, SS_HERE(), SS_UNWIND_MAX_FRAMES));
    AFTER();
}

/* So many functions that a table of eight is too small for them everywhere. */
#define CALLER(name, callee)           \
    static SS_NOINLINE void name(void) \
    {                                  \
        callee();                      \
        AFTER();                       \
    }
CALLER(from_one, walk_whole)
CALLER(from_two, from_one)
CALLER(from_three, from_two)
CALLER(from_four, from_three)

/* One that is too small for a walk ends it, and says why; a full one gets wider, and then begins anew. */
TEST(test_a_full_table_gets_wider_once_and_then_begins_anew)
{
    stacksplice_native_frame frames[64];
    uint32_t count = 0;

    ss_unwind_trim(&walk, true);
    for (volatile unsigned i = 0; i < 6; i++) { /* one call: not unrolled */
        ss_table_room room = {0, 0, 0};

        if (i > 0)
            fill(walk.table);
        if (i == 3) {
            room = walk.table->room;
            walk.table->room.known = 8;
        }
        from_four();
        if (i == 3) {
            assert_string_equal(walk.end_reason, too_many);
            assert_int_equal(ss_table_count(walk.table), 6);
            walk.table->room = room;
            continue;
        }
        if (i == 0) {
            count = walk.count;
            assert_in_range(count, 3, 64);
            memcpy(frames, walk.frames, count * sizeof *frames);
        }
        assert_int_equal(walk.count, count);
        for (uint32_t at = 0; at < count; at++)
            assert_true(walk.frames[at].ip == frames[at].ip && walk.frames[at].sp == frames[at].sp);
        assert_int_equal(walk.table->size, i > 0 ? SS_TABLE_WIDE : SS_TABLE_SMALL);
        assert_in_range(ss_table_count(walk.table), 3, 1000);
    }
}

TEST(test_a_deep_recursion_takes_room_for_frames_only)
{
    ss_unwind_trim(&walk, true);
    for (unsigned i = 0; i < 3; i++) {
        (void)deep(30000, walk_whole);
        assert_true(walk.count > 30000);
        assert_in_range(ss_table_count(walk.table), 5, 100);
        assert_int_equal(walk.table->size, SS_TABLE_DEEP);
        ss_unwind_trim(&walk, false);
    }
}
