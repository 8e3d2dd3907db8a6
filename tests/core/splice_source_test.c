/* Sources in combined captures: they replace frames, and break nothing. */
#include "forks.h"
#include "machine.h"
#include "splice_fixture.h"
#include "threads.h"

#include <stacksplice/source.h>

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

int main(void)
{
    if (stacksplice_add_source(&good_source) != S_OK)
        return 1;
    return run_all_tests();
}
