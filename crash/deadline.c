/* The deadlines that were begun and not yet ended, the thread that waits for them to pass, and its
   reports.  A report uses no heap and no lock of the host, as that of a crash: a thread may hang
   because of such a lock, or while it holds one. */
#include "crash/crash.h"

#include "base/thread.h"
#include "report/visit.h"
#include "splice/token.h"

#include <errno.h>
#include <stacksplice/deadline.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { NAME_SIZE = STACKSPLICE_DEADLINE_NAME_MAX + 1 };

typedef struct late_work {
    uint64_t thread_id;
    int64_t at; /* nanoseconds of CLOCK_MONOTONIC */
    uint32_t milliseconds, flags;
    void (*interrupt)(void *data);
    void *data;
    char name[NAME_SIZE]; /* ends with a NUL; "": none */
    int signal;           /* that asked for a report of all threads; 0: a deadline was missed */
} late_work;

/* ---- The report of one -----------------------------------------------------------------------*/

enum { MESSAGE_MAX = 160, ERROR_MISSED = (int)0x800705B4u /* HRESULT_FROM_WIN32(ERROR_TIMEOUT) */ };

/* How many missed deadlines are reported: a report stops every thread for a moment, and stays. */
enum { REPORTS_AT_ONCE = 60, SECONDS_PER_REPORT = 60 };

#define PER_REPORT ((int64_t)SECONDS_PER_REPORT * 1000 * 1000 * 1000)

/* (THREAD reporter) */
static int64_t used_until; /* each report uses one such time, the first of them ahead of it */
static uint64_t left_out;  /* how many were not reported since the last one that was */
static const late_work *missed;
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
    ss_kept_text to = {message, sizeof message, 0};

    *message = 0;
    ss_writer_init(&out, ss_writer_keep, &to);
    if (missed->signal) {
        ss_writer_text(&out, "signal ");
        ss_writer_decimal(&out, (uint64_t)missed->signal);
        ss_writer_text(&out, " asked for the stacks of all threads");
        (void)ss_writer_finish(&out);
        return;
    }
    ss_writer_text(&out, *missed->name ? missed->name : "this thread's work");
    ss_writer_text(&out, " did not finish within ");
    put_seconds(&out, missed->milliseconds);
    (void)ss_writer_finish(&out);
}

static void make_facts(void)
{
    const ss_other_thread *thread = ss_threads_find(missed->thread_id);

    ss_crash_facts(&late, missed->signal ? S_OK : ERROR_MISSED, missed->thread_id,
                   thread ? thread->frames : no_stack, thread ? thread->count : 1);
    make_message();
    late.type = missed->signal ? "ReportRequested" : "DeadlineExceeded";
    late.message = message;
    late.message_length = strlen(message);
}

static void tell(void)
{
    begin_text();
    ss_writer_text(&out, missed->signal
                             ? "stacksplice: a report was requested; the process continues\n"
                             : "stacksplice: deadline missed; the process continues\n");
    if (left_out) {
        ss_writer_text(&out, "stacksplice: missed since the last report, without one: ");
        ss_writer_decimal(&out, left_out);
        ss_writer_text(&out, "\n");
    }
    ss_report_text(&text, &late);
    ss_threads_tell(&text, missed->thread_id);
    (void)ss_writer_finish(&out);
}

/* ---- The file --------------------------------------------------------------------------------*/

static void put_header(ss_emit *e)
{
    if (!missed->signal) {
        ss_emit_integer(e, "deadline_milliseconds", missed->milliseconds);
        ss_emit_text(e, "deadline_name", *missed->name ? missed->name : NULL);
    }
    ss_emit_integer(e, "deadlines_left_out", (int64_t)left_out);
}

static void put_members(const ss_report *r, ss_emit *e)
{
    ss_threads_put(r, e, missed->thread_id);
}

static void write_file(void)
{
    const ss_crash_more more = {ss_handler_choice.directory, 0, false, put_header, put_members};

    if (missed->flags & STACKSPLICE_DEADLINE_NO_FILE)
        return;
    begin_text();
    ss_writer_text(&out, "\n");
    ss_crash_write_file(&late, missed->signal ? "report_on_signal" : "deadline", &more, &scratch,
                        &out);
    (void)ss_writer_finish(&out);
}

static void report(void)
{
    ss_threads_ask();
    ss_threads_await();
    make_facts();
    tell();
    write_file();
    left_out = 0;
}

/* Said once, until the next report. */
static void tell_bound(void)
{
    if (left_out > 1)
        return;
    begin_text();
    ss_writer_text(&out, missed->signal
                             ? "stacksplice: more reports are requested than are written: one in "
                             : "stacksplice: more deadlines are missed than are reported: one in ");
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

static void report_missed(const late_work *deadline, int64_t now)
{
    const uint32_t nothing = STACKSPLICE_DEADLINE_NO_TEXT | STACKSPLICE_DEADLINE_NO_FILE;

    if ((deadline->flags & nothing) == nothing)
        return;
    ss_reporter_become_for_now();
    missed = deadline;
    text.shorten = isatty(ss_crash_stderr);
    if (may_report(now))
        report();
    else
        tell_bound();
    ss_reporter_is_done();
}

enum {
    MOST_SLOTS = 16384,
    BETWEEN_INTERRUPTS = 20 * 1000 * 1000, /* nanoseconds */
    INTERRUPTED_BETWEEN = 16               /* that many; if more are late, each waits longer */
};

typedef enum state { FREE, ARMED, MISSED, INTERRUPTING } state;

typedef struct slot {
    late_work deadline;
    state state;
    uint32_t uses;      /* makes its numbers differ */
    uint32_t next_free; /* index + 1 */
} slot;

SS_LOCK(lock);
static slot slots[MOST_SLOTS];   /* (LOCK) touched only as far as it is used */
static uint32_t slot_count;      /* (LOCK) */
static uint32_t first_free;      /* (LOCK) index + 1 */
static uint32_t interrupting;    /* (LOCK) how many slots are in that state */
static int64_t watched_until;    /* (LOCK) when the watcher looks again by itself */
static _Atomic uint32_t changes; /* (ATOMIC) */

typedef enum watcher_state { NONE, STARTING, RUNNING } watcher_state;

static _Atomic watcher_state watcher; /* (ATOMIC) */
static atomic_bool is_reporting;      /* (ATOMIC) */

/* The signal that asked for a report, above 32 bits of the thread that got it; 0: none. */
static _Atomic uint64_t asked; /* (ATOMIC) */

static void make_free(uint32_t index)
{
    slot *s = &slots[index];

    if (s->state == INTERRUPTING)
        interrupting--;
    s->state = FREE;
    s->uses++;
    s->next_free = first_free;
    first_free = index + 1;
}

/* Only the forking thread is left: the others' deadlines would never end, nor are they watched. */
static void forget_all(void)
{
    atomic_store(&asked, 0);
    for (uint32_t i = 0; i < slot_count; i++) {
        if (slots[i].state != FREE)
            make_free(i);
    }
    watched_until = 0;
    atomic_store(&watcher, NONE);
    atomic_store(&is_reporting, false);
}

static ss_fork_hook forget_in_child = {forget_all, NULL};

static __attribute__((constructor)) void watch_forks(void)
{
    ss_fork_child(&forget_in_child);
}

/* ---- Slots -----------------------------------------------------------------------------------*/

static slot *find(stacksplice_deadline number, uint32_t *index)
{
    uint32_t at = (uint32_t)number - 1;
    slot *s = at < slot_count ? &slots[at] : NULL;

    *index = at;
    return s && s->state != FREE && s->uses == number >> 32 ? s : NULL;
}

static void put(const late_work *deadline, stacksplice_deadline *number, bool *wake)
{
    uint32_t index = first_free - 1;
    slot *s = &slots[index];

    first_free = s->next_free;
    s->deadline = *deadline;
    s->state = ARMED;
    *number = (uint64_t)s->uses << 32 | (index + 1);
    *wake = deadline->at < watched_until;
    if (*wake)
        atomic_fetch_add(&changes, 1);
}

/* Add a copy of DEADLINE.  Tells by WAKE whether the watcher must look again. */
static stacksplice_hresult add(const late_work *deadline, stacksplice_deadline *number, bool *wake)
{
    bool has_slot;

    if (!ss_lock_take(&lock))
        return E_ILLEGAL_METHOD_CALL; /* a signal handler interrupted one of these functions */
    if (!first_free && slot_count < MOST_SLOTS)
        make_free(slot_count++);
    has_slot = first_free != 0;
    if (has_slot)
        put(deadline, number, wake);
    ss_lock_drop(&lock);
    return has_slot ? S_OK : E_OUTOFMEMORY;
}

/* ---- What is due -----------------------------------------------------------------------------*/

/* Nothing armed: never. */
#define NEVER INT64_MAX

typedef enum due_for { DUE_NOTHING, DUE_MISSED, DUE_INTERRUPT } due_for;

/* The slot that is due first, or NULL. */
static slot *earliest(uint32_t *index)
{
    slot *first = NULL;

    for (uint32_t i = 0; i < slot_count; i++) {
        slot *s = &slots[i];

        if ((s->state == ARMED || s->state == INTERRUPTING) &&
            (!first || s->deadline.at < first->deadline.at)) {
            first = s;
            *index = i;
        }
    }
    return first;
}

/* What FIRST is due for, and when it will be due next. */
static due_for go_on(slot *first, int64_t now)
{
    if (first->state == INTERRUPTING) {
        first->deadline.at =
            now + BETWEEN_INTERRUPTS * (int64_t)(1 + interrupting / INTERRUPTED_BETWEEN);
        return DUE_INTERRUPT;
    }
    first->state = MISSED;
    return DUE_MISSED;
}

/*
 * Copy the earliest deadline that has passed at NOW to DEADLINE, once, and then again whenever its
 * thread is to be interrupted.  DUE_NOTHING: the watcher sleeps until *UNTIL, or until CHANGES is
 * not *SEEN.
 */
static due_for take_due(int64_t now, late_work *deadline, stacksplice_deadline *number,
                        int64_t *until, uint32_t *seen)
{
    due_for due = DUE_NOTHING;
    uint32_t index = 0;
    slot *first;

    if (!ss_lock_take(&lock))
        return due; /* never: no handler runs in the watcher */
    first = earliest(&index);
    if (first && first->deadline.at <= now) {
        due = go_on(first, now);
        *deadline = first->deadline;
        *number = (uint64_t)first->uses << 32 | (index + 1);
        watched_until = 0; /* the watcher looks again anyway */
    } else {
        watched_until = *until = first ? first->deadline.at : NEVER;
        *seen = atomic_load(&changes);
    }
    ss_lock_drop(&lock);
    return due;
}

/* From NOW on it is due to interrupt its thread, unless it has been removed. */
static void begin_interrupts(stacksplice_deadline number, int64_t now)
{
    uint32_t index;
    slot *s;

    if (!ss_lock_take(&lock))
        return;
    s = find(number, &index);
    if (s && s->state == MISSED) {
        s->state = INTERRUPTING;
        s->deadline.at = now;
        interrupting++;
    }
    ss_lock_drop(&lock);
}

/*
 * In its thread, in a signal handler: call its function, unless it has been removed.  Waits for
 * nothing: there will be another interrupt.
 */
static void interrupt_thread(stacksplice_deadline number)
{
    void (*interrupt)(void *data) = NULL;
    void *data = NULL;
    uint32_t index;
    slot *s;

    if (!ss_lock_try(&lock))
        return;
    s = find(number, &index);
    if (s && s->state == INTERRUPTING && s->deadline.thread_id == ss_thread_id()) {
        interrupt = s->deadline.interrupt;
        data = s->deadline.data;
    }
    ss_lock_drop(&lock);
    if (interrupt)
        interrupt(data);
}

/* ---- The watcher ---------------------------------------------------------------------------*/

/* More than a report needs. */
enum { STACK_SIZE = 256 << 10 };

#define EXIT_WAITS_FOR ((int64_t)5 * 1000 * 1000 * 1000)

static void miss(const late_work *deadline, stacksplice_deadline number)
{
    atomic_store(&is_reporting, true);
    report_missed(deadline, ss_now());
    atomic_store(&is_reporting, false);
    if (deadline->interrupt)
        begin_interrupts(number, ss_now());
}

/* The handler of a signal.  The watcher writes the report: here any lock may be held. */
static void ask_for_report(int number)
{
    static const char no_watcher[] =
        "stacksplice: no report: a fork has left the thread that writes it behind; call "
        "report_on_signal in the child\n";
    int error = errno;

    if (atomic_load(&watcher) == RUNNING) {
        atomic_store(&asked, (uint64_t)number << 32 | (uint32_t)ss_thread_id());
        atomic_fetch_add(&changes, 1);
        ss_wake_all(&changes);
    } else {
        (void)ss_crash_write(no_watcher, sizeof no_watcher - 1, &ss_crash_stderr);
    }
    errno = error;
}

/* False: nobody has asked. */
static bool report_asked(void)
{
    uint64_t by = atomic_exchange(&asked, 0);
    const late_work work = {.thread_id = (uint32_t)by, .signal = (int)(by >> 32)};

    if (by)
        miss(&work, 0);
    return by != 0;
}

__attribute__((noreturn)) static void *watch(void *unused)
{
    (void)unused;
    ss_threads_never_ask(ss_thread_id());
    for (;;) {
        stacksplice_deadline number = 0;
        late_work deadline;
        int64_t until = 0;
        uint32_t seen = 0;

        switch (take_due(ss_now(), &deadline, &number, &until, &seen)) {
        case DUE_NOTHING:
            if (!report_asked()) /* after SEEN was read: who asks from now on wakes it */
                ss_sleep_until(until, &changes, seen);
            break;
        case DUE_MISSED:
            miss(&deadline, number);
            break;
        case DUE_INTERRUPT:
            ss_threads_call(deadline.thread_id, interrupt_thread, number);
            break;
        }
    }
}

/* A report that has begun is completed before the process ends, unless it takes long. */
static __attribute__((destructor)) void finish_report(void)
{
    int64_t until = ss_now() + EXIT_WAITS_FOR;

    while (atomic_load(&is_reporting) && ss_now() < until)
        ss_rest();
}

/* ---- Its start -------------------------------------------------------------------------------*/

static bool start(void)
{
    pthread_attr_t attributes;
    sigset_t before;
    pthread_t thread;
    bool is_started;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    no_stack[0] =
        stacksplice_gap("native", "stack unknown: the thread has not answered in time", 0);
    ss_captures_prepare();     /* the watcher asks other threads by signals */
    left_out = 0;              /* those of the process that forked this one are not ours */
    ss_signals_block(&before); /* the host's signals are for its own threads */
    is_started = pthread_attr_setstacksize(&attributes, STACK_SIZE) == 0 &&
                 pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
                 pthread_create(&thread, &attributes, watch, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return is_started;
}

static bool ensure_watcher(void)
{
    watcher_state now;

    for (;;) {
        now = NONE;
        if (SS_LIKELY(atomic_load(&watcher) == RUNNING))
            return true;
        if (atomic_compare_exchange_strong(&watcher, &now, STARTING)) {
            bool is_started = start();

            atomic_store(&watcher, is_started ? RUNNING : NONE);
            return is_started;
        }
        ss_rest(); /* another thread starts it */
    }
}

/* ---- Public ----------------------------------------------------------------------------------*/

stacksplice_hresult stacksplice_deadline_begin(uint32_t milliseconds,
                                               const stacksplice_deadline_options *options,
                                               stacksplice_deadline *deadline)
{
    const uint32_t known = STACKSPLICE_DEADLINE_NO_TEXT | STACKSPLICE_DEADLINE_NO_FILE;
    late_work d = {.thread_id = ss_thread_id(), .milliseconds = milliseconds};
    stacksplice_hresult hr;
    bool wake = false;

    if (!deadline)
        return E_POINTER;
    if (options && (options->size != sizeof *options || options->flags & ~known))
        return E_INVALIDARG;
    if (!ensure_watcher())
        return E_OUTOFMEMORY;
    if (options) {
        d.flags = options->flags;
        d.interrupt = options->interrupt;
        d.data = options->data;
        if (options->name)
            memcpy(d.name, options->name, stacksplice_deadline_name_length(options->name));
    }
    d.at = ss_now() + (int64_t)milliseconds * 1000 * 1000;
    hr = add(&d, deadline, &wake);
    if (wake)
        ss_wake_all(&changes);
    return hr;
}

stacksplice_hresult stacksplice_deadline_end(stacksplice_deadline deadline)
{
    stacksplice_hresult hr = E_INVALIDARG;
    uint32_t index;
    const slot *s;

    if (!ss_lock_take(&lock))
        return E_ILLEGAL_METHOD_CALL;
    s = find(deadline, &index);
    if (s) {
        hr = s->state == ARMED ? S_OK : S_FALSE;
        make_free(index);
    }
    ss_lock_drop(&lock);
    return hr;
}

stacksplice_hresult stacksplice_report_on_signal(int number)
{
    static const int refused[] = {SIGSEGV, SIGBUS, SIGFPE,  SIGILL,
                                  SIGABRT, SIGSYS, SIGKILL, SIGSTOP};
    struct sigaction action;

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (number == refused[i])
            return E_INVALIDARG;
    if (sigaction(number, NULL, &action) != 0)
        return E_INVALIDARG;
    if (!ensure_watcher())
        return E_OUTOFMEMORY;
    memset(&action, 0, sizeof action);
    action.sa_handler = ask_for_report;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    return sigaction(number, &action, NULL) == 0 ? S_OK : E_INVALIDARG;
}
