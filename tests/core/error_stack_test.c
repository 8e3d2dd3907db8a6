/* The stacks that errors and nodes keep. */
#include "error_test.h"
#include "frames.h"

#include <sys/syscall.h>
#include <unistd.h>

static const uintptr_t some_frames[] = {0x1001, 0x2002, 0x3003, 0x4004, 0x5005};

enum { ROOM = 600 };

static uint32_t stack_of(void *error, uintptr_t frames[ROOM])
{
    uint32_t count = 0;

    assert_int_equal(stacksplice_error_stack(UNKNOWN(error), ROOM, frames, &count), S_OK);
    return count;
}

/* ---- Native stacks begin at the caller -------------------------------------------------------*/

/* In FUNCTION, which is a few hundred bytes of code at most. */
#define within(address, function) ((address) - (uintptr_t)(function) < 400)

/* NAME does CALL, and not as its last act. */
#define CALLER(name, call, ...)            \
    static NOINLINE void name(__VA_ARGS__) \
    {                                      \
        call;                              \
        AFTER();                           \
    }

CALLER(by_originate, RoOriginateError(E_FAIL, NULL), void)
CALLER(by_originate_w, RoOriginateErrorW(E_FAIL, 0, NULL), void)
CALLER(by_language_exception, RoOriginateLanguageException(E_FAIL, NULL, NULL), void)
CALLER(by_transform, RoTransformError(E_ABORT, E_FAIL, NULL), void)
CALLER(by_transform_w, RoTransformErrorW(E_ABORT, E_FAIL, 0, NULL), void)
CALLER(by_capture_context, RoCaptureErrorContext(E_FAIL), void)
CALLER(by_propagate, stacksplice_propagate(E_FAIL, NULL), void)
CALLER(by_stacksplice_originate, stacksplice_originate(E_FAIL, "m", 1, NULL, NULL), void)
static NOINLINE void by_matching(void)
{
    IRestrictedErrorInfo *error = NULL;

    RoGetMatchingRestrictedErrorInfo(E_FAIL, &error);
    SetRestrictedErrorInfo(error);
    release(error);
}

static void (*const callers[])(void) = {
    by_originate,       by_originate_w, by_language_exception,    by_transform, by_transform_w,
    by_capture_context, by_propagate,   by_stacksplice_originate, by_matching,
};

FRESH_TEST(test_stack_begins_at_the_caller)
{
    NEEDS_NATIVE_FRAMES();
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        uintptr_t frames[ROOM];
        IRestrictedErrorInfo *error;

        RoClearError();
        callers[i]();
        error = take();
        assert_true(stack_of(error, frames) > 1);
        if (!within(frames[0], callers[i]))
            print_error("row %u\n", (unsigned)i);
        assert_true(within(frames[0], callers[i]));
        release(error);
    }
}

CALLER(capture_node, info->lpVtbl->CapturePropagationContext(info, NULL),
       ILanguageExceptionErrorInfo2 *info)

FRESH_TEST(test_node_has_the_stack_of_its_moment)
{
    uintptr_t frames[ROOM];
    IRestrictedErrorInfo *error;
    ILanguageExceptionErrorInfo2 *info, *node;

    NEEDS_NATIVE_FRAMES();
    by_originate();
    error = take();
    info = query(error, &IID_ILanguageExceptionErrorInfo2);
    capture_node(info);
    node = head_of(error);
    assert_true(stack_of(error, frames) > 1);
    assert_true(within(frames[0], by_originate));
    assert_true(stack_of(node, frames) > 1);
    assert_true(within(frames[0], capture_node));
    release(node);
    release(info);
    release(error);
}

/* ---- Stacks of language exceptions -----------------------------------------------------------*/

static const struct {
    uint32_t given, claimed;
    HRESULT hr;
    int used;
} provider_cases[] = {
    {5, 0, S_OK, 1},          {1, 0, S_OK, 1},
    {0, 0, S_OK, 0},   /* no frames: the thread's stack instead */
    {5, 0, E_FAIL, 0}, /* it failed */
    {5, 513, S_OK, 0}, /* it says that it stored more than there was room for */
    {5, 0xFFFFFFFF, S_OK, 0}, {5, 512, E_FAIL, 0},
    {5, 3, S_OK, 1},
};

FRESH_TEST(test_provider_frames_are_used_if_they_can_be)
{
    /* Without native frames the thread's own stack is one gap. */
    uint32_t fewest = has_native_frames() ? 2 : 1;

    for (size_t i = 0; i < 2 * COUNT_OF(provider_cases); i++) {
        size_t row = i / 2;
        int is_script = i % 2;
        uint32_t want =
            provider_cases[row].claimed ? provider_cases[row].claimed : provider_cases[row].given;
        uintptr_t frames[ROOM];
        IRestrictedErrorInfo *error;
        error_double x;
        uint32_t count;

        error_double_init(&x, is_script);
        x.has_stack = 1;
        x.frames = some_frames;
        x.frame_count = provider_cases[row].given;
        x.claimed = provider_cases[row].claimed;
        x.stack_hr = provider_cases[row].hr;
        error = originated_with(E_FAIL, &x);
        check_row(row, x.room, 512);
        count = stack_of(error, frames);
        if (provider_cases[row].used) {
            check_row(row, count, want);
            check_row(row, memcmp(frames, some_frames, want * sizeof *frames), 0);
        } else {
            check_row(row, count >= fewest && frames[0] != some_frames[0], 1);
        }
        release(error);
    }
}

FRESH_TEST(test_node_takes_the_frames_of_its_exception)
{
    uintptr_t frames[ROOM];
    IRestrictedErrorInfo *error;
    ILanguageExceptionErrorInfo2 *node;
    error_double x;

    error_double_init(&x, 0);
    x.has_stack = 1;
    x.frames = some_frames;
    x.frame_count = 5;
    RoOriginateError(E_FAIL, NULL);
    assert_int_equal(stacksplice_propagate(E_FAIL, error_double_unknown(&x)), S_OK);
    error = take();
    node = head_of(error);
    assert_int_equal(stack_of(node, frames), 5);
    assert_memory_equal(frames, some_frames, sizeof some_frames);
    release(node);
    release(error);
    assert_int_equal(x.outside, 1);
}

/* ---- Limits ----------------------------------------------------------------------------------*/

static const struct {
    uint32_t limit;
    HRESULT want;
} limit_cases[] = {
    {0, E_INVALIDARG}, {65536, E_INVALIDARG}, {UINT32_MAX, E_INVALIDARG}, {1, S_OK}, {65535, S_OK},
};

FRESH_TEST(test_max_frames_is_what_providers_are_asked_for)
{
    static uintptr_t many[70000];

    for (size_t i = 0; i < COUNT_OF(many); i++)
        many[i] = i + 1;
    for (size_t i = 0; i < COUNT_OF(limit_cases); i++) {
        IRestrictedErrorInfo *error;
        error_double x;
        uint32_t count = 0;

        assert_int_equal(stacksplice_set_max_frames(7), S_OK);
        check_row(i, stacksplice_set_max_frames(limit_cases[i].limit), limit_cases[i].want);
        error_double_init(&x, 1);
        x.has_stack = 1;
        x.frames = many;
        x.frame_count = COUNT_OF(many);
        error = originated_with(E_FAIL, &x);
        assert_int_equal(stacksplice_error_stack(UNKNOWN(error), 0, NULL, &count), S_FALSE);
        check_row(i, count, limit_cases[i].want == S_OK ? limit_cases[i].limit : 7);
        check_row(i, x.room, count);
        release(error);
    }
}

static const struct {
    uint32_t room;
    HRESULT want;
    uint32_t captured;
} room_cases[] = {
    {0, S_FALSE, 5}, /* the count is asked for */
    {1, S_FALSE, 1}, {4, S_FALSE, 4}, {5, S_OK, 5}, {100, S_OK, 5},
};

FRESH_TEST(test_error_stack_by_room)
{
    IRestrictedErrorInfo *error;
    error_double x;

    error_double_init(&x, 1);
    x.has_stack = 1;
    x.frames = some_frames;
    x.frame_count = 5;
    error = originated_with(E_FAIL, &x);
    for (size_t i = 0; i < COUNT_OF(room_cases); i++) {
        uintptr_t frames[100] = {0};
        uint32_t captured = 99;

        check_row(i, stacksplice_error_stack(UNKNOWN(error), room_cases[i].room, frames, &captured),
                  room_cases[i].want);
        check_row(i, captured, room_cases[i].captured);
        for (uint32_t at = 0; at < COUNT_OF(frames); at++)
            check_row(i, frames[at], at < room_cases[i].room && at < 5 ? some_frames[at] : 0);
    }
    release(error);
}

FRESH_TEST(test_accessors_check_their_arguments)
{
    IRestrictedErrorInfo *error;
    uint64_t thread = 0;
    HRESULT hr = E_ABORT;
    uint32_t count = 99;
    error_double x;
    IUnknown *foreign;

    error_double_init(&x, 1);
    foreign = error_double_unknown(&x);
    error = originated(E_FAIL);
    assert_int_equal(stacksplice_error_stack(NULL, 0, NULL, &count), E_POINTER);
    assert_int_equal(stacksplice_error_stack(UNKNOWN(error), 0, NULL, NULL), E_POINTER);
    assert_int_equal(stacksplice_error_stack(UNKNOWN(error), 1, NULL, &count), E_POINTER);
    assert_int_equal(stacksplice_error_stack(foreign, 0, NULL, &count), E_INVALIDARG);
    assert_int_equal(count, 99);
    assert_int_equal(stacksplice_error_thread(NULL, &thread), E_POINTER);
    assert_int_equal(stacksplice_error_thread(UNKNOWN(error), NULL), E_POINTER);
    assert_int_equal(stacksplice_error_thread(foreign, &thread), E_INVALIDARG);
    assert_int_equal(stacksplice_error_thread(UNKNOWN(error), &thread), S_OK);
    assert_int_equal(thread, (uint64_t)syscall(SYS_gettid));
    assert_int_equal(stacksplice_error_hresult(NULL, &hr), E_POINTER);
    assert_int_equal(stacksplice_error_hresult(UNKNOWN(error), NULL), E_POINTER);
    assert_int_equal(stacksplice_error_hresult(foreign, &hr), E_INVALIDARG);
    assert_int_equal(hr, E_ABORT);
    assert_int_equal(stacksplice_error_hresult(UNKNOWN(error), &hr), S_OK);
    assert_int_equal(hr, E_FAIL);
    release(error);
}

/* ---- A longer stack later ---------------------------------------------------------------------*/

FRESH_TEST(test_a_stack_grows)
{
    uintptr_t before[ROOM], longer[ROOM] = {0x9009}, after[ROOM];
    char strict[33], again[33];
    IRestrictedErrorInfo *error;
    uint32_t count, captured = 0;

    error = originated(E_FAIL);
    count = stack_of(error, before);
    assert_int_equal(stacksplice_fingerprint(UNKNOWN(error), strict), S_OK);
    memcpy(longer + 1, before, count * sizeof *before);
    assert_int_equal(stacksplice_error_lengthen(UNKNOWN(error), longer, count + 1), S_OK);
    assert_int_equal(stack_of(error, after), count + 1);
    assert_memory_equal(after, longer, (count + 1) * sizeof *after);
    assert_int_equal(stacksplice_error_captured(UNKNOWN(error), ROOM, after, &captured), S_OK);
    assert_int_equal(captured, count);
    assert_memory_equal(after, before, count * sizeof *before);
    assert_int_equal(stacksplice_fingerprint(UNKNOWN(error), again), S_OK);
    assert_string_equal(again, strict);
    release(error);
}

static int copy_reason(const stacksplice_frame *frame, void *text)
{
    (void)snprintf(text, 128, "%s", frame->kind == STACKSPLICE_FRAME_GAP ? frame->reason : "");
    return 0;
}

FRESH_TEST(test_a_stack_grows_within_bounds)
{
    uintptr_t frames[ROOM] = {0x9009};
    IRestrictedErrorInfo *error = originated(E_FAIL);
    uint32_t count = stack_of(error, frames), grown = 0;
    char last[128] = "";

    assert_int_equal(stacksplice_error_lengthen(NULL, frames, 1), E_POINTER);
    assert_int_equal(stacksplice_error_lengthen(UNKNOWN(error), NULL, 1), E_POINTER);
    assert_int_equal(stacksplice_error_captured(UNKNOWN(error), 1, NULL, &count), E_POINTER);
    count = stack_of(error, frames);
    assert_int_equal(stacksplice_error_lengthen(UNKNOWN(error), frames, count - 1), S_FALSE);
    while (stacksplice_error_lengthen(UNKNOWN(error), frames, count) == S_OK)
        grown++;
    assert_int_equal(grown, 100);
    assert_int_equal(stack_of(error, frames), count + 1);
    assert_int_equal(stacksplice_resolve(frames[count], copy_reason, last), S_OK);
    assert_string_equal(last, "what the error passed later is not known: its stack grew too often");
    release(error);
}

GROUP(NULL, fresh)
