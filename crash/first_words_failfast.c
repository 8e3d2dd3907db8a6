#include "crash/crash.h"

#include "base/thread.h"
#include "com/messages.h"
#include "splice/splice.h"

#include <string.h>

enum { FRAMES_MAX = 32 };

/* (THREAD reporter) */
static ss_writer writer;
static HRESULT first_hr;
static const char *first_event = "an unknown event";
static uintptr_t frames[FRAMES_MAX];
static uint32_t frame_count;

void ss_first_words(HRESULT hr, const char *event, const void *above)
{
    first_hr = hr;
    first_event = event;
    frame_count = 0;
    ss_writer_init(&writer, ss_crash_write, &ss_crash_stderr);
    ss_writer_text(&writer, "stacksplice: fatal error: ");
    ss_writer_text(&writer, event);
    ss_writer_text(&writer, " 0x");
    ss_writer_hex(&writer, (uint32_t)hr, 8);
    ss_writer_text(&writer, "\n");
    (void)ss_writer_finish(&writer); /* before the walk, since the stack may be damaged */

    frame_count = ss_capture_native(above, 0, FRAMES_MAX, frames, NULL);
    ss_writer_text(&writer, "stacksplice: native frames:");
    for (uint32_t i = 0; i < frame_count; i++) {
        ss_writer_text(&writer, " 0x");
        ss_writer_hex(&writer, frames[i], 1);
    }
    ss_writer_text(&writer, frame_count ? "\n" : " unknown\n");
    (void)ss_writer_finish(&writer);
}

const char *ss_first_words_facts(ss_facts *facts)
{
    ss_error_view *view = &facts->view;
    uint32_t length;

    memset(facts, 0, sizeof *facts);
    view->hresult = first_hr;
    view->description = view->message = ss_message_text(first_hr, &length);
    view->thread_id = ss_thread_id();
    view->frames = frames;
    view->frame_count = frame_count;
    /* 0 frames: the fault came from a capture, or interrupted one. */
    view->frames_left_out = frame_count == 0 || frame_count == FRAMES_MAX;
    facts->language = "native";
    return first_event;
}
