/*
 * A recurring stack is repeated while what it follows from is the same (plan/plan.h): the words on
 * the stack, those that sources report, their guards, and what all plans of a thread depend on.
 */
#include "splice_fixture.h"
#include "verified.h"

#include <stacksplice/script.h>
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

/* ---- What a plan depends on --------------------------------------------------------------------*/

static void change_head(void)
{
    script.head = &nodes[1];
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

static void change_guard(void)
{
    script.guarded++;
}

/* Until the process ends, nothing else comes to lie there. */
static void unmap_and_guard(void)
{
    script.guarded++;
    page = mmap(page, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    script.head = NULL;
}

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

static const struct {
    void (*change)(void);
    bool on_page, guarded, is_seen;
    const char *scripts; /* the functions of the script afterwards, a letter each */
} dependences[] = {
    {NULL, false, false, false, "ab"},
    {NULL, false, true, false, "ab"},
    {change_token, false, false, true, "ac"},
    {change_head, false, false, true, "b"},
    {change_guard, false, true, true, "ab"},
    /* The pointer is compared first, and its target, which is gone, is not read. */
    {unmap_page, true, false, true, "ab"},
    /* A guard that a source reports first is asked first. */
    {unmap_and_guard, true, true, true, ""},
    /* All plans depend on these. */
    {stacksplice_reclassify, false, false, true, "ab"},
    {load, false, false, true, "ab"},
    {drop_tokens, false, false, true, "ab"},
    {add_source, false, false, true, "ab"},
};

TEST(test_what_a_plan_depends_on_is_seen)
{
    for (volatile unsigned i = 0; i < COUNT_OF(dependences); i += one) { /* one call */
        const char *scripts = dependences[i].scripts;
        stack before, after;
        bool is_seen;

        (void)set_up(NULL);
        stacksplice_reclassify(); /* no plan of a row before matches */
        if (dependences[i].on_page)
            make_page();
        script.guarded = dependences[i].guarded;
        is_seen = asks_after(dependences[i].change, &before, &after);
        check_row(i, is_seen, dependences[i].is_seen);
        for (uint32_t at = 0; scripts[at]; at++)
            check_row(i, after.frames[at] == script_token((const char[]){scripts[at], 0}), true);
        check_row(i, stacksplice_is_token(after.frames[strlen(scripts)]), false);
        check_row(i, after.hr, S_OK);
        check_row(i, after.count - strlen(scripts),
                  before.count - (dependences[i].on_page ? 1 : 2));
    }
}

/* ---- The same place on the stack, another question ----------------------------------------------*/

static ONE_PLACE void capture_above(const void *above, unsigned times, stack *s)
{
    for (unsigned i = 0; i < times; i += one)
        s->hr = stacksplice_capture_above(above ? above : __builtin_frame_address(0), MAX,
                                          s->frames, &s->count, NULL);
}

PLAN_TEST(test_a_plan_hides_the_frames_that_were_asked_for)
{
    const void *const above[] = {NULL, __builtin_frame_address(0)};
    stack s[2];

    for (volatile unsigned i = 0; i < 2; i += one) /* one call */
        capture_above(above[i], ENOUGH, &s[i]);
    assert_int_equal(s[1].count, s[0].count - 1);
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

/* ---- Handlers, refusals ------------------------------------------------------------------------*/

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

/* What is refused is seldom asked for. */
PLAN_TEST(test_source_may_refuse)
{
    stack s;

    script.refuses = true;
    script.reports = 0;
    assert_int_equal(capture_times(&s, 30 * ENOUGH), 30 * ENOUGH);
    assert_in_range(script.reports, 1, ENOUGH / 2);
    script.refuses = false; /* then it is asked again, and soon no more */
    assert_in_range(capture_times(&s, 10 * ENOUGH), 1, 5 * ENOUGH);
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

/* Stacks with one entry, which differ by a return address alone. */
#define PLACE(n)                              \
    static ONE_PLACE void place_##n(stack *s) \
    {                                         \
        (void)capture_times(s, 1);            \
        AFTER();                              \
    }
#define NAME(n) place_##n,
#define EIGHT(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)
#define PLACES(X) \
    EIGHT(X, 0) EIGHT(X, 1) EIGHT(X, 2) EIGHT(X, 3) EIGHT(X, 4) EIGHT(X, 5) EIGHT(X, 6) EIGHT(X, 7)

PLACES(PLACE)
static void (*const places[])(stack *s) = {PLACES(NAME)};

/*
 * A stack gets its plan beside one that has none.  Among so many pairs, at DEPTH depths, some
 * are looked up at one place; while each repetition is verified, nothing else delays a plan.
 */
static ONE_PLACE void run_pairs(unsigned depth)
{
    stack s;

    if (depth > 1)
        run_pairs(depth - 1);

    for (unsigned a = 0; a < COUNT_OF(places); a++)
        for (unsigned b = 0; b < COUNT_OF(places); b++) {
            unsigned recorded = 0;

            stacksplice_reclassify(); /* no plan of a pair before matches */
            for (volatile unsigned i = 0; a != b && i < 40; i += one) { /* one call */
                script.refuses = i % 2 == 0;
                script.reports = 0;
                places[script.refuses ? a : b](&s);
                recorded += i % 2 ? script.reports : 0;
            }
            if (a != b && !recorded)
                abort();
        }
}

TEST(test_a_stack_gets_its_plan_beside_another)
{
    assert_true(is_verified("pairs", "1"));
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
    if (!strcmp(argv[1], "pairs"))
        run_pairs(8);
    for (size_t i = 0; i < COUNT_OF(programs); i++)
        if (!strcmp(programs[i].name, argv[1]))
            run_program(&programs[i]);
    return 0;
}
