/* The end of a process that fails: who reports it, its first words, its report. */
#include "crash/crash.h"

#include "base/stack_call.h"
#include "base/thread.h"
#include "com/messages.h"
#include "error/error.h"
#include "inspect/block.h"
#include "report/report.h"
#include "splice/splice.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- The reporter ----------------------------------------------------------------------------*/

enum { MOMENT_MS = 2, LONGEST_FOR_NOW_MS = 15000 };

static _Atomic uint64_t reporter; /* (ATOMIC) the thread that reports, 0: none */
static atomic_bool is_for_now;    /* (ATOMIC) its report is no end */

/* (THREAD reporter) */
static int cancel_before;
static bool again;    /* a fault ended the first report: write the short one */
static bool aborting; /* handlers of SIGABRT have run */

/* The reporting thread does not exist in a child, which may fail, too. */
static void forget_reporter(void)
{
    atomic_store(&is_for_now, false);
    atomic_store(&reporter, 0);
    again = aborting = false;
}

static ss_fork_hook forget_reporter_in_child = {forget_reporter, NULL};

static __attribute__((constructor)) void watch_forks(void)
{
    ss_fork_child(&forget_reporter_in_child);
}

/* Become the reporter if there is none. */
static ss_reporter ss_reporter_become(void)
{
    uint64_t now = 0, me = ss_thread_id();

    if (atomic_compare_exchange_strong(&reporter, &now, me))
        return SS_REPORTER_NOW;
    if (now != me)
        return SS_REPORTER_OTHER;
    return atomic_exchange(&is_for_now, false) ? SS_REPORTER_NOW : SS_REPORTER_AGAIN;
}

/* End the turn of a thread that reports for the moment only. */
static void depose(void)
{
    uint64_t now = atomic_load(&reporter);

    if (atomic_exchange(&is_for_now, false))
        (void)atomic_compare_exchange_strong(&reporter, &now, 0);
}

ss_reporter ss_reporter_become_waiting(void)
{
    const struct timespec moment = {0, MOMENT_MS * 1000 * 1000};
    ss_reporter who;

    for (int waited = 0; (who = ss_reporter_become()) == SS_REPORTER_OTHER; waited += MOMENT_MS) {
        if (waited == LONGEST_FOR_NOW_MS)
            depose();
        (void)nanosleep(&moment, NULL);
    }
    return who;
}

void ss_reporter_become_for_now(void)
{
    (void)ss_reporter_become_waiting();
    atomic_store(&is_for_now, true);
}

void ss_reporter_is_done(void)
{
    uint64_t me = ss_thread_id();

    if (atomic_load(&reporter) != me)
        return;
    atomic_store(&is_for_now, false);
    (void)atomic_compare_exchange_strong(&reporter, &me, 0);
}

void ss_reporter_set_signals(void)
{
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_before);
    ss_signal_mask(SIG_BLOCK, SIGPIPE);
    ss_signal_mask(SIG_BLOCK, SIGXFSZ);
    ss_faults_unblock();
}

void ss_reporter_drop_signal(int number)
{
    const struct timespec at_once = {0, 0};
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, number);
    while (sigtimedwait(&signals, NULL, &at_once) == number)
        continue;
}

void ss_reporter_reset_signals(void)
{
    ss_reporter_drop_signal(SIGPIPE);
    ss_reporter_drop_signal(SIGXFSZ);
    (void)pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
    (void)pthread_setcancelstate(cancel_before, NULL);
}

/* ---- First words -----------------------------------------------------------------------------*/

enum { FRAMES_MAX = 32 };

/* (THREAD reporter) */
static ss_writer first_writer;
static HRESULT first_hr;
static const char *first_event = "an unknown event";
static uintptr_t first_frames[FRAMES_MAX];
static uint32_t first_count;

void ss_first_words(HRESULT hr, const char *event, const void *above)
{
    first_hr = hr;
    first_event = event;
    first_count = 0;
    ss_writer_init(&first_writer, ss_crash_write, &ss_crash_stderr);
    ss_writer_text(&first_writer, "stacksplice: fatal error: ");
    ss_writer_text(&first_writer, event);
    ss_writer_text(&first_writer, " 0x");
    ss_writer_hex(&first_writer, (uint32_t)hr, 8);
    ss_writer_text(&first_writer, "\n");
    (void)ss_writer_finish(&first_writer); /* before the walk, since the stack may be damaged */
    first_count = ss_capture_native(above, 0, FRAMES_MAX, first_frames, NULL);
    if (!atomic_load(&ss_handler_is_on)) /* nothing of ours catches a fault in the report */
        ss_first_words_addresses(&first_writer);
}

void ss_first_words_addresses(ss_writer *w)
{
    ss_writer_text(w, "stacksplice: native frames:");
    for (uint32_t i = 0; i < first_count; i++) {
        ss_writer_text(w, " 0x");
        ss_writer_hex(w, first_frames[i], 1);
    }
    ss_writer_text(w, first_count ? "\n" : " unknown\n");
    (void)ss_writer_finish(w);
}

void ss_crash_facts(ss_facts *facts, HRESULT hr, uint64_t thread_id, const uintptr_t *frames,
                    uint32_t count)
{
    ss_error_view *view = &facts->view;
    uint32_t length;

    memset(facts, 0, sizeof *facts);
    view->hresult = hr;
    view->description = view->message = ss_message_text(hr, &length);
    view->thread_id = thread_id;
    view->frames = frames;
    view->frame_count = count;
    facts->frames_left_out = stacksplice_frames_left_out(frames, count);
    facts->language = ss_stack_language(frames, count, facts->stack_language);
}

const char *ss_first_words_facts(ss_facts *facts)
{
    ss_crash_facts(facts, first_hr, ss_thread_id(), first_frames, first_count);
    /* 0 frames: the fault came from a capture, or interrupted one. */
    facts->frames_left_out = first_count == 0 || first_count == FRAMES_MAX;
    return first_event;
}

/* ---- For readers of a core file --------------------------------------------------------------*/

/* Without an object, one that no other knows has what is known. */
static void tell_debuggers(const ss_facts *facts)
{
    static ss_error nameless;
    const ss_record *record = facts->view.identity;

    if (!facts->error) {
        nameless.record.fixed = (stacksplice_record){
            .signature = STACKSPLICE_RECORD_SIGNATURE,
            .version = STACKSPLICE_INSPECT_VERSION,
            .frame_count = facts->view.frame_count,
            .frame_size = sizeof *facts->view.frames,
            .frames = (uintptr_t)facts->view.frames,
            .thread_id = facts->view.thread_id,
            .hresult = facts->view.hresult,
        };
        nameless.record.error = &nameless;
        record = &nameless.record;
    }
    ss_inspection.failed = (uintptr_t)&record->error->record.fixed;
}

/* ---- The report ------------------------------------------------------------------------------*/

enum { OWN_FRAMES_MAX = 512, STACK_SIZE = 64 << 10 };

/* (THREAD reporter) large, and this may be the end of a stack */
static ss_binary scratch;
static ss_writer stderr_writer;
static ss_facts facts_made;
static uintptr_t frames_taken[OWN_FRAMES_MAX];
static _Alignas(16) char stacks[2][STACK_SIZE];
static unsigned turn; /* which of them is next */

/* ---- The end ---------------------------------------------------------------------------------*/

/* Raise SIGABRT without a handler: abort() would call the handler, and the handler us, forever. */
__attribute__((noreturn)) static void abort_at_once(void)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};

    (void)sigaction(SIGABRT, &plain, NULL);
    ss_signal_mask(SIG_UNBLOCK, SIGABRT);
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
    ss_threads_let_go();
    abort();
}

void ss_crash_on_own_stack(void (*f)(void *), void *data)
{
    if (!ss_stack_call(stacks[turn++ % 2] + STACK_SIZE, f, data))
        f(data);
}

typedef struct contents {
    const ss_facts *facts;
    const char *event;
} contents;

static void put_report(void *data)
{
    const contents *c = data;
    ss_report report = {
        .w = &stderr_writer, .failfast = &scratch, .shorten = isatty(ss_crash_stderr)};

    tell_debuggers(c->facts);
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
    if (atomic_load(&ss_handler_is_on))
        ss_first_words_addresses(&stderr_writer);
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
        ss_crash_on_own_stack(put_short_report, NULL);
    }
    end_process();
}

/* Returns only once per process. */
static void begin(HRESULT hr, const char *event, const void *above)
{
    if (ss_reporter_become_waiting() == SS_REPORTER_NOW) {
        ss_threads_hold();
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

    ss_crash_on_own_stack(put_report, &c);
    end_process();
}

void ss_crash(const ss_facts *facts, const char *event, const void *above)
{
    begin(facts->view.hresult, event, above);
    report_and_end(facts, event);
}

/* ---- RoFailFastWithErrorContext --------------------------------------------------------------*/

static void find_error(void *found)
{
    IRestrictedErrorInfo *error = NULL;

    *(bool *)found = stacksplice_peek_error(&error) == S_OK &&
                     ss_facts_get((IUnknown *)error, &facts_made) &&
                     facts_made.view.hresult == first_hr;
}

/* Noinline: the caller's frame must be the first shown. */
SS_NOINLINE void RoFailFastWithErrorContext(HRESULT hr)
{
    static const char event[] = "RoFailFastWithErrorContext";
    bool found = false;
    uint32_t count = 0;

    begin(hr, event, SS_HERE());
    ss_crash_on_own_stack(find_error, &found);
    if (!found) {
        (void)stacksplice_capture_ends(SS_HERE(), 0, OWN_FRAMES_MAX, frames_taken, &count);
        ss_crash_facts(&facts_made, hr, ss_thread_id(), frames_taken, count);
    }
    report_and_end(&facts_made, event);
}
