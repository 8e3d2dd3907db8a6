/* Walks without memory: they say what is missing, and the next one has it. */
#include "unwind/table.h"
#include "unwind/walk.h"
#include "frames.h"
#include "instruments.h"
#include "support.h"
#include "threads.h"
#include "unwind_deep.h"

#include <sys/mman.h>
#include <sys/resource.h>

static ss_unwind walk;

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
