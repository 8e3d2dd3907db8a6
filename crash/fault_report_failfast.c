#include "crash/fault.h"

#include "base/stack_call.h"
#include "base/thread.h"
#include "crash/crash.h"
#include "crash/threads.h"
#include "report/visit.h"
#include "splice/scratch.h"

#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { FRAMES_MAX = 512, STACK_SIZE = 64 << 10, SECONDS_PER_STEP = 10 };

/* (THREAD reporter) all of it: large, and needed when the stack is used up */
static const ss_fault *fault;
static const ss_crash_choice *choice;
static const void *handler, *return_address;
static uintptr_t frames[FRAMES_MAX];
static uint32_t frame_count;
static char message[SS_FAULT_MESSAGE_MAX];
static ss_facts crashed, current;
static bool has_current, has_threads; /* complete, so that the file may have it */
static bool is_short;
static ss_binary scratch;
static ss_writer out;
static ss_report text = {.w = &out, .failfast = &scratch};

/* ---- The watchdog ---------------------------------------------------------------------------*/

/* Interrupts a step that takes too long, such as a wait for a lock of the C library. */

/* (THREAD reporter) */
static int timer;               /* the kernel's number */
static volatile bool has_timer; /* a filter of system calls may interrupt one of them */

/* Send signal NUMBER to this thread if the watchdog is not restarted in time.  It may be unavailable.
   The system calls themselves: the C library's functions may allocate. */
static void begin_watchdog(int number)
{
    struct sigevent event;

    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = number;
    event.sigev_value.sival_ptr = &timer;
    event.sigev_notify_thread_id = (pid_t)ss_thread_id();
    has_timer = syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == 0;
}

static void restart_watchdog(uint32_t seconds)
{
    const struct itimerspec once = {.it_value = {.tv_sec = (time_t)seconds}};

    if (has_timer) {
        has_timer = false;
        has_timer = syscall(SYS_timer_settime, timer, 0, &once, NULL) == 0;
    }
}

static void end_watchdog(void)
{
    if (has_timer)
        (void)syscall(SYS_timer_delete, timer);
    has_timer = false;
}

bool ss_watchdog_sent(const siginfo_t *info)
{
    return info->si_code == SI_TIMER && info->si_value.sival_ptr == &timer;
}

/* ---- Steps on the stack of the handler -------------------------------------------------------*/

static void say_first(void)
{
    ss_first_words(fault->kind->hresult, fault->kind->name, handler);
}

static void capture(void)
{
    frame_count = ss_capture_interrupted(handler, return_address, fault->place, FRAMES_MAX, frames);
}

/* ---- Steps on a stack of our own -------------------------------------------------------------*/

static void begin_text(void)
{
    ss_writer_init(&out, ss_crash_write, &ss_crash_stderr);
}

/* Uses what was captured, or the native frames of the first words, or the one place known. */
static void make_facts(void)
{
    ss_error_view *view = &crashed.view;

    (void)ss_first_words_facts(&crashed);
    if (frame_count) {
        view->frames = frames;
        view->frame_count = frame_count;
    } else if (!view->frame_count) {
        frames[0] = fault->pc + 1;
        view->frames = frames;
        view->frame_count = 1;
    }
    view->hresult = fault->kind->hresult;
    view->description = view->message = fault->kind->description;
    view->frames_left_out = stacksplice_frames_left_out(view->frames, view->frame_count);
    ss_fault_message(fault, message);
    crashed.type = fault->kind->name;
    crashed.message = message;
    crashed.message_length = strlen(message);
    crashed.language = ss_stack_language(view->frames, view->frame_count, crashed.stack_language);
}

static void tell_crash(void)
{
    make_facts();
    begin_text();
    ss_report_text(&text, &crashed);
    (void)ss_writer_finish(&out);
}

static void tell_current_error(void)
{
    IRestrictedErrorInfo *error = NULL;

    if (stacksplice_peek_error(&error) != S_OK || !ss_facts_get((IUnknown *)error, &current))
        return;
    begin_text();
    ss_writer_text(&out, "\nCurrent error of this thread:\n");
    ss_report_text(&text, &current);
    (void)ss_writer_finish(&out);
    has_current = true;
}

static void ask_threads(void)
{
    ss_threads_ask(choice->thread_timeout);
}

static void tell_threads(void)
{
    begin_text();
    ss_threads_tell(&text, 0);
    (void)ss_writer_finish(&out);
    has_threads = true;
}

/* ---- The file --------------------------------------------------------------------------------*/

static void put_header(ss_emit *e)
{
    ss_emit_integer(e, "signal", fault->kind->number);
    ss_emit_integer(e, "signal_code", fault->info.si_code);
    if (ss_fault_has_address(fault))
        ss_emit_hex(e, "fault_address", (uintptr_t)fault->info.si_addr, 1);
}

static void put_members(const ss_report *r, ss_emit *e)
{
    if (has_current)
        ss_visit_error(r, e, "current_error", &current, NULL, 0);
    else
        ss_emit_text(e, "current_error", NULL);
    if (!has_threads)
        ss_threads_forget();
    ss_threads_put(r, e, 0);
}

static void write_file(void)
{
    const ss_crash_more more = {choice->has_directory ? choice->directory : NULL, text.crashed_at,
                                is_short || !has_timer, put_header, put_members};

    begin_text();
    ss_writer_text(&out, "\n");
    ss_crash_write_file(&crashed, fault->kind->name, &more, &scratch, &out);
    (void)ss_writer_finish(&out);
}

/* After a fault in the file: without what may have faulted, or waits for a lock. */
static void write_short_file(void)
{
    is_short = true;
    has_current = has_threads = false;
    write_file();
}

/* ---- In order --------------------------------------------------------------------------------*/

enum { FIRST_OF_OUR_STACK = 2 };

static void (*const steps[])(void) = {say_first,   capture,      tell_crash, tell_current_error,
                                      ask_threads, tell_threads, write_file, write_short_file};

enum { STEPS = SS_COUNT_OF(steps), LAST_RESORT = STEPS - 1 };

static volatile bool is_running;
static volatile unsigned next_step;
static unsigned faults;

/* A fault leaves a stack in use, if the thread has no alternate one: the next step takes the other.
 */
static _Alignas(16) char stacks[2][STACK_SIZE];

static void run_steps_until(unsigned end)
{
    while (next_step < end) {
        restart_watchdog(SECONDS_PER_STEP + choice->thread_timeout / 1000);
        steps[next_step++]();
    }
}

static void run_other_steps(void *unused)
{
    (void)unused;
    run_steps_until(next_step == LAST_RESORT ? STEPS : LAST_RESORT);
}

static void run(void)
{
    ss_scratch_abandon();
    run_steps_until(FIRST_OF_OUR_STACK);
    if (!ss_stack_call(stacks[faults % 2] + STACK_SIZE, run_other_steps, NULL))
        run_other_steps(NULL);
    is_running = false;
}

void ss_fault_report(const ss_fault *what, const ss_crash_choice *chosen, const void *frame,
                     const void *back)
{
    fault = what;
    choice = chosen;
    handler = frame;
    return_address = back;
    text.crashed_at = what->place + 1;
    frame_count = 0;
    has_current = has_threads = is_short = false;
    faults = 0;
    next_step = 0;
    is_running = true;
    begin_watchdog(what->kind->number);
    run();
    end_watchdog();
}

bool ss_fault_report_is_cut(void)
{
    return is_running;
}

void ss_fault_report_forget(void)
{
    is_running = false;
}

void ss_fault_report_go_on(bool late)
{
    faults++;
    begin_text();
    ss_writer_text(&out, late ? "\nstacksplice: a part of the report took too long"
                              : "\nstacksplice: a fault interrupted the report");
    ss_writer_text(&out, "; continuing without it\n");
    (void)ss_writer_finish(&out);
    run();
    end_watchdog();
}
