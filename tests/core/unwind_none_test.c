/* A build that knows no native frames: it says so, and script frames come behind that. */
#include "frames.h"
#include "support.h"

#include <stacksplice/source.h>

#include <stdbool.h>

static uintptr_t token;

static void collect(stacksplice_walk *walk, void *data)
{
    if (walk->truncated && stacksplice_walk_splice(walk, walk->frame_count, 0))
        (void)stacksplice_walk_push(walk, token);
}

static int check_gap(const stacksplice_frame *frame, void *data)
{
    assert_int_equal(frame->kind, STACKSPLICE_FRAME_GAP);
    assert_non_null(strstr(frame->reason, "not supported"));
    *(bool *)data = true;
    return 1;
}

TEST(test_capture_without_native_frames_says_so)
{
    static const stacksplice_source source = {SOURCE, .language = "test", .identity = &source,
                                              .collect = collect};
    stacksplice_token_info info = {SCRIPT_TOKEN, .language = "test", .function = "f"};
    bool is_gap = false;
    uintptr_t frames[8];
    uint32_t count;

    assert_int_equal(stacksplice_add_source(&source), S_OK);
    assert_int_equal(stacksplice_intern(&info, &token), S_OK);
    assert_int_equal(stacksplice_capture(0, 8, frames, &count, NULL), S_OK);
    assert_int_equal(count, 2);
    (void)stacksplice_resolve(frames[0], check_gap, &is_gap);
    assert_true(is_gap);
    assert_true(frames[1] == token);
    assert_int_equal(RtlCaptureStackBackTrace(0, 8, (void **)frames, NULL), 0);
}
