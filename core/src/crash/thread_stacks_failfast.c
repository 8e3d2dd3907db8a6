#include "crash/threads.h"

#include "report/visit.h"

#include <string.h>

static void tell_thread(const ss_report *r, uint32_t index, uint64_t except)
{
    const ss_other_thread *thread;
    bool answered = ss_threads_get(index, &thread);

    if (!thread->id || thread->id == except)
        return;
    ss_writer_text(r->w, answered ? "\nStack of thread " : "\nThread ");
    ss_writer_decimal(r->w, thread->id);
    ss_writer_text(r->w, " (");
    ss_writer_utf8(r->w, thread->name, strlen(thread->name), SS_ESCAPE_LINE);
    if (answered) {
        ss_writer_text(r->w, ", most recent call first):\n");
        ss_report_stack(r, (ss_shown_stack){thread->frames, NULL, thread->count, NULL, 0}, 4);
    } else {
        ss_writer_text(r->w, ") has not answered in time\n");
    }
}

void ss_threads_tell(const ss_report *r, uint64_t except)
{
    for (uint32_t i = 0; i < ss_threads_count(); i++)
        tell_thread(r, i, except);
    if (!ss_threads_are_known())
        ss_writer_text(r->w, "\nThe other threads are unknown.\n");
    if (ss_threads_left_out()) {
        ss_writer_text(r->w, "\n... ");
        ss_writer_decimal(r->w, ss_threads_left_out());
        ss_writer_text(r->w, " more threads\n");
    }
}

static void put_thread(const ss_report *r, ss_emit *e, uint32_t index, uint64_t except)
{
    const ss_other_thread *thread;
    bool answered = ss_threads_get(index, &thread);

    if (!thread->id || thread->id == except)
        return;
    ss_emit_begin(e, NULL, STACKSPLICE_OBJECT);
    ss_emit_integer(e, "thread_id", (int64_t)thread->id);
    ss_emit_text(e, "name", thread->name);
    ss_emit_boolean(e, "answered", answered);
    ss_visit_stack(r, e,
                   (ss_shown_stack){thread->frames, NULL, answered ? thread->count : 0, NULL, 0},
                   answered ? stacksplice_frames_left_out(thread->frames, thread->count) : 0);
    ss_emit_end(e, STACKSPLICE_OBJECT);
}

void ss_threads_put(const ss_report *r, ss_emit *e, uint64_t except)
{
    ss_emit_begin(e, "threads", STACKSPLICE_ARRAY);
    for (uint32_t i = 0; i < ss_threads_count(); i++)
        put_thread(r, e, i, except);
    ss_emit_end(e, STACKSPLICE_ARRAY);
    if (ss_threads_are_known())
        ss_emit_integer(e, "threads_left_out", ss_threads_left_out());
    else
        ss_emit_text(e, "threads_left_out", NULL);
}
