/* The stacks of the other threads of a crashed process: a signal asks each to capture its own. */
#include "crash/crash.h"

#include "base/thread.h"
#include "base/valgrind.h"
#include "crash/context.h"
#include "crash/wait.h"
#include "report/visit.h"
#include "splice/token.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- A stack that a signal interrupted -------------------------------------------------------*/

enum { MOST_BEFORE = 8 };

/*
 * How many elements come before the interrupted frame: the C library's return from the handler, and
 * what may have called the handler, such as a sanitizer.  Script frames may stand for that frame.
 */
static uint32_t count_before(const uintptr_t *frames, uint32_t count, const void *return_address,
                             uintptr_t pc)
{
    for (uint32_t i = 0; i < count && i <= MOST_BEFORE; i++) {
        if (frames[i] == pc + 1)
            return i;
    }
    return count > 1 && frames[0] == (uintptr_t)return_address && ss_token_is(frames[1]);
}

uint32_t ss_capture_interrupted(const void *handler, const void *return_address, uintptr_t pc,
                                uint32_t max, uintptr_t *frames)
{
    uint32_t count = 0, before;

    if (stacksplice_capture_ends(handler, 0, max, frames, &count) < 0 || !count) {
        frames[0] = pc + 1;
        frames[1] = stacksplice_gap("native", "frames missing here: out of memory", 0);
        return 2;
    }
    before = count_before(frames, count, return_address, pc);
    count -= before;
    memmove(frames, frames + before, count * sizeof *frames);
    /* The walk did not even begin. */
    if (count < max && ss_token_is(frames[0]) && !ss_token_is_script(frames[0])) {
        memmove(frames + 1, frames, count * sizeof *frames);
        frames[0] = pc + 1;
        count++;
    }
    return count;
}

/* ---- Threads that are held ---------------------------------------------------------------------*/

#define SECONDS ((int64_t)1000 * 1000 * 1000)
#define LONGEST_HOLD (60 * SECONDS)  /* a report that takes longer has stopped */
#define HOLD_OF_OTHERS (2 * SECONDS) /* a handler of the host may wait for what a held thread has */

static _Atomic uint64_t holder;       /* (ATOMIC) the thread whose end holds the others; 0: none */
static _Atomic pid_t held_process;    /* (ATOMIC) not a child that shares the memory */
static _Atomic int64_t held_until;    /* (ATOMIC) */
static _Atomic uint32_t hold_changes; /* (ATOMIC) */

void ss_threads_hold(void)
{
    atomic_store(&held_until, ss_now() + LONGEST_HOLD);
    atomic_store(&held_process, getpid());
    atomic_store(&holder, ss_thread_id());
}

void ss_threads_let_go(void)
{
    int64_t soon = ss_now() + HOLD_OF_OTHERS;

    if (!atomic_load(&holder) || atomic_load(&held_until) <= soon)
        return;
    atomic_store(&held_until, soon);
    atomic_fetch_add(&hold_changes, 1);
    ss_wake_all(&hold_changes);
}

/* Stay here while another thread ends the process.  Signal safe. */
static void stay(void)
{
    for (;;) {
        uint64_t by = atomic_load(&holder);
        uint32_t seen = atomic_load(&hold_changes);
        int64_t until = atomic_load(&held_until);

        if (!by || by == ss_thread_id() || atomic_load(&held_process) != getpid() ||
            ss_now() >= until)
            return;
        ss_sleep_until(until, &hold_changes, seen);
    }
}

/* At exit(): the status of the process is that of the crash. */
static __attribute__((destructor)) void stay_at_exit(void)
{
    stay();
}

/* ---- Those that are asked ----------------------------------------------------------------------*/

enum { BLOCKED_MS = 50 /* most threads that block signals do so for moments */ };

/* Filled by its thread from `asked` to `answered`; read after that. */
typedef enum state { FREE, UNASKED, ASKED, ANSWERING, ANSWERED, LATE } state;

static struct place {
    ss_other_thread thread;
    ss_wait wait; /* when it was asked, if SLEEPS */
    bool sleeps;
    _Atomic state state; /* (ATOMIC) */
} places[SS_THREADS_MAX];

/* (THREAD reporter) */
static uint32_t place_count, left_out;
static bool are_known;
static int asking_signal;
static _Atomic uint64_t never_asked; /* (ATOMIC) */

/* The threads of the parent that were asked do not exist in a child. */
static void forget_places(void)
{
    for (uint32_t i = 0; i < SS_THREADS_MAX; i++)
        atomic_store(&places[i].state, FREE);
    place_count = left_out = 0;
    atomic_store(&never_asked, 0);
    atomic_store(&holder, 0);
}

static ss_fork_hook forget_in_child = {forget_places, NULL};

static __attribute__((constructor)) void watch_forks(void)
{
    ss_fork_child(&forget_in_child);
}

/* ---- The answer ------------------------------------------------------------------------------*/

static _Atomic(ss_thread_call) call; /* (ATOMIC) what ss_threads_call wants */

/* The number for that, which is larger than that of any place; or 0. */
static uint64_t asked_call(const siginfo_t *info)
{
    uint64_t value = (uintptr_t)info->si_value.sival_ptr;

    return info->si_code == SI_QUEUE && info->si_pid == getpid() && value > UINT32_MAX ? value : 0;
}

/* The place of this thread, if INFO asks for its stack. */
static struct place *asked_place(const siginfo_t *info)
{
    uint32_t index = (uint32_t)info->si_value.sival_int;
    state now = ASKED;

    if (info->si_code != SI_QUEUE || info->si_pid != getpid() || index >= SS_THREADS_MAX ||
        atomic_load(&places[index].state) != ASKED || asked_call(info) ||
        places[index].thread.id != ss_thread_id() ||
        !atomic_compare_exchange_strong(&places[index].state, &now, ANSWERING))
        return NULL;
    return &places[index];
}

static void answer(int number, siginfo_t *info, void *context)
{
    int before = errno;
    struct place *place = asked_place(info);
    uint64_t call_with = asked_call(info);
    ss_wait wait;
    bool sleeps = false;

    if (call_with)
        atomic_load (&call)(call_with);
    if (place) {
        sleeps = place->sleeps;
        wait = place->wait;
        place->thread.count =
            ss_capture_interrupted(SS_HERE(), __builtin_return_address(0), ss_context_pc(context),
                                   SS_THREAD_FRAMES, place->thread.frames);
        atomic_store(&place->state, ANSWERED);
    }
    stay(); /* also one that is late */
    if (sleeps)
        ss_wait_go_on(&wait, number, context);
    errno = before;
}

/* ---- The threads -----------------------------------------------------------------------------*/

/* The number at the beginning of TEXT; 0 if END does not follow it. */
static uint64_t number_before(const char *text, char end)
{
    uint64_t number = 0;

    for (; *text >= '0' && *text <= '9'; text++)
        number = number * 10 + (unsigned)(*text - '0');
    return *text == end ? number : 0;
}

/* The first SIZE - 1 bytes of the kernel's FILE about thread ID, as text; its length. */
static size_t read_file(uint64_t id, const char *name, char *text, size_t size)
{
    char path[64];
    ss_kept_text to = {path, sizeof path, 0};
    ss_writer w;
    ssize_t length;
    int file;

    ss_writer_init(&w, ss_writer_keep, &to);
    ss_writer_text(&w, "/proc/self/task/");
    ss_writer_decimal(&w, id);
    ss_writer_text(&w, name);
    (void)ss_writer_finish(&w);
    file = ss_crash_open(path, O_RDONLY | O_CLOEXEC);
    length = file < 0 ? 0 : read(file, text, size - 1);
    if (file >= 0)
        (void)close(file);
    text[length < 0 ? 0 : length] = 0;
    return length < 0 ? 0 : (size_t)length;
}

#define ALL_SIGNALS UINT64_MAX

/* Whether the thread sleeps in a system call, and in which. */
static bool find_wait(uint64_t id, ss_wait *wait)
{
    char text[256];

    return read_file(id, "/syscall", text, sizeof text) && ss_wait_read(text, wait);
}

/* Whether the thread is in sigwait, sigwaitinfo or sigtimedwait. */
static bool waits_for_signals(uint64_t id)
{
    ss_wait wait;

    return find_wait(id, &wait) && wait.call == SYS_rt_sigtimedwait;
}

/* The signals that the thread blocks, signal 1 in the lowest bit.  None under valgrind: the kernel tells
   the masks of its threads, which block everything, and only valgrind knows the program's. */
static uint64_t blocked_signals(uint64_t id)
{
    static const char before[] = "\nSigBlk:\t"; /* then 16 digits */
    char text[4096];
    const char *mask;
    uint64_t signals = 0;

    if (ss_valgrind_ask(SS_VALGRIND_RUNS, NULL, 0, 0))
        return 0;
    (void)read_file(id, "/status", text, sizeof text);
    if (strstr(text, "\nState:\tZ"))
        return ALL_SIGNALS; /* it ended before others */
    mask = strstr(text, before);
    for (mask = mask ? mask + sizeof before - 1 : ""; *mask > ' '; mask++)
        signals = signals << 4 | (unsigned)(*mask <= '9' ? *mask - '0' : *mask - 'a' + 10);
    return signals;
}

static uint64_t bit_of(int number)
{
    return UINT64_C(1) << (number - 1);
}

/* False with errno ESRCH: there is no such thread. */
static bool send_signal(pid_t id, union sigval value)
{
    siginfo_t info;

    memset(&info, 0, sizeof info);
    info.si_signo = asking_signal;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value = value;
    return syscall(SYS_rt_tgsigqueueinfo, getpid(), id, asking_signal, &info) == 0;
}

typedef enum ear { HEARS, BLOCKS, WAITS } ear;

/* Whether the thread would handle the signal now.  While it waits for signals, the kernel says that
   it does not block them: look before and after. */
static ear ear_of(uint64_t id)
{
    bool waits = waits_for_signals(id), blocks = blocked_signals(id) & bit_of(asking_signal);

    if (waits || waits_for_signals(id))
        return WAITS;
    return blocks ? BLOCKS : HEARS;
}

/*
 * False: there is no such thread.  It has just ended, or the folder is of another namespace.  One
 * that waits for signals is not asked, for ours could be what it waits for, and one that blocks the
 * signal not yet.
 */
static bool ask(struct place *place)
{
    ear now = ear_of(place->thread.id);

    place->sleeps = find_wait(place->thread.id, &place->wait);
    atomic_store(&place->state, now == HEARS ? ASKED : now == BLOCKS ? UNASKED : LATE);
    if (now != HEARS ||
        send_signal((pid_t)place->thread.id,
                    (union sigval){.sival_ptr = (void *)(uintptr_t)(place - places)}))
        return true;
    atomic_store(&place->state, LATE);
    return errno != ESRCH;
}

/* In a crash a thread stays also where there is no room for its stack. */
static void hold_only(uint64_t id)
{
    if (atomic_load(&holder) == ss_thread_id() && ear_of(id) == HEARS)
        (void)send_signal((pid_t)id,
                          (union sigval){.sival_ptr = (void *)(uintptr_t)SS_THREADS_MAX});
}

static void meet(uint64_t id)
{
    struct place *place;
    size_t length;

    if (id == ss_thread_id() || id == atomic_load(&never_asked))
        return;
    /* Into some a thread that was asked for an earlier report still writes. */
    while (place_count < SS_THREADS_MAX && atomic_load(&places[place_count].state) == ANSWERING)
        places[place_count++].thread.id = 0;
    if (place_count == SS_THREADS_MAX) {
        left_out++;
        hold_only(id);
        return;
    }
    place = &places[place_count];
    place->thread.id = id;
    length = read_file(id, "/comm", place->thread.name, sizeof place->thread.name);
    if (length && place->thread.name[length - 1] == '\n')
        place->thread.name[length - 1] = 0;
    if (ask(place))
        place_count++;
}

/* The kernel's record of a file in a folder. */
typedef struct entry {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
} entry;

/* Call F with the id of each thread; false if they cannot be listed.  opendir would allocate. */
static bool for_each_thread(void (*f)(uint64_t id))
{
    static _Alignas(entry) char entries[4096];
    int folder = ss_crash_open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long got;

    if (folder < 0)
        return false;
    while ((got = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
        for (long at = 0; at < got;) {
            const entry *e = (const entry *)(entries + at);

            if (*e->name != '.')
                f(number_before(e->name, 0));
            at += e->length;
        }
    }
    (void)close(folder);
    return true;
}

/* ---- Asking ----------------------------------------------------------------------------------*/

static bool is_ours(int number)
{
    struct sigaction now;

    return number && sigaction(number, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
           now.sa_sigaction == answer;
}

static uint64_t used; /* (THREAD reporter) the signals that some threads block */

/* Who blocks all real-time signals wants none; who blocks one of them waits for it. */
static void note_used(uint64_t id)
{
    uint64_t real_time = ALL_SIGNALS << (SIGRTMIN - 1), blocked = blocked_signals(id);

    if ((blocked & real_time) != real_time)
        used |= blocked;
}

/* Take over a real-time signal that nobody uses; the last are used least. */
static bool take_signal(void)
{
    struct sigaction now, action;

    if (is_ours(asking_signal))
        return true;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    ss_signals_all(&action.sa_mask);
    used = 0;
    (void)for_each_thread(note_used);
    for (int number = SIGRTMAX; number >= SIGRTMIN; number--) {
        if (!(used & bit_of(number)) && sigaction(number, NULL, &now) == 0 &&
            !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL &&
            sigaction(number, &action, NULL) == 0) {
            asking_signal = number;
            return true;
        }
    }
    return false;
}

/* Ask those that let the signal wait once more: most do so for moments.  AFTER so many milliseconds
   they are not asked any more. */
static bool all_answered(int64_t after)
{
    bool all = true;

    for (uint32_t i = 0; i < place_count; i++) {
        state now = atomic_load(&places[i].state);

        if (now == UNASKED && after < BLOCKED_MS)
            (void)ask(&places[i]);
        if (now == ANSWERING || now == ASKED || (now == UNASKED && after < BLOCKED_MS))
            all = false;
    }
    return all;
}

void ss_threads_ask(void)
{
    ss_threads_forget();
    if (take_signal())
        are_known = for_each_thread(meet);
}

void ss_threads_await(void)
{
    const uint32_t milliseconds = ss_handler_choice.thread_timeout;
    int64_t begun = ss_now(), after = 0;

    for (; !all_answered(after) && after < milliseconds; after = (ss_now() - begun) / 1000000)
        ss_rest();
    /* The handler stays: for a late thread the default action would end the process. */
    for (uint32_t i = 0; i < place_count; i++) {
        state waiting = ASKED, unasked = UNASKED;

        if (!atomic_compare_exchange_strong(&places[i].state, &waiting, LATE))
            (void)atomic_compare_exchange_strong(&places[i].state, &unasked, LATE);
    }
}

static bool has_answered(uint32_t index)
{
    return atomic_load(&places[index].state) == ANSWERED;
}

void ss_threads_call(uint64_t id, ss_thread_call wanted, uint64_t number)
{
    atomic_store(&call, wanted);
    if (take_signal() && ear_of(id) == HEARS)
        (void)send_signal((pid_t)id, (union sigval){.sival_ptr = (void *)(uintptr_t)number});
}

void ss_threads_never_ask(uint64_t id)
{
    atomic_store(&never_asked, id);
}

void ss_threads_forget(void)
{
    place_count = left_out = 0;
    are_known = false;
}

const ss_other_thread *ss_threads_find(uint64_t id)
{
    for (uint32_t i = 0; i < place_count; i++) {
        if (has_answered(i) && places[i].thread.id == id)
            return &places[i].thread;
    }
    return NULL;
}

/* ---- In reports -----------------------------------------------------------------------------*/

static void tell_thread(const ss_report *r, uint32_t index, uint64_t except)
{
    const ss_other_thread *thread = &places[index].thread;
    bool answered = has_answered(index);

    if (!thread->id || thread->id == except)
        return;
    ss_writer_text(r->w, answered ? "\nStack of thread " : "\nThread ");
    ss_writer_decimal(r->w, thread->id);
    ss_writer_text(r->w, " (");
    ss_writer_utf8(r->w, thread->name, strlen(thread->name), SS_ESCAPE_LINE);
    if (answered) {
        ss_writer_text(r->w, ", most recent call first):\n");
        ss_report_stack(r, NULL,
                        (ss_shown_stack){.elements = thread->frames, .count = thread->count}, 4);
    } else {
        ss_writer_text(r->w, ") has not answered in time\n");
    }
}

void ss_threads_tell(const ss_report *r, uint64_t except)
{
    for (uint32_t i = 0; i < place_count; i++)
        tell_thread(r, i, except);
    if (!are_known)
        ss_writer_text(r->w, "\nThe other threads are unknown.\n");
    if (left_out) {
        ss_writer_text(r->w, "\n... ");
        ss_writer_decimal(r->w, left_out);
        ss_writer_text(r->w, " more threads\n");
    }
}

static void put_thread(const ss_report *r, ss_emit *e, uint32_t index, uint64_t except)
{
    const ss_other_thread *thread = &places[index].thread;
    bool answered = has_answered(index);
    ss_shown_stack stack = {.count = 0};

    if (!thread->id || thread->id == except)
        return;
    ss_emit_begin(e, NULL, STACKSPLICE_OBJECT);
    ss_emit_integer(e, "thread_id", (int64_t)thread->id);
    ss_emit_text(e, "name", thread->name);
    ss_emit_boolean(e, "answered", answered);
    if (answered)
        stack = (ss_shown_stack){.elements = thread->frames,
                                 .count = thread->count,
                                 .left_out =
                                     stacksplice_frames_left_out(thread->frames, thread->count)};
    ss_visit_stack(r, e, stack);
    ss_emit_end(e, STACKSPLICE_OBJECT);
}

void ss_threads_put(const ss_report *r, ss_emit *e, uint64_t except)
{
    ss_emit_begin(e, "threads", STACKSPLICE_ARRAY);
    for (uint32_t i = 0; i < place_count; i++)
        put_thread(r, e, i, except);
    ss_emit_end(e, STACKSPLICE_ARRAY);
    if (are_known)
        ss_emit_integer(e, "threads_left_out", left_out);
    else
        ss_emit_text(e, "threads_left_out", NULL);
}
