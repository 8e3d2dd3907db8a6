/* Marks: a source classifies code once, and finds the frames by it in every capture. */
#include "frames.h"
#include "support.h"
#include "threads.h"

#include <stacksplice/source.h>

#include <stdatomic.h>

#define MAX 256

typedef struct marker {
    uintptr_t function; /* whose code gets the mark */
    _Atomic uint32_t mark;
    uint32_t source;  /* what a capture showed */
    uint32_t count;   /* frames with the mark */
    uint32_t foreign; /* marked frames that belong to others */
    uint32_t frame_count;
    bool right, truncated, ended;
} marker;

static marker first, second, old;

/* ---- The work ---------------------------------------------------------------------------------*/

static NOINLINE void capture(void)
{
    uintptr_t frames[MAX];
    uint32_t count;

    assert_int_equal(stacksplice_capture(0, MAX, frames, &count, NULL), S_OK);
    AFTER();
}

static NOINLINE void inner(int depth);

static NOINLINE void outer(int depth)
{
    if (depth)
        inner(depth - 1);
    else
        capture();
    AFTER();
}

static NOINLINE void inner(int depth)
{
    outer(depth);
    AFTER();
}

/* ---- The sources ------------------------------------------------------------------------------*/

static uint8_t classify(uintptr_t ip, uintptr_t function, void *data)
{
    marker *m = data;

    return ip > function && function == m->function ? (uint8_t)atomic_load(&m->mark) : 0;
}

static void collect(stacksplice_walk *walk, void *data)
{
    marker *m = data;
    uint32_t listed = 0;

    m->source = walk->source;
    m->frame_count = walk->frame_count;
    m->truncated = walk->truncated;
    m->ended = stacksplice_walk_end(walk, 0, 0); /* which it may not */
    m->count = m->foreign = 0;
    m->right = true;
    for (uint32_t i = 0; i < walk->frame_count; i++) {
        uint32_t flags = walk->frames[i].flags, mark = stacksplice_native_mark(flags);

        if (!mark) {
            m->right = m->right && stacksplice_native_mark_owner(flags) == 0;
            continue;
        }
        m->right = m->right && listed < walk->marked_count && walk->marked[listed] == i;
        listed++;
        if (stacksplice_native_mark_owner(flags) != walk->source) {
            m->foreign++;
            continue;
        }
        m->count++;
        m->right =
            m->right && mark == atomic_load(&m->mark) && walk->frames[i].function == m->function;
    }
    m->right = m->right && listed == walk->marked_count;
}

static void add(marker *m, void (*function)(int), uint32_t mark)
{
    stacksplice_source source = {SOURCE,    .language = "test",  .identity = m, .collect = collect,
                                 .data = m, .classify = classify};

    memcpy(&m->function, &function, sizeof function);
    atomic_store(&m->mark, mark);
    assert_int_equal(stacksplice_add_source(&source), S_OK);
}

/* A source of a binding that was built before there were marks. */
static void add_old(marker *m)
{
    stacksplice_source source;

    memset(&source, 0xff, sizeof source);
    source.size = offsetof(stacksplice_source, classify);
    source.version = STACKSPLICE_SOURCE_VERSION;
    source.language = "test";
    source.identity = m;
    source.collect = collect;
    source.data = m;
    assert_int_equal(stacksplice_add_source(&source), S_OK);
}

/* ---- Tests ------------------------------------------------------------------------------------*/

TEST(test_marks_name_their_frames)
{
    add_old(&old);
    inner(3); /* before the marks: nothing of it may be remembered */
    add(&first, inner, 7);
    inner(3);
    assert_true(first.right && old.right);
    assert_int_equal(first.source, 2);
    assert_int_equal(first.count, 4);
    assert_int_equal(first.foreign, 0);
    assert_int_equal(old.foreign, 4);
}

TEST(test_marks_belong_to_the_first_that_answers)
{
    add(&second, inner, 9);
    inner(2);
    assert_true(second.right);
    assert_int_equal(first.count, 3);
    assert_int_equal(second.count, 0);
    assert_int_equal(second.foreign, 3);
}

TEST(test_marks_change_when_told)
{
    inner(1);
    atomic_store(&first.mark, 255);
    stacksplice_reclassify();
    inner(1);
    assert_true(first.right);
    assert_int_equal(first.count, 2);
    atomic_store(&first.mark, 0);
    stacksplice_reclassify();
    inner(1);
    assert_int_equal(first.count, 0);
    assert_int_equal(second.count, 2); /* the next that answers */
}

static void *run(void *data)
{
    inner(4);
    return NULL;
}

TEST(test_marks_are_there_in_a_new_thread)
{
    atomic_store(&first.mark, 3);
    stacksplice_reclassify();
    (void)thread_run(run, NULL);
    assert_true(first.right);
    assert_int_equal(first.count, 5);
}

/* ---- A source that ends walks -----------------------------------------------------------------*/

typedef struct ender {
    uint32_t before; /* the frames of the walk */
    uint32_t kept;   /* those up to the second that is marked */
    bool splices, ends;
    bool refused, ended;
} ender;

static uintptr_t left_over(void)
{
    stacksplice_token_info info = {GAP_TOKEN, .language = "test", .reason = "left over"};
    uintptr_t token;

    assert_int_equal(stacksplice_intern(&info, &token), S_OK);
    return token;
}

static void end_walk(stacksplice_walk *walk, void *data)
{
    ender *e = data;

    e->before = walk->frame_count;
    if (!e->ends)
        return;
    e->kept = walk->marked[1];
    e->refused = !stacksplice_walk_end(walk, walk->frame_count + 1, left_over());
    if (e->splices) {
        assert_int_equal(stacksplice_walk_splice(walk, e->kept - 1, 2), 1);
        e->refused = e->refused && !stacksplice_walk_end(walk, e->kept, left_over());
        e->kept++;
    }
    e->ended = stacksplice_walk_end(walk, e->kept, left_over());
}

static NOINLINE uint32_t capture_into(uintptr_t *frames, int depth)
{
    uint32_t count;

    if (depth)
        count = capture_into(frames, depth - 1);
    else
        assert_int_equal(stacksplice_capture(0, MAX, frames, &count, NULL), S_OK);
    AFTER();
    return count;
}

static void check_ended(ender *e, uint32_t hidden, uint32_t marked)
{
    uintptr_t frames[MAX];
    uint32_t count = capture_into(frames, 4);

    assert_true(e->ended && e->refused);
    assert_true(e->kept < e->before);
    assert_true(first.frame_count == e->kept && first.truncated && first.right);
    assert_int_equal(first.count, marked);
    assert_int_equal(count, e->kept - hidden + 1);
    assert_true(frames[count - 1] == left_over());
}

TEST(test_a_source_ends_the_walk_for_all)
{
    static ender own;
    stacksplice_source source = {SOURCE,           .language = "test",
                                 .identity = &own, .collect = end_walk,
                                 .data = &own,     .ends_walks = 1};
    uint32_t (*marked)(uintptr_t *, int) = capture_into;
    uintptr_t frames[MAX];
    uint32_t count;

    assert_int_equal(stacksplice_add_source(&source), S_OK); /* the last, and collects first */
    memcpy(&first.function, &marked, sizeof marked);
    stacksplice_reclassify();
    count = capture_into(frames, 4);
    assert_int_equal(first.count, 5);
    assert_true(first.frame_count == own.before && count == own.before);
    assert_false(first.ended || second.ended || old.ended);
    own.ends = true;
    check_ended(&own, 0, 1);
    assert_false(first.ended || second.ended || old.ended);
    own.splices = true;
    check_ended(&own, 2, 2);
    own.ends = false;
    assert_int_equal(capture_into(frames, 4), count);
    assert_true(first.frame_count == count && !first.truncated);
}
