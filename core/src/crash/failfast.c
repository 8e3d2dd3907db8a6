#include "crash/crash.h"

#include "base/thread.h"
#include "com/messages.h"
#include "crash/stowed.h"
#include "splice/splice.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OWN_FRAMES_MAX = 512 };

static _Atomic uint64_t reporter; /* (ATOMIC) the thread that reports, 0: none */

/* (THREAD reporter) large, and this may be the end of a stack */
static ss_binary scratch;
static ss_writer stderr_writer;
static ss_facts facts_made;
static uintptr_t frames_taken[OWN_FRAMES_MAX];

int ss_crash_write(const char *text, size_t length, void *data)
{
    const int *file = data;

    while (length) {
        ssize_t done = write(*file, text, length);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return 1;
        text += done;
        length -= (size_t)done;
    }
    return 0;
}

static void put_report(const ss_facts *facts, const char *event)
{
    ss_report report = {&stderr_writer, STACKSPLICE_ORDER_NEWEST_FIRST, false, false, false,
                        &scratch};
    int file = STDERR_FILENO;

    ss_writer_init(&stderr_writer, ss_crash_write, &file);
    ss_writer_text(&stderr_writer, "stacksplice: fatal error: ");
    ss_writer_text(&stderr_writer, event);
    ss_writer_text(&stderr_writer, "\n");
    ss_report_text(&report, facts);
    (void)ss_writer_finish(&stderr_writer);
    ss_writer_init(&stderr_writer, ss_crash_write, &file);
    ss_crash_write_file(facts, event, &scratch, &stderr_writer);
    (void)ss_writer_finish(&stderr_writer);
}

/* The thread that reports is not in a child, which may fail, too. */
static void forget_reporter(void)
{
    atomic_store(&reporter, 0);
}

static ss_fork_hook forget_reporter_in_child = {forget_reporter, NULL, false};

__attribute__((constructor)) static void watch_forks(void)
{
    ss_fork_child(&forget_reporter_in_child);
}

/* Returns in one thread only; in a thread that failed again while it reported, ends the process. */
static void become_reporter(void)
{
    uint64_t none = 0;

    if (atomic_compare_exchange_strong(&reporter, &none, ss_thread_id()))
        return;
    if (none == ss_thread_id())
        abort();
    for (;;)
        pause();
}

/* A reader of stderr that went away or a limit on files must not end the process before the rest.
 */
static void block_write_signals(void)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    sigaddset(&signals, SIGXFSZ);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

static void crash(const ss_facts *facts, const char *event)
{
    block_write_signals();
    ss_stow(facts);
    put_report(facts, event);
}

void ss_crash(const ss_facts *facts, const char *event)
{
    become_reporter();
    crash(facts, event);
    abort(); /* a handler of the host runs first; when it returns, the process still ends */
}

/* The facts of an error for HR that exists nowhere else: it needs no memory, see crash.h. */
static void make_facts(HRESULT hr, const void *above)
{
    ss_error_view *view = &facts_made.view;
    uint32_t count;

    view->hresult = hr;
    view->description = view->message = ss_message_text(hr, &count);
    view->thread_id = ss_thread_id();
    view->frames = frames_taken;
    view->frames_left_out =
        ss_capture(above, 0, OWN_FRAMES_MAX, frames_taken, &count, NULL) == S_FALSE;
    view->frame_count = count;
    facts_made.language = ss_stack_language(frames_taken, count);
}

/* Noinline: the caller's frame is the first that is shown. */
SS_NOINLINE void RoFailFastWithErrorContext(HRESULT hr)
{
    IRestrictedErrorInfo *error = NULL;
    static const char event[] = "RoFailFastWithErrorContext";

    become_reporter();
    if (stacksplice_peek_error(&error) != S_OK || !ss_facts_get((IUnknown *)error, &facts_made) ||
        facts_made.view.hresult != hr) {
        memset(&facts_made, 0, sizeof facts_made);
        make_facts(hr, SS_HERE());
    }
    crash(&facts_made, event);
    abort();
}
