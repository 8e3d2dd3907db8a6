/* Stacks that are longer than the limit keep both ends, and say how much is missing between. */
#include "error_test.h"
#include "frames.h"
#include "threads.h"

#include <stdlib.h>

enum {
    LIMIT = 512,
    INNER = LIMIT / 2,
    OUTER = LIMIT - INNER - 1,
    MOST = 65535,
    SHALLOW = 5,
    ALIKE = 7,
    BIG_STACK = 256 << 20
};

/* ---- Copies ----------------------------------------------------------------------------------*/

/* The letters of FRAMES, of a gap its number. */
static void letters_of(const uintptr_t *frames, uint32_t count, char *text)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t left_out = stacksplice_frames_left_out(&frames[i], 1);

        text += left_out ? sprintf(text, "(%u)", left_out)
                         : sprintf(text, "%c", (char)('a' + frames[i]));
    }
    *text = 0;
}

static const struct {
    uint32_t count, max;
    const char *want;
} copies[] = {
    {0, 0, ""},
    {0, 3, ""},
    {3, 3, "abc"},
    {3, 8, "abc"},
    {3, 0, ""},
    {3, 1, "(3)"},
    {4, 2, "a(3)"},
    {4, 3, "a(2)d"},
    {9, 4, "ab(6)i"},
    {9, 5, "ab(5)hi"},
    {9, 8, "abcd(2)ghi"},
    {9, 9, "abcdefghi"},
    {26, 4, "ab(23)z"},
    {26, 5, "ab(22)yz"},
    {26, 7, "abc(20)xyz"},
    {26, 25, "abcdefghijkl(2)opqrstuvwxyz"},
};

TEST(test_copies)
{
    for (size_t row = 0; row < COUNT_OF(copies); row++) {
        uintptr_t frames[26], out[26];
        char got[64];

        for (uint32_t i = 0; i < COUNT_OF(frames); i++)
            frames[i] = i;
        letters_of(out, stacksplice_copy_ends(frames, copies[row].count, copies[row].max, out),
                   got);
        assert_string_equal(got, copies[row].want);
        letters_of(frames,
                   stacksplice_copy_ends(frames, copies[row].count, copies[row].max, frames), got);
        assert_string_equal(got, copies[row].want); /* in place */
    }
}

TEST(test_a_gap_that_goes_is_counted)
{
    uintptr_t frames[] = {0, 1, 2, stacksplice_left_out(1000), 4, 5, 6}, out[4];
    char got[64];

    letters_of(out, stacksplice_copy_ends(frames, COUNT_OF(frames), COUNT_OF(out), out), got);
    assert_string_equal(got, "ab(1003)g");
    frames[3] = stacksplice_left_out(UINT32_MAX); /* as many as a gap can stand for */
    (void)stacksplice_copy_ends(frames, COUNT_OF(frames), COUNT_OF(out), out);
    assert_int_equal(stacksplice_frames_left_out(out, COUNT_OF(out)), UINT32_MAX);
}

static int is_reason(const stacksplice_frame *frame, void *data)
{
    assert_int_equal(frame->kind, STACKSPLICE_FRAME_GAP);
    assert_int_equal(frame->trust, STACKSPLICE_TRUST_EXACT);
    assert_string_equal(frame->language, "native");
    assert_string_equal(frame->reason, (const char *)data);
    return 0;
}

static void check_reason(uint32_t number, const char *want)
{
    char copy[100];

    (void)snprintf(copy, sizeof copy, "%s", want);
    assert_int_equal(stacksplice_resolve(stacksplice_left_out(number), is_reason, copy), S_OK);
}

TEST(test_gaps_say_their_number)
{
    check_reason(0, "outer frames missing: the exception did not provide them");
    check_reason(1, "1 frame omitted here: stack longer than the limit");
    check_reason(20, "20 frames omitted here: stack longer than the limit");
    check_reason(UINT32_MAX, "4294967295 frames omitted here: stack longer than the limit");
}

/* ---- Native stacks ---------------------------------------------------------------------------*/

/* What a depth gives: the number of all frames, and what was kept. */
typedef struct taken {
    uint32_t total, count;
    uintptr_t frames[LIMIT];
} taken;

typedef void take_stack(taken *t);

static void finish(taken *t, void *error)
{
    uint32_t left_out;

    assert_int_equal(stacksplice_error_stack(UNKNOWN(error), LIMIT, t->frames, &t->count), S_OK);
    left_out = stacksplice_frames_left_out(t->frames, t->count);
    t->total = t->count + left_out - (left_out > 0);
}

static void by_error(taken *t)
{
    IRestrictedErrorInfo *error = originated(E_FAIL);

    finish(t, error);
    release(error);
}

static void by_node(taken *t)
{
    IRestrictedErrorInfo *error;
    ILanguageExceptionErrorInfo2 *node;

    RoOriginateError(E_FAIL, NULL);
    assert_int_equal(stacksplice_propagate(E_FAIL, NULL), S_OK);
    error = take();
    node = head_of(error);
    finish(t, node);
    release(node);
    release(error);
}

/* A caller's array has the innermost frames only. */
static void by_capture(taken *t)
{
    uint32_t left_out;
    HRESULT hr = stacksplice_capture(1, LIMIT, t->frames, &t->count, NULL);

    assert_int_equal(stacksplice_frames_left_out(t->frames, t->count), 0);
    assert_int_equal(
        stacksplice_capture_ends(__builtin_frame_address(0), 0, LIMIT, t->frames, &t->count), hr);
    left_out = stacksplice_frames_left_out(t->frames, t->count);
    assert_int_equal(hr, left_out ? S_FALSE : S_OK);
    t->total = t->count + left_out - (left_out > 0);
}

/* Deeper than ThreadSanitizer's own list of calls has room for. */
static __attribute__((noinline, no_sanitize("thread"))) void descend(int depth, take_stack *how,
                                                                     taken *t)
{
    if (depth > 0)
        descend(depth - 1, how, t);
    else
        how(t);
    __asm__ volatile("");
}

typedef struct job {
    int depth;
    take_stack *how;
    taken *t;
} job;

static void *run_job(void *data)
{
    const job *j = data;

    descend(j->depth, j->how, j->t);
    return NULL;
}

/* In a thread whose stack is large enough. */
static void take_at(int depth, take_stack *how, taken *t)
{
    job j = {depth, how, t};
    pthread_attr_t attributes;
    pthread_t thread;

    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, BIG_STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, run_job, &j), 0);
    (void)thread_end(thread);
    pthread_attr_destroy(&attributes);
}

static int has_same_ends(const taken *a, const taken *b)
{
    return !memcmp(a->frames, b->frames, 2 * sizeof *a->frames) &&
           !memcmp(a->frames + a->count - ALIKE, b->frames + b->count - ALIKE,
                   ALIKE * sizeof *a->frames);
}

static void check_depths(take_stack *how)
{
    static const int depths[] = {511, 512, 513, 3000};
    static taken shallow, deep;

    take_at(SHALLOW, how, &shallow);
    assert_in_range(shallow.count, ALIKE, LIMIT - 1);
    for (size_t i = 0; i < COUNT_OF(depths); i++) {
        take_at(depths[i], how, &deep);
        check_row(i, deep.total, shallow.total + (uint32_t)(depths[i] - SHALLOW));
        check_row(i, deep.count, LIMIT);
        check_row(i, stacksplice_frames_left_out(&deep.frames[INNER], 1), deep.total - LIMIT + 1);
        check_row(i, has_same_ends(&deep, &shallow), 1);
    }
}

/* Exactly as many as are kept have no gap; one more has one. */
static void check_limit(take_stack *how)
{
    static taken shallow, t;

    take_at(SHALLOW, how, &shallow);
    for (uint32_t beyond = 0; beyond < 2; beyond++) {
        take_at(SHALLOW + (int)(LIMIT - shallow.count + beyond), how, &t);
        assert_int_equal(t.total, LIMIT + beyond);
        assert_int_equal(t.count, LIMIT);
        assert_int_equal(stacksplice_frames_left_out(t.frames, t.count), beyond ? 2 : 0);
    }
}

FRESH_TEST(test_native_stacks)
{
    static take_stack *const ways[] = {by_error, by_node, by_capture};

    NEEDS_NATIVE_FRAMES();
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        check_depths(ways[i]);
        check_limit(ways[i]);
    }
}

/* The unwinder has a limit of its own: beyond it another gap, at the outer end, says so. */
static int is_deeper(const stacksplice_frame *frame, void *data)
{
    *(int *)data = frame->kind == STACKSPLICE_FRAME_GAP &&
                   strstr(frame->reason, "stack has more than") == frame->reason;
    return 0;
}

FRESH_TEST(test_deeper_than_the_unwinder_goes)
{
    static taken shallow, deep;
    int has_gap = 0;

    NEEDS_NATIVE_FRAMES();
    take_at(SHALLOW, by_error, &shallow);
    take_at(60000, by_error, &deep);
    assert_int_equal(deep.total, shallow.total + 60000 - SHALLOW);
    assert_true(has_same_ends(&deep, &shallow));
    take_at(100000, by_error, &deep);
    assert_int_equal(deep.count, LIMIT);
    (void)stacksplice_resolve(deep.frames[LIMIT - 1], is_deeper, &has_gap);
    assert_true(has_gap || has_same_ends(&deep, &shallow));
}

/* ---- Stacks that a language exception of somebody else gives ---------------------------------*/

static const struct {
    uint32_t count;
    uint32_t at_most;  /* what it gives when it is asked again */
    uint32_t asked;    /* how often */
    uint32_t left_out; /* 1 where nobody knows */
    uint32_t last;     /* the outermost frame; 0: a gap */
} givers[] = {
    {511, 0, 1, 0, 511},      {512, 0, 2, 0, 512},         {513, 0, 2, 2, 513},
    {3000, 0, 2, 2489, 3000}, {65534, 0, 2, 65023, 65534}, {65535, 0, 2, 65025, 0},
    {100000, 0, 2, 65025, 0}, {3000, 100, 2, 1, 0},        {3000, 512, 2, 0, 512},
};

static void check_giver(size_t row, const uintptr_t *frames)
{
    IRestrictedErrorInfo *error;
    uintptr_t kept[LIMIT];
    uint32_t count = 0;
    error_double x;

    error_double_init(&x, 0);
    x.has_stack = 1;
    x.frames = frames;
    x.frame_count = givers[row].count;
    x.at_most = givers[row].at_most;
    error = originated_with(E_FAIL, &x);
    assert_int_equal(stacksplice_error_stack(UNKNOWN(error), LIMIT, kept, &count), S_OK);
    check_row(row, count, givers[row].count < LIMIT ? givers[row].count : LIMIT);
    check_row(row, stacksplice_frames_left_out(kept, count), givers[row].left_out);
    check_row(row, x.asked, givers[row].asked);
    check_row(row, x.room, givers[row].asked == 1 ? LIMIT : MOST);
    assert_memory_equal(kept, frames, INNER * sizeof *kept);
    if (givers[row].last)
        check_row(row, kept[count - 1], givers[row].last);
    else
        check_row(row, kept[count - 1], stacksplice_left_out(0));
    release(error);
}

FRESH_TEST(test_givers_of_long_stacks)
{
    uintptr_t *frames = malloc(100000 * sizeof *frames);

    assert_non_null(frames);
    for (uint32_t i = 0; i < 100000; i++)
        frames[i] = i + 1;
    for (size_t row = 0; row < COUNT_OF(givers); row++)
        check_giver(row, frames);
    free(frames);
}
