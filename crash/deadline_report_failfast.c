/*
 * Uses no heap and no lock of the host, as the report of a crash: a thread may hang because of such
 * a lock, or while it holds one.
 */
#include "crash/deadlines.h"

#include "com/messages.h"
#include "crash/crash.h"
#include "crash/fault.h"
#include "crash/threads.h"
#include "report/json.h"
#include "splice/token.h"

#include <string.h>

enum { MESSAGE_MAX = 160, MISSED = (int)0x800705B4u /* HRESULT_FROM_WIN32(ERROR_TIMEOUT) */ };

/* How many missed deadlines are reported: a report stops every thread for a moment, and stays. */
enum { REPORTS_AT_ONCE = 60, SECONDS_PER_REPORT = 60 };

#define PER_REPORT ((int64_t)SECONDS_PER_REPORT * 1000 * 1000 * 1000)

/* (THREAD reporter) */
static int64_t used_until; /* each report uses one such time, the first of them ahead of it */
static uint64_t left_out;  /* how many were not reported since the last one that was */
static const ss_deadline *missed;
static char message[MESSAGE_MAX];
static ss_facts late;
static uintptr_t no_stack[1]; /* (RO) once it is prepared */
static ss_binary scratch;
static ss_writer out;
static ss_report text = {.w = &out, .failfast = &scratch};

static int drop_text(const char *bytes, size_t length, void *data)
{
    (void)bytes;
    (void)length;
    (void)data;
    return 0;
}

static void begin_text(void)
{
    ss_writer_init(&out, missed->flags & STACKSPLICE_DEADLINE_NO_TEXT ? drop_text : ss_crash_write,
                   &ss_crash_stderr);
}

/* Write "0.25 s" for 250. */
static void put_seconds(ss_writer *w, uint32_t milliseconds)
{
    char part[] = ".000";
    size_t length = sizeof part - 1;

    for (uint32_t i = 3, rest = milliseconds % 1000; i; i--, rest /= 10)
        part[i] = (char)('0' + rest % 10);
    while (length > 1 && part[length - 1] == '0')
        length--;
    ss_writer_decimal(w, milliseconds / 1000);
    ss_writer_put(w, part, length > 1 ? length : 0);
    ss_writer_text(w, " s");
}

static void make_message(void)
{
    ss_crash_text to = {message, 0, sizeof message};

    *message = 0;
    ss_writer_init(&out, ss_crash_append, &to);
    if (*missed->name) {
        ss_writer_text(&out, missed->name);
        ss_writer_text(&out, " has not ended within ");
    } else {
        ss_writer_text(&out, "the work of this thread has not ended within ");
    }
    put_seconds(&out, missed->milliseconds);
    (void)ss_writer_finish(&out);
}

void ss_deadline_report_prepare(void)
{
    no_stack[0] = ss_token_gap("native", "stack unknown: the thread has not answered in time");
    left_out = 0; /* those of the process that forked this one are not ours */
}

static void set_stack(ss_error_view *view)
{
    const ss_other_thread *thread = ss_threads_find(missed->thread_id);

    if (thread) {
        view->frames = thread->frames;
        view->frame_count = thread->count;
    } else {
        view->frames = no_stack;
        view->frame_count = 1;
    }
    view->frames_left_out = stacksplice_frames_left_out(view->frames, view->frame_count);
}

static void make_facts(void)
{
    ss_error_view *view = &late.view;
    uint32_t length;

    memset(&late, 0, sizeof late);
    make_message();
    view->hresult = MISSED;
    view->description = view->message = ss_message_text(MISSED, &length);
    view->thread_id = missed->thread_id;
    set_stack(view);
    late.type = "DeadlineExceeded";
    late.message = message;
    late.message_length = strlen(message);
    late.language = ss_stack_language(view->frames, view->frame_count, late.stack_language);
}

static void tell_left_out(void)
{
    if (!left_out)
        return;
    ss_writer_text(&out, "stacksplice: missed since the last report, without one: ");
    ss_writer_decimal(&out, left_out);
    ss_writer_text(&out, "\n");
}

static void tell(void)
{
    begin_text();
    ss_writer_text(&out, "stacksplice: a deadline was missed; the process goes on\n");
    tell_left_out();
    ss_report_text(&text, &late);
    ss_threads_tell(&text, missed->thread_id);
    (void)ss_writer_finish(&out);
}

/* ---- The file --------------------------------------------------------------------------------*/

static void put_header(ss_emit *e)
{
    ss_emit_integer(e, "deadline_milliseconds", missed->milliseconds);
    ss_emit_text(e, "deadline_name", *missed->name ? missed->name : NULL);
    ss_emit_integer(e, "deadlines_left_out", (int64_t)left_out);
}

static void put_members(const ss_report *r, ss_emit *e)
{
    ss_threads_put(r, e, missed->thread_id);
}

static const char *write_file(void)
{
    const ss_crash_more more = {ss_handler_directory(), 0, false, put_header, put_members};
    const char *path;

    if (missed->flags & STACKSPLICE_DEADLINE_NO_FILE)
        return NULL;
    begin_text();
    ss_writer_text(&out, "\n");
    path = ss_crash_write_file(&late, "deadline", &more, &scratch, &out);
    (void)ss_writer_finish(&out);
    return path;
}

/* ---- The report ------------------------------------------------------------------------------*/

static const char *report(void)
{
    const char *path;

    ss_threads_ask(ss_handler_choice.thread_timeout);
    make_facts();
    tell();
    path = write_file();
    left_out = 0;
    return path;
}

/* Said once, until the next report. */
static void tell_bound(void)
{
    if (left_out > 1)
        return;
    begin_text();
    ss_writer_text(&out, "stacksplice: more deadlines are missed than are reported: one in ");
    ss_writer_decimal(&out, SECONDS_PER_REPORT);
    ss_writer_text(&out, " s after the first ");
    ss_writer_decimal(&out, REPORTS_AT_ONCE);
    ss_writer_text(&out, "\n");
    (void)ss_writer_finish(&out);
}

/* So many at once, and one more for each such time since. */
static bool may_report(int64_t now)
{
    if (used_until < now)
        used_until = now;
    if (used_until + PER_REPORT > now + REPORTS_AT_ONCE * PER_REPORT) {
        left_out++;
        return false;
    }
    used_until += PER_REPORT;
    return true;
}

const char *ss_deadline_report(const ss_deadline *deadline, int64_t now)
{
    const uint32_t nothing = STACKSPLICE_DEADLINE_NO_TEXT | STACKSPLICE_DEADLINE_NO_FILE;
    const char *path = NULL;

    if ((deadline->flags & nothing) == nothing)
        return NULL;
    ss_reporter_become_for_now();
    missed = deadline;
    if (may_report(now))
        path = report();
    else
        tell_bound();
    ss_reporter_is_done();
    return path;
}
