/*
 * A recurring stack is repeated while what it follows from is the same (plan/plan.h): the words on
 * the stack, those that sources report, their guards, and what all plans of a thread depend on.
 */
#include "splice_fixture.h"
#include "threads.h"
#include "verified.h"

#include <stacksplice/source.h>

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

enum { ENOUGH = 100 /* captures, after which a recurring stack has a plan */ };

/* A place in the source is one place in the code: no copies for constants, no unrolled loops. */
#ifdef __clang__
#define ONE_PLACE __attribute__((noinline))
#else
#define ONE_PLACE __attribute__((noipa))
#endif
static volatile unsigned one = 1; /* a step that the compiler does not know */

/* ---- The source -------------------------------------------------------------------------------*/

typedef struct node {
    const struct node *next;
    uintptr_t token;
} node;

/* What this thread's captures read, and what they asked. */
typedef struct script {
    const node *head;
    unsigned asked;   /* how often the source was asked, */
    unsigned reports; /* and how often for reports */
    bool refuses, forgets_tokens;
    int guarded; /* 0: no guard */
} script_state;

static _Thread_local script_state script;
static node nodes[2]; /* of the functions "a" and "b" */

static int guard_holds(const uintptr_t *data)
{
    return script.guarded == (int)data[0] && data[1] == 11 && data[3] == 13;
}

static void push(stacksplice_walk *walk, const node *at)
{
    if (!script.forgets_tokens)
        stacksplice_walk_read(walk, (uintptr_t)&at->token, at->token);
    (void)stacksplice_walk_push(walk, at->token);
}

static void collect(stacksplice_walk *walk, void *data)
{
    const uintptr_t check[STACKSPLICE_CHECK_WORDS] = {(uintptr_t)script.guarded, 11, 12, 13};

    script.asked++;
    script.reports += walk->recorded;
    if (script.refuses)
        stacksplice_walk_refuse(walk);
    if (script.guarded)
        stacksplice_walk_check(walk, guard_holds, check);
    stacksplice_walk_read(walk, (uintptr_t)&script.head, (uintptr_t)script.head);
    if (!script.head || !stacksplice_walk_splice(walk, 0, 0))
        return;
    for (const node *at = script.head; at; at = at->next) {
        stacksplice_walk_read(walk, (uintptr_t)&at->next, (uintptr_t)at->next);
        push(walk, at);
    }
}

static const stacksplice_source source = {SOURCE, .language = "test", .identity = &source,
                                          .collect = collect, .reports = 1};

static uintptr_t script_token(const char *function)
{
    stacksplice_token_info info = {SCRIPT_TOKEN, .language = "test", .function = function};
    uintptr_t token;

    return stacksplice_intern(&info, &token) == S_OK ? token : 0;
}

/* Make the nodes and the thread's script as they were; adds the source when first called. */
static int set_up(void **state)
{
    static bool is_added;

    if (!is_added)
        assert_int_equal(stacksplice_add_source(&source), S_OK);
    is_added = true;
    nodes[0] = (node){&nodes[1], script_token("a")};
    nodes[1] = (node){NULL, script_token("b")};
    script.head = nodes;
    script.refuses = script.forgets_tokens = false;
    script.guarded = 0;
    return 0;
}

#define PLAN_TEST(name) TEST_WITH(name, set_up, NULL)

/* A change: the second node gets another token. */
static void change_token(void)
{
    nodes[1].token = script_token("c");
}

/* ---- Captures ---------------------------------------------------------------------------------*/

/* Capture TIMES times into S; returns how often the source was asked. */
static ONE_PLACE unsigned capture_times(stack *s, unsigned times)
{
    script.asked = 0;
    for (unsigned i = 0; i < times; i += one)
        s->hr = stacksplice_capture(0, MAX, s->frames, &s->count, &s->hash);
    return script.asked;
}

/*
 * All captures of a test are made here: the stack is the same.  First make a plan, then do CHANGE,
 * then capture once more; returns whether that asked the source.
 */
static ONE_PLACE bool asks_after(void (*change)(void), stack *before, stack *after)
{
    static const unsigned times[] = {ENOUGH, 1};
    stack *const stacks[] = {before, after};
    unsigned askings[2];

    for (volatile unsigned step = 0; step < 2; step += one) {
        askings[step] = capture_times(stacks[step], times[step]);
        if (step == 0 && change)
            change();
    }
    if (askings[0] == ENOUGH)
        fail_msg("no plan was made");
    return askings[1] == 1;
}

static void check_equal(const stack *a, const stack *b)
{
    assert_int_equal(a->hr, b->hr);
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->hash, b->hash);
    assert_memory_equal(a->frames, b->frames, a->count * sizeof *a->frames);
}

/* ---- Words ------------------------------------------------------------------------------------*/

PLAN_TEST(test_recurring_stack_is_repeated)
{
    stack before, after;

    assert_false(asks_after(NULL, &before, &after));
    check_equal(&before, &after);
    assert_true(after.frames[0] == nodes[0].token);
    assert_true(after.frames[1] == nodes[1].token);
}

static void change_head(void)
{
    script.head = &nodes[1];
}

PLAN_TEST(test_changed_word_is_seen)
{
    stack before, after;

    assert_true(asks_after(change_token, &before, &after));
    assert_true(after.frames[1] == script_token("c"));
    (void)set_up(NULL);
    assert_true(asks_after(change_head, &before, &after));
    assert_true(after.frames[0] == nodes[1].token);
    assert_int_equal(after.count, before.count - 1);
}

static node *page;

/* One node on a page of its own. */
static void make_page(void)
{
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    page[0] = (node){NULL, script_token("d")};
    script.head = page;
}

static void unmap_page(void)
{
    script.head = nodes;
    assert_int_equal(munmap(page, 4096), 0);
}

/* What a pointer led to is gone: the pointer is compared first, and its target is not read. */
PLAN_TEST(test_memory_behind_a_changed_pointer_is_not_read)
{
    stack before, after;

    make_page();
    assert_true(asks_after(unmap_page, &before, &after));
    assert_true(before.frames[0] == script_token("d"));
    assert_true(after.frames[0] == nodes[0].token);
}

/* ---- The stack itself -------------------------------------------------------------------------*/

static ONE_PLACE void path_left(stack *s)
{
    (void)capture_times(s, 1);
    AFTER();
}

static ONE_PLACE void path_right(stack *s)
{
    (void)capture_times(s, 1);
    __asm__ volatile("nop" ::: "memory");
}

/* Two stacks of the same shape, which differ in one return address alone. */
PLAN_TEST(test_other_callers_have_other_stacks)
{
    stack left, right;
    unsigned repeated = 0;

    for (int i = 0; i < 20; i++) {
        path_left(&left);
        repeated += !script.asked;
        path_right(&right);
        repeated += !script.asked;
        assert_int_equal(left.count, right.count);
        assert_memory_not_equal(left.frames, right.frames, left.count * sizeof *left.frames);
    }
    assert_true(repeated > 20);
}

/* ---- Guards -----------------------------------------------------------------------------------*/

static void change_guard(void)
{
    script.guarded++;
}

PLAN_TEST(test_guard_that_does_not_hold_is_seen)
{
    stack before, after;

    script.guarded = 1;
    assert_false(asks_after(NULL, &before, &after));
    assert_true(asks_after(change_guard, &before, &after));
    check_equal(&before, &after);
}

static void unmap_and_guard(void)
{
    script.guarded++;
    assert_int_equal(munmap(page, 4096), 0);
    page = mmap(page, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    script.head = NULL;
}

/* A guard that a source reports first is asked first. */
PLAN_TEST(test_guard_comes_before_later_words)
{
    stack before, after;

    script.guarded = 1;
    make_page();
    assert_true(asks_after(unmap_and_guard, &before, &after));
    assert_int_equal(munmap(page, 4096), 0);
}

/* ---- What all plans depend on -----------------------------------------------------------------*/

static void load(void)
{
    void *library = dlopen(TURN_LIBRARY, RTLD_NOW | RTLD_LOCAL);

    assert_non_null(library);
    assert_int_equal(dlclose(library), 0);
}

static void drop_tokens(void)
{
    uint32_t epoch = stacksplice_token_epoch();
    char name[32];

    for (unsigned i = 0; stacksplice_token_epoch() == epoch; i++) {
        (void)snprintf(name, sizeof name, "flood %u", i);
        assert_true(script_token(name) != 0);
    }
    (void)set_up(NULL);
}

static void collect_nothing(stacksplice_walk *walk, void *data)
{
}

static void add_source(void)
{
    static const stacksplice_source late = {SOURCE, .language = "late", .identity = &late,
                                            .collect = collect_nothing, .reports = 1};

    assert_int_equal(stacksplice_add_source(&late), S_OK);
}

PLAN_TEST(test_what_all_plans_depend_on_voids_them)
{
    static void (*const changes[])(void) = {stacksplice_reclassify, load, drop_tokens, add_source};

    for (volatile unsigned i = 0; i < COUNT_OF(changes); i += one) { /* one call */
        stack before, after;

        check_row(i, asks_after(changes[i], &before, &after), true);
        if (changes[i] == drop_tokens)
            assert_true(after.frames[0] == nodes[0].token);
        else
            check_equal(&before, &after);
    }
}

/* ---- Combined stacks --------------------------------------------------------------------------*/

enum { PLAIN, SKIPPED, CUT, ENDS, CUT_ENDS, BEHIND, PARTS };

static ONE_PLACE void take_part(int which, stack *p)
{
    const void *here = __builtin_frame_address(0);
    uint32_t max = which == CUT || which == CUT_ENDS ? 4 : MAX;
    uintptr_t behind = which == BEHIND ? nodes[0].token : 0;

    if (which < ENDS)
        p->hr = stacksplice_capture(which == SKIPPED ? 2 : 0, max, p->frames, &p->count, NULL);
    else
        p->hr = stacksplice_capture_ends(here, behind, max, p->frames, &p->count);
    AFTER();
}

/* Each part is taken while no capture is repeated, and while most are. */
PLAN_TEST(test_parts_of_a_repeated_stack)
{
    stack full, again;

    for (int which = 0; which < PARTS; which++)
        for (volatile unsigned i = 0; i < 3 * ENOUGH; i += one) {
            script.refuses = i == 0;
            if (script.refuses)
                stacksplice_reclassify();
            take_part(which, i ? &again : &full);
            if (i == 0)
                continue;
            assert_int_equal(again.hr, full.hr);
            assert_int_equal(again.count, full.count);
            assert_memory_equal(again.frames + 1, full.frames + 1,
                                (full.count - 1) * sizeof *full.frames);
        }
}

static ONE_PLACE uint32_t native_times(uintptr_t *frames, uint32_t skip, uint32_t max,
                                       unsigned times)
{
    uint32_t count = 0;

    for (unsigned i = 0; i < times; i += one) {
        uint32_t now = RtlCaptureStackBackTrace(skip, max, (void **)frames, NULL);

        assert_true(!i || now == count);
        count = now;
    }
    return count;
}

TEST(test_native_addresses_are_repeated)
{
    uintptr_t all[MAX], part_of[MAX];
    uint32_t count = native_times(all, 0, MAX, 1);
    uint32_t own = 1; /* the number of this function in the stack */

    for (uint32_t skip = 0; skip < 3; skip += one)
        for (uint32_t max = 1; max < count + 2; max += one) {
            uint32_t want = count - skip < max ? count - skip : max;

            assert_int_equal(native_times(part_of, skip, max, ENOUGH), want);
            /* This function has two calls. */
            for (uint32_t i = 0; i < want; i++)
                assert_true(skip + i == own || part_of[i] == all[skip + i]);
        }
}

/* ---- Threads, forks, handlers ------------------------------------------------------------------*/

static void *capture_in_thread(void *data)
{
    stack before, after;

    script.head = nodes;
    return asks_after(NULL, &before, &after) ? "asked" : NULL;
}

PLAN_TEST(test_each_thread_has_its_plans)
{
    for (int i = 0; i < 40; i++)
        assert_null(thread_run(capture_in_thread, NULL));
}

PLAN_TEST(test_child_of_a_fork_repeats_too)
{
    stack before, after;
    pid_t child;

    assert_false(asks_after(NULL, &before, &after));
    child = fork();
    if (child == 0)
        child_end(!asks_after(NULL, &before, &after) && !asks_after(NULL, &before, &after));
    child_check(child);
}

static stack in_handler;
static volatile sig_atomic_t handled;

static void on_signal(int number)
{
    in_handler.hr = stacksplice_capture(0, MAX, in_handler.frames, &in_handler.count, NULL);
    handled++;
}

/* The handler's stack recurs, but a signal may come anywhere: it is always captured in full. */
PLAN_TEST(test_handlers_are_not_repeated)
{
    (void)signal(SIGUSR1, on_signal);
    script.asked = 0;
    for (unsigned i = 0; i < 2 * ENOUGH; i++)
        assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(handled, 2 * ENOUGH);
    assert_int_equal(script.asked, 2 * ENOUGH);
    (void)signal(SIGUSR1, SIG_DFL);
}

/* ---- Room --------------------------------------------------------------------------------------*/

/* A stack that is DEPTH frames deeper.  Returns how many of its captures were made in full. */
static ONE_PLACE unsigned capture_deep(stack *s, unsigned depth)
{
    unsigned in_full = depth ? capture_deep(s, depth - one) : capture_times(s, ENOUGH);

    AFTER();
    return in_full;
}

/* More plans than there is room for: the newest ones overwrite the oldest. */
static void *use_room_again(void *unused)
{
    enum { DEEPEST = 200 };
    unsigned forgotten = 0;
    uint32_t least = 0;
    stack s;

    script.head = nodes;
    for (volatile unsigned round = 0; round < 3; round += one)
        for (volatile unsigned depth = 0; depth < DEEPEST; depth += one) {
            unsigned in_full = capture_deep(&s, depth);

            forgotten += round && in_full > 1;
            least = depth ? least : s.count;
            assert_in_range(in_full, 0, ENOUGH / 2);
            assert_int_equal(s.count, least + depth);
            assert_true(s.frames[0] == nodes[0].token);
        }
    assert_true(forgotten > DEEPEST);
    return unused;
}

/* In a thread that has no plans yet. */
PLAN_TEST(test_room_for_plans_is_used_again)
{
    (void)thread_run(use_room_again, NULL);
}

/* What is refused is seldom asked for. */
PLAN_TEST(test_source_may_refuse)
{
    stack s;

    script.refuses = true;
    script.reports = 0;
    assert_int_equal(capture_times(&s, 30 * ENOUGH), 30 * ENOUGH);
    assert_in_range(script.reports, 1, ENOUGH / 2);
}

/* ---- STACKSPLICE_VERIFY_PLANS: each repeated capture is compared with a full one ----------------*/

static void change_guard_and_token(void)
{
    script.guarded++;
    change_token();
}

/* What a program of its own does: recur, then change a token that was not reported as a word. */
static const struct program {
    const char *name;
    int guarded; /* 0: nothing else tells of the change */
    void (*change)(void);
} programs[] = {{"lies", 0, change_token}, {"has a guard", 1, change_guard_and_token}};

static void run_program(const struct program *program)
{
    stack s;

    script.guarded = program->guarded;
    script.forgets_tokens = true;
    stacksplice_reclassify();
    for (volatile unsigned i = 0; i < 2; i += one) {
        (void)capture_times(&s, ENOUGH);
        program->change();
    }
}

TEST(test_verifying_finds_a_word_that_was_not_reported)
{
    assert_true(is_verified("is honest", "1"));
    assert_false(is_verified("lies", "1"));
}

TEST(test_verifying_finds_what_a_guard_prevents)
{
    assert_true(is_verified("has a guard", "1"));
    assert_false(is_verified("has a guard", "blind"));
}

int main(int argc, char **argv)
{
    stack s;

    if (argc == 1)
        return run_all_tests();
    (void)set_up(NULL);
    (void)capture_times(&s, 4 * ENOUGH);
    for (size_t i = 0; i < COUNT_OF(programs); i++)
        if (!strcmp(programs[i].name, argv[1]))
            run_program(&programs[i]);
    return 0;
}
