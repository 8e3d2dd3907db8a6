/* Crashes by signals: what happened in words, the report, and the handler. */
#include "crash/crash.h"

#include "base/thread.h"
#include "crash/context.h"
#include "report/visit.h"
#include "splice/scratch.h"
#include "splice/token.h"
#include "unwind/modules.h"
#include "unwind/stack.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stacksplice/crash.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- The alternate stacks of threads, on which they report that their own is used up ---------*/

/* Touched only as far as it is used: for the kernel's frame and a capture. */
enum { ALTERNATE_SIZE = 64 << 10 };

static pthread_key_t key; /* (RO) its destructor unmaps a thread's stack */
static bool have_key;     /* (RO) */

static size_t guard_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Late in a thread's life: it crashes on its own stack from here on. */
static void thread_ends(void *memory)
{
    const stack_t none = {.ss_flags = SS_DISABLE};
    stack_t now;

    if (sigaltstack(NULL, &now) != 0 || now.ss_flags & SS_ONSTACK)
        return;
    if ((char *)now.ss_sp == (char *)memory + guard_size() && sigaltstack(&none, NULL) != 0)
        return;
    (void)munmap(memory, guard_size() + ALTERNATE_SIZE);
}

static __attribute__((constructor)) void begin(void)
{
    have_key = pthread_key_create(&key, thread_ends) == 0;
}

/* Without a key the stack of each thread that ends would leak. */
static bool map_stack(void)
{
    size_t size = guard_size() + ALTERNATE_SIZE;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_size = ALTERNATE_SIZE};

    if (memory == MAP_FAILED)
        return false;
    stack.ss_sp = memory + guard_size();
    if (mprotect(memory, guard_size(), PROT_NONE) == 0 && have_key &&
        pthread_setspecific(key, memory) == 0) {
        if (sigaltstack(&stack, NULL) == 0)
            return true;
        (void)pthread_setspecific(key, NULL);
    }
    (void)munmap(memory, size);
    return false;
}

static atomic_bool are_in_handlers; /* (ATOMIC) */

void ss_captures_prepare(void)
{
    uintptr_t frame;
    uint32_t captured;

    atomic_store(&are_in_handlers, true);
    (void)stacksplice_capture(0, 1, &frame, &captured, NULL);
}

int stacksplice_captures_in_handlers(void)
{
    return atomic_load(&are_in_handlers);
}

stacksplice_hresult stacksplice_crash_thread(void)
{
    stack_t now;

    ss_captures_prepare();
    /* The memory of tokens exists from the first token on. */
    ss_scratch_prepare();
    ss_token_prepare();
    ss_faults_unblock();
    if (sigaltstack(NULL, &now) == 0 && !(now.ss_flags & SS_DISABLE))
        return S_FALSE;
    return map_stack() ? S_OK : E_OUTOFMEMORY;
}

/* ---- A signal in words -----------------------------------------------------------------------*/

enum { FAULT_KINDS = 6, FAULT_MESSAGE_MAX = 128 };

typedef struct fault_kind {
    const char *name;         /* "SIGSEGV" */
    const WCHAR *description; /* as the system's texts of HRESULTs, with "\r\n" */
    int number;
    HRESULT hresult; /* of the exception that Windows has for it */
} fault_kind;

/* One of the signals above where it struck. */
typedef struct struck {
    const fault_kind *kind;
    siginfo_t info;
    uintptr_t pc, sp;
    uintptr_t place; /* where the stack begins: PC, or its caller when there is no code at PC */
} struck;

/* HRESULT_FROM_NT */
#define OF_STATUS(status) ((HRESULT)((status) | 0x10000000u))

static const fault_kind fault_kinds[FAULT_KINDS] = {
    {"SIGSEGV", u"Segmentation fault\r\n", SIGSEGV, OF_STATUS(0xC0000005u)},
    {"SIGBUS", u"Bus error\r\n", SIGBUS, OF_STATUS(0xC0000006u)},
    {"SIGFPE", u"Arithmetic exception\r\n", SIGFPE, OF_STATUS(0xC0000094u)},
    {"SIGILL", u"Illegal instruction\r\n", SIGILL, OF_STATUS(0xC000001Du)},
    {"SIGABRT", u"Aborted\r\n", SIGABRT, OF_STATUS(0xC0000409u)},
    {"SIGSYS", u"Bad system call\r\n", SIGSYS, OF_STATUS(0xC000001Cu)},
};

static const struct {
    int number, code;
    const char *text; /* a blank at its end: the address follows */
} causes[] = {
    {SIGSEGV, SEGV_MAPERR, "no memory at address "},
    {SIGSEGV, SEGV_ACCERR, "memory does not allow this access at address "},
    {SIGSEGV, SI_KERNEL, "access to an address that no memory can have"},
    {SIGBUS, BUS_ADRALN, "misaligned access to address "},
    {SIGBUS, BUS_ADRERR, "nothing behind the mapped address "},
    {SIGBUS, BUS_OBJERR, "hardware error at address "},
    {SIGFPE, FPE_INTDIV, "integer division by zero"},
    {SIGFPE, FPE_INTOVF, "integer overflow"},
    {SIGFPE, FPE_FLTDIV, "floating-point division by zero"},
    {SIGFPE, FPE_FLTOVF, "floating-point overflow"},
    {SIGFPE, FPE_FLTUND, "floating-point underflow"},
    {SIGFPE, FPE_FLTRES, "inexact floating-point result"},
    {SIGFPE, FPE_FLTINV, "invalid floating-point operation"},
    {SIGILL, ILL_ILLOPC, "illegal instruction"},
    {SIGILL, ILL_ILLOPN, "illegal operand of an instruction"},
    {SIGILL, ILL_PRVOPC, "privileged instruction"},
};

static bool was_sent(const struck *fault)
{
    return fault->info.si_code <= 0;
}

/* Whether the signal has an address. */
static bool has_address(const struck *fault)
{
    int number = fault->kind->number;

    return !was_sent(fault) && number != SIGABRT && number != SIGSYS &&
           fault->info.si_code != SI_KERNEL;
}

/*
 * Whether the thread has used up its stack.  All memory between the stack pointer and the end of a
 * frame is there as long as the stack has room.
 */
static bool is_overflow(const struck *fault)
{
    const uintptr_t most = (uintptr_t)64 << 10; /* of one frame, or behind the stack pointer */
    uintptr_t address = (uintptr_t)fault->info.si_addr;
    ss_range stack;

    return fault->kind->number == SIGSEGV && has_address(fault) && address + most >= fault->sp &&
           address < fault->sp + most &&
           (ss_stack_find(fault->sp, &stack) || ss_stack_find_overflown(fault->sp, &stack));
}

static void put_sender(const struck *fault, ss_writer *w)
{
    if (fault->info.si_pid != getpid()) {
        ss_writer_text(w, "sent by process ");
        ss_writer_decimal(w, (uint64_t)fault->info.si_pid);
    } else {
        ss_writer_text(w, fault->kind->number == SIGABRT ? "the process aborted itself"
                                                         : "the process sent it to itself");
    }
}

static void put_cause(const struck *fault, ss_writer *w)
{
    const char *text = "unknown cause";

    for (size_t i = 0; i < SS_COUNT_OF(causes); i++)
        if (causes[i].number == fault->kind->number && causes[i].code == fault->info.si_code)
            text = causes[i].text;
    ss_writer_text(w, text);
    if (text[strlen(text) - 1] == ' ') {
        ss_writer_text(w, "0x");
        ss_writer_hex(w, (uintptr_t)fault->info.si_addr, 1);
    }
}

/* Write what happened, such as "no memory at address 0x8".  Signal safe. */
static void put_message(const struck *fault, char message[FAULT_MESSAGE_MAX])
{
    static ss_writer w; /* (THREAD reporter) large */
    ss_kept_text text = {message, FAULT_MESSAGE_MAX, 0};

    *message = 0;
    ss_writer_init(&w, ss_writer_keep, &text);
    if (was_sent(fault)) {
        put_sender(fault, &w);
    } else if (fault->kind->number == SIGSYS) {
        ss_writer_text(&w, "system call ");
        ss_writer_decimal(&w, (uint64_t)fault->info.si_syscall);
        ss_writer_text(&w, " is not allowed");
    } else if (fault->place != fault->pc) {
        ss_writer_text(&w, "there is no function at address 0x");
        ss_writer_hex(&w, fault->pc, 1);
    } else if (is_overflow(fault)) {
        ss_writer_text(&w, "the stack is used up");
    } else {
        put_cause(fault, &w);
    }
    (void)ss_writer_finish(&w);
}

/* ---- The report: a list of steps, of which one that faults or takes too long is given up -----*/

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { FRAMES_MAX = 512, SECONDS_PER_STEP = 10 };

ss_crash_choice ss_handler_choice = {.thread_timeout = SS_CRASH_THREAD_TIMEOUT};
atomic_bool ss_handler_is_on;

/* (THREAD reporter) all of it: large, and needed when the stack is used up */
static struck fault;
static ss_context crashed;
static const void *handler, *return_address;
static uintptr_t frames[FRAMES_MAX];
static uint32_t frame_count;
static char message[FAULT_MESSAGE_MAX];
static ss_facts crash_facts, current;
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

/* Whether INFO is of the watchdog, which interrupts a step that takes too long. */
static bool watchdog_sent(const siginfo_t *info)
{
    return info->si_code == SI_TIMER && info->si_value.sival_ptr == &timer;
}

/* ---- Steps on the stack of the handler -------------------------------------------------------*/

static void say_first(void)
{
    ss_first_words(fault.kind->hresult, fault.kind->name, handler);
}

static void capture(void)
{
    frame_count = ss_capture_interrupted(handler, return_address, fault.place, FRAMES_MAX, frames);
}

/* ---- Steps on a stack of our own -------------------------------------------------------------*/

static void begin_text(void)
{
    ss_writer_init(&out, ss_crash_write, &ss_crash_stderr);
}

/* Uses what was captured, or the native frames of the first words, or the one place known. */
static void make_facts(void)
{
    const uintptr_t *shown = frames;

    if (!frame_count) {
        (void)ss_first_words_facts(&crash_facts);
        shown = crash_facts.view.frames;
        frame_count = crash_facts.view.frame_count;
    }
    if (!frame_count) {
        frames[0] = fault.pc + 1;
        shown = frames;
        frame_count = 1;
    }
    ss_crash_facts(&crash_facts, fault.kind->hresult, ss_thread_id(), shown, frame_count);
    crash_facts.view.description = crash_facts.view.message = fault.kind->description;
    put_message(&fault, message);
    crash_facts.type = fault.kind->name;
    crash_facts.message = message;
    crash_facts.message_length = strlen(message);
}

static void tell_crash(void)
{
    make_facts();
    begin_text();
    ss_report_text(&text, &crash_facts);
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
    ss_emit_integer(e, "signal", fault.kind->number);
    ss_emit_integer(e, "signal_code", fault.info.si_code);
    if (has_address(&fault))
        ss_emit_hex(e, "fault_address", (uintptr_t)fault.info.si_addr, 1);
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
    const ss_crash_more more = {ss_handler_choice.directory, text.crashed_at,
                                is_short || !has_timer, put_header, put_members};

    begin_text();
    ss_writer_text(&out, "\n");
    ss_crash_write_file(&crash_facts, fault.kind->name, &more, &scratch, &out);
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

/* The other threads are asked early: one that goes on may end the process in its own way. */
static void (*const steps[])(void) = {
    say_first,        capture,      ss_threads_ask, tell_crash,      tell_current_error,
    ss_threads_await, tell_threads, write_file,     write_short_file};

enum { STEPS = SS_COUNT_OF(steps), LAST_RESORT = STEPS - 1 };

static volatile bool is_running; /* until then a fault of its own, or the watchdog, cut it */
static volatile unsigned next_step;

static void run_steps_until(unsigned end)
{
    while (next_step < end) {
        restart_watchdog(SECONDS_PER_STEP + ss_handler_choice.thread_timeout / 1000);
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
    ss_crash_on_own_stack(run_other_steps, NULL);
    is_running = false;
}

/*
 * Report the fault, as the reporter.  FRAME is the frame address of the signal handler, BACK its
 * return address.
 */
static void report_fault(const void *frame, const void *back)
{
    handler = frame;
    return_address = back;
    text.crashed_at = fault.place + 1;
    text.shorten = isatty(ss_crash_stderr);
    frame_count = 0;
    has_current = has_threads = is_short = false;
    next_step = 0;
    is_running = true;
    ss_threads_hold();
    begin_watchdog(fault.kind->number);
    run();
    end_watchdog();
}

/* Then: go on behind the step that faulted, or (LATE) that the watchdog interrupted. */
static void go_on_with_report(bool late)
{
    begin_text();
    ss_writer_text(&out, late ? "\nstacksplice: a part of the report took too long"
                              : "\nstacksplice: a fault interrupted the report");
    ss_writer_text(&out, "; continuing without it\n");
    ss_first_words_addresses(&out);
    run();
    end_watchdog();
}

/* ---- The handler -----------------------------------------------------------------------------*/

/* What was there before us, in the order of fault_kinds. */
static struct sigaction former_actions[FAULT_KINDS];

/* The last thread in which the former handler of a signal had its turn. */
static _Atomic uint64_t handed_over_in[FAULT_KINDS]; /* (ATOMIC) */

/* (THREAD reporter) */
static bool reported;
static bool is_ending; /* from the report on: the process is to end by that signal */

/* The process that the handler reports.  A child of vfork is another one in the same memory. */
static pid_t process;

static void begin_process(void)
{
    process = getpid();
    reported = is_ending = false;
    is_running = false;
}

static ss_fork_hook begin_in_child = {begin_process, NULL};

static __attribute__((constructor)) void begin_handler(void)
{
    begin_process();
    ss_fork_child(&begin_in_child);
}

static size_t kind_of(int number)
{
    size_t i = 0;

    while (i < FAULT_KINDS - 1 && fault_kinds[i].number != number)
        i++;
    return i;
}

static void handle_fault(int number, siginfo_t *info, void *context);

bool ss_handler_is_ours(const struct sigaction *action)
{
    return action->sa_flags & SA_SIGINFO && action->sa_sigaction == handle_fault;
}

/* Whether it is a function. */
static bool is_handler(const struct sigaction *action)
{
    return action->sa_flags & SA_SIGINFO ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

/* ---- After the report ------------------------------------------------------------------------*/

/* Whether the instruction will do it again. */
static bool is_fault(int number, const siginfo_t *info)
{
    bool can = number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL;

    return can && info->si_code > 0 && !(number == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

/*
 * Let the signal strike again where it struck, with all that the kernel said about it: when the
 * handler has returned, until when it is blocked.
 */
static void raise_again(int number, siginfo_t *info)
{
    if (is_fault(number, info))
        return;
    ss_signal_mask(SIG_BLOCK, number);
    if (syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), number, info) != 0)
        (void)raise(number);
}

/* The last thread that has set the default action. */
static _Atomic pid_t ended_in; /* (ATOMIC) not the cached id: a child of vfork has its parent's */

/* A filter of system calls may refuse the default action, or claim that it is set. */
static void end_by_default(int number, siginfo_t *info)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    pid_t me = (pid_t)syscall(SYS_gettid);

    ss_threads_let_go(); /* what faulted may be right by now */
    if (atomic_exchange(&ended_in, me) == me || sigaction(number, &plain, NULL) != 0)
        _exit(128 + number);
    raise_again(number, info);
}

/*
 * Give the signal to the former handler, or the default action.  One that is back here has been
 * there, or our turn came twice: two libraries that each call the other one would never end.
 */
static void hand_over(int number, siginfo_t *info)
{
    size_t kind = kind_of(number);

    if (atomic_exchange(&handed_over_in[kind], ss_thread_id()) == ss_thread_id()) {
        is_ending = reported;
        end_by_default(number, info);
        return;
    }
    if (sigaction(number, &former_actions[kind], NULL) != 0)
        _exit(128 + number);
    raise_again(number, info);
    if (is_handler(&former_actions[kind]) || is_fault(number, info)) {
        is_ending = false; /* the process may go on: that handler, or the memory is there now */
        ss_threads_let_go();
        ss_reporter_is_done();
    }
}

/* ---- The signal ------------------------------------------------------------------------------*/

/*
 * A call of an address without code has put only the return address on the stack.  No unwinder gets past a
 * function that is not there, so go back into the caller.  Returns the new place, or the old one.
 */
static uintptr_t leave_call(ucontext_t *context)
{
    uintptr_t back = ss_context_return_address(context);
    const uint8_t *low, *high;
    ss_module m;

    if (back && ss_module_find(back - 1, &m) == SS_MODULE_FOUND &&
        ss_module_segment(&m, back - 1, PF_X, &low, &high))
        ss_context_return(context, back - 1);
    return ss_context_pc(context);
}

static void note_fault(int number, const siginfo_t *info, ucontext_t *context)
{
    fault.kind = &fault_kinds[kind_of(number)];
    fault.info = *info;
    fault.pc = ss_context_pc(context);
    fault.sp = ss_context_sp(context);
    ss_context_save(context, &crashed);
    fault.place = fault.pc;
    if (number == SIGSEGV && has_address(&fault) && (uintptr_t)info->si_addr == fault.pc)
        fault.place = leave_call(context);
}

/* The watchdog sends the signal of the crash, too. */
static void set_signals(int number)
{
    ss_reporter_set_signals();
    ss_signal_mask(SIG_UNBLOCK, number);
}

/* A fault interrupted the report: complete it, and end as if the first signal had done it alone. */
static void end_cut_report(const siginfo_t *info, ucontext_t *context)
{
    set_signals(fault.kind->number);
    go_on_with_report(watchdog_sent(info));
    ss_reporter_reset_signals();
    ss_context_restore(context, &crashed);
    end_by_default(fault.kind->number, &fault.info);
}

/* Let the former handler try.  It has handled the signal if it leaves us in our place. */
static bool is_handled_by_former(int number, siginfo_t *info, void *context)
{
    const struct sigaction *former = &former_actions[kind_of(number)];
    struct sigaction now;

    if (!is_handler(former))
        return false;
    if (former->sa_flags & SA_SIGINFO)
        former->sa_sigaction(number, info, context);
    else
        former->sa_handler(number);
    if (sigaction(number, NULL, &now) != 0 || ss_handler_is_ours(&now))
        return true;
    ss_reporter_drop_signal(number); /* raised to end the process at once */
    atomic_store(&handed_over_in[kind_of(number)], ss_thread_id());
    return false;
}

/* Noinline: frames outside of this one are the program's. */
static SS_NOINLINE void handle_fault(int number, siginfo_t *info, void *context)
{
    int before = errno;
    ss_reporter who;

    if (getpid() != process) {
        end_by_default(number, info);
        return;
    }
    if (watchdog_sent(info) && !is_running)
        return; /* the report was complete just in time */
    if (atomic_load(&ss_handler_is_on) && ss_handler_choice.others_first && !is_running &&
        is_handled_by_former(number, info, context))
        return;
    who = atomic_load(&ss_handler_is_on) ? ss_reporter_become_waiting() : SS_REPORTER_OTHER;
    if (who == SS_REPORTER_AGAIN && is_running) {
        end_cut_report(info, context);
        return;
    }
    if (who == SS_REPORTER_AGAIN && is_ending)
        _exit(128 + fault.kind->number); /* a filter of system calls traps those of the end */
    if (who == SS_REPORTER_AGAIN)
        ss_crash_again(); /* of a fail fast; returns if its end is this signal */
    if (who == SS_REPORTER_NOW && !reported) {
        reported = is_ending = true;
        note_fault(number, info, context);
        set_signals(number);
        report_fault(SS_HERE(), __builtin_return_address(0));
        ss_reporter_reset_signals();
        ss_context_restore(context, &crashed);
    }
    hand_over(number, info);
    errno = before;
}

/* ---- In the place of others ------------------------------------------------------------------*/

void ss_handler_install(void)
{
    struct sigaction action, now;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = handle_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (size_t i = 0; i < FAULT_KINDS; i++) {
        int number = fault_kinds[i].number;

        if (sigaction(number, NULL, &now) != 0 || ss_handler_is_ours(&now) ||
            (!is_handler(&now) && now.sa_handler == SIG_IGN))
            continue;
        former_actions[i] = now;
        (void)sigaction(number, &action, NULL);
    }
}

void ss_handler_remove(void)
{
    struct sigaction now;

    for (size_t i = 0; i < FAULT_KINDS; i++) {
        if (sigaction(fault_kinds[i].number, NULL, &now) == 0 && ss_handler_is_ours(&now))
            (void)sigaction(fault_kinds[i].number, &former_actions[i], NULL);
    }
}
