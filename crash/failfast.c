#include "crash/crash.h"

#include "base/stack_call.h"
#include "base/thread.h"
#include "com/messages.h"
#include "splice/splice.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OWN_FRAMES_MAX = 512, STACK_SIZE = 64 << 10 };

/* (THREAD reporter) large, and this may be the end of a stack */
static bool again;    /* a fault ended the first report: write the short one */
static bool aborting; /* handlers of SIGABRT have run */
static ss_binary scratch;
static ss_writer stderr_writer;
static ss_facts facts_made;
static uintptr_t frames_taken[OWN_FRAMES_MAX];
static _Alignas(16) char stacks[2][STACK_SIZE]; /* for the report and the short report */

/* The reporting thread does not exist in a child, which may fail, too. */
static void forget_report(void)
{
    again = aborting = false;
}

static ss_fork_hook forget_report_in_child = {forget_report, NULL};

static __attribute__((constructor)) void watch_forks(void)
{
    ss_fork_child(&forget_report_in_child);
}

/* ---- The end ---------------------------------------------------------------------------------*/

/* Raise SIGABRT without a handler: abort() would call the handler, and the handler us, forever. */
__attribute__((noreturn)) static void abort_at_once(void)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t signals;

    (void)sigaction(SIGABRT, &plain, NULL);
    sigemptyset(&signals);
    sigaddset(&signals, SIGABRT);
    (void)pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    for (;;) {
        (void)raise(SIGABRT);
        _exit(128 + SIGABRT);
    }
}

/* Handlers of the host run first; when they return, the process still ends. */
__attribute__((noreturn)) static void end_process(void)
{
    if (aborting)
        abort_at_once();
    aborting = true;
    abort();
}

/* ---- Reports ---------------------------------------------------------------------------------*/

/* The thread's own stack may be nearly full, and alternate signal stacks are small. */
static void on_own_stack(void (*f)(void *), void *data)
{
    if (!ss_stack_call(stacks[again] + STACK_SIZE, f, data))
        f(data);
}

typedef struct contents {
    const ss_facts *facts;
    const char *event;
} contents;

static void put_report(void *data)
{
    const contents *c = data;
    ss_report report = {.w = &stderr_writer, .failfast = &scratch};

    ss_stow(c->facts);
    ss_writer_init(&stderr_writer, ss_crash_write, &ss_crash_stderr);
    ss_report_text(&report, c->facts);
    (void)ss_writer_finish(&stderr_writer);
    ss_writer_init(&stderr_writer, ss_crash_write, &ss_crash_stderr);
    ss_crash_write_file(c->facts, c->event, NULL, &scratch, &stderr_writer);
    (void)ss_writer_finish(&stderr_writer);
}

/* Follows no pointers to objects: one of them is damaged. */
static void put_short_report(void *data)
{
    contents c = {&facts_made, ss_first_words_facts(&facts_made)};

    (void)data;
    (void)ss_writer_finish(&stderr_writer); /* the first report's buffered rest */
    ss_writer_init(&stderr_writer, ss_crash_write, &ss_crash_stderr);
    ss_writer_text(
        &stderr_writer,
        "\nstacksplice: a fault interrupted the report; continuing without the error:\n");
    (void)ss_writer_finish(&stderr_writer);
    put_report(&c);
}

void ss_crash_again(void)
{
    if (aborting)
        return;
    if (!again) {
        again = true;
        ss_reporter_set_signals();
        on_own_stack(put_short_report, NULL);
    }
    end_process();
}

/* Returns only once per process. */
static void begin(HRESULT hr, const char *event, const void *above)
{
    if (ss_reporter_become_waiting() == SS_REPORTER_NOW) {
        ss_reporter_set_signals();
        ss_first_words(hr, event, above);
        return;
    }
    ss_crash_again();
    end_process();
}

__attribute__((noreturn)) static void report_and_end(const ss_facts *facts, const char *event)
{
    contents c = {facts, event};

    on_own_stack(put_report, &c);
    end_process();
}

void ss_crash(const ss_facts *facts, const char *event, const void *above)
{
    begin(facts->view.hresult, event, above);
    report_and_end(facts, event);
}

/* ---- RoFailFastWithErrorContext --------------------------------------------------------------*/

/* Fill the facts of an error for HR without an error object: needs no memory, see crash.h. */
static void make_facts(HRESULT hr, const void *above)
{
    ss_error_view *view = &facts_made.view;
    uint32_t count;

    memset(&facts_made, 0, sizeof facts_made);
    view->hresult = hr;
    view->description = view->message = ss_message_text(hr, &count);
    view->thread_id = ss_thread_id();
    view->frames = frames_taken;
    (void)ss_capture_ends(above, 0, OWN_FRAMES_MAX, frames_taken, &count);
    view->frame_count = count;
    view->frames_left_out = stacksplice_frames_left_out(frames_taken, count);
    facts_made.language = ss_stack_language(frames_taken, count, facts_made.stack_language);
}

typedef struct wanted {
    HRESULT hr;
    bool found;
} wanted;

static void find_error(void *data)
{
    wanted *w = data;
    IRestrictedErrorInfo *error = NULL;

    w->found = stacksplice_peek_error(&error) == S_OK &&
               ss_facts_get((IUnknown *)error, &facts_made) && facts_made.view.hresult == w->hr;
}

/* Noinline: the caller's frame must be the first shown. */
SS_NOINLINE void RoFailFastWithErrorContext(HRESULT hr)
{
    static const char event[] = "RoFailFastWithErrorContext";
    wanted w = {hr, false};

    begin(hr, event, SS_HERE());
    on_own_stack(find_error, &w);
    if (!w.found)
        make_facts(hr, SS_HERE());
    report_and_end(&facts_made, event);
}
