#include "crash/threads.h"

#include "base/thread.h"
#include "crash/context.h"
#include "crash/crash.h"
#include "crash/deadline_table.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKED_MS = 50 /* most threads that block signals do so for moments */ };

/* Filled by its thread from `asked` to `answered`; read after that. */
typedef enum state { FREE, ASKED, ANSWERING, ANSWERED, LATE } state;

static struct place {
    ss_other_thread thread;
    _Atomic state state; /* (ATOMIC) */
    bool blocks;         /* (THREAD reporter) it blocked the signal when it was asked */
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
}

static ss_fork_hook forget_in_child = {forget_places, NULL};

static __attribute__((constructor)) void watch_forks(void)
{
    ss_fork_child(&forget_in_child);
}

/* ---- The answer ------------------------------------------------------------------------------*/

/* The number of a deadline, which is larger than that of any place; or 0. */
static uint64_t asked_deadline(const siginfo_t *info)
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
        atomic_load(&places[index].state) != ASKED || asked_deadline(info) ||
        places[index].thread.id != ss_thread_id() ||
        !atomic_compare_exchange_strong(&places[index].state, &now, ANSWERING))
        return NULL;
    return &places[index];
}

static void answer(int number, siginfo_t *info, void *context)
{
    int before = errno;
    struct place *place = asked_place(info);
    uint64_t deadline = asked_deadline(info);

    (void)number;
    if (deadline)
        ss_deadlines_interrupt(deadline);
    if (place) {
        place->thread.count =
            ss_capture_interrupted(SS_HERE(), __builtin_return_address(0), ss_context_pc(context),
                                   SS_THREAD_FRAMES, place->thread.frames);
        atomic_store(&place->state, ANSWERED);
    }
    errno = before;
}

/* ---- The threads -----------------------------------------------------------------------------*/

/* Write DIGITS, which need not end in a NUL, between two texts. */
static void make_path(char *path, const char *digits, size_t length, const char *file)
{
    static const char folder[] = "/proc/self/task/";

    memcpy(path, folder, sizeof folder - 1);
    memcpy(path + sizeof folder - 1, digits, length);
    memcpy(path + sizeof folder - 1 + length, file, strlen(file) + 1);
}

/* The first SIZE - 1 bytes of the kernel's FILE about the thread, as text; its length. */
static size_t read_file(const char *digits, const char *name, char *text, size_t size)
{
    char path[64];
    ssize_t length;
    int file;

    make_path(path, digits, strlen(digits), name);
    file = ss_crash_open(path, O_RDONLY | O_CLOEXEC);
    length = file < 0 ? 0 : read(file, text, size - 1);
    if (file >= 0)
        (void)close(file);
    text[length < 0 ? 0 : length] = 0;
    return length < 0 ? 0 : (size_t)length;
}

static void read_name(const char *digits, ss_other_thread *thread)
{
    size_t length = read_file(digits, "/comm", thread->name, sizeof thread->name);

    if (length && thread->name[length - 1] == '\n')
        thread->name[length - 1] = 0;
}

/* Whether the thread lets the signal by which we ask wait: it blocks it, or ended before others. */
static bool blocks_signal(const char *digits)
{
    static const char before[] = "\nSigBlk:\t"; /* then 16 digits, the first for signal 64 */
    static char status[4096];
    const char *mask;
    unsigned digit;

    (void)read_file(digits, "/status", status, sizeof status);
    if (strstr(status, "\nState:\tZ"))
        return true;
    mask = strstr(status, before);
    if (!mask || strlen(mask) < sizeof before + 16)
        return false;
    mask += sizeof before - 1 + 15 - (unsigned)(asking_signal - 1) / 4;
    digit = *mask <= '9' ? (unsigned)(*mask - '0') : (unsigned)(*mask - 'a' + 10);
    return digit >> (asking_signal - 1) % 4 & 1;
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

/* False: there is no such thread.  It has just ended, or the folder is of another namespace. */
static bool ask(pid_t id, uint32_t index)
{
    atomic_store(&places[index].state, ASKED);
    if (send_signal(id, (union sigval){.sival_ptr = (void *)(uintptr_t)index}))
        return true;
    atomic_store(&places[index].state, LATE);
    return errno != ESRCH;
}

/* Places into which a thread that was asked for an earlier report still writes. */
static void skip_late_answers(void)
{
    while (place_count < SS_THREADS_MAX && atomic_load(&places[place_count].state) == ANSWERING)
        places[place_count++].thread.id = 0;
}

/* DIGITS are a thread's number, or "." or "..". */
static void meet(const char *digits)
{
    uint64_t id = 0;

    for (const char *d = digits; *d; d++) {
        if (*d < '0' || *d > '9')
            return;
        id = id * 10 + (unsigned)(*d - '0');
    }
    if (id == ss_thread_id() || id == atomic_load(&never_asked))
        return;
    skip_late_answers();
    if (place_count == SS_THREADS_MAX) {
        left_out++;
        return;
    }
    places[place_count].thread.id = id;
    read_name(digits, &places[place_count].thread);
    places[place_count].blocks = blocks_signal(digits);
    if (ask((pid_t)id, place_count))
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

/* opendir would allocate. */
static void meet_all(void)
{
    static _Alignas(entry) char entries[4096];
    int folder = ss_crash_open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long got;

    if (folder < 0)
        return;
    are_known = true;
    while ((got = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
        for (long at = 0; at < got;) {
            const entry *e = (const entry *)(entries + at);

            meet(e->name);
            at += e->length;
        }
    }
    (void)close(folder);
}

/* ---- Asking ----------------------------------------------------------------------------------*/

static bool is_ours(int number)
{
    struct sigaction now;

    return number && sigaction(number, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
           now.sa_sigaction == answer;
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
    for (int number = SIGRTMAX; number >= SIGRTMIN; number--) {
        if (sigaction(number, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
            now.sa_handler == SIG_DFL && sigaction(number, &action, NULL) == 0) {
            asking_signal = number;
            return true;
        }
    }
    return false;
}

/* AFTER so many milliseconds, a thread that blocked the signal is not waited for any longer. */
static bool all_answered(int64_t after)
{
    for (uint32_t i = 0; i < place_count; i++) {
        state now = atomic_load(&places[i].state);

        if (now == ANSWERING || (now == ASKED && (!places[i].blocks || after < BLOCKED_MS)))
            return false;
    }
    return true;
}

static int64_t milliseconds_now(void)
{
    struct timespec now = {0, 0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void ss_threads_ask(uint32_t milliseconds)
{
    const struct timespec moment = {0, 500 * 1000};
    int64_t begun, after = 0;

    ss_threads_forget();
    if (!take_signal())
        return;
    meet_all();
    begun = milliseconds_now();
    for (; !all_answered(after) && after < milliseconds; after = milliseconds_now() - begun)
        (void)nanosleep(&moment, NULL);
    /* The handler stays: for a late thread the default action would end the process. */
    for (uint32_t i = 0; i < place_count; i++) {
        state waiting = ASKED;

        (void)atomic_compare_exchange_strong(&places[i].state, &waiting, LATE);
    }
}

bool ss_threads_are_known(void)
{
    return are_known;
}

uint32_t ss_threads_count(void)
{
    return place_count;
}

uint32_t ss_threads_left_out(void)
{
    return left_out;
}

bool ss_threads_get(uint32_t index, const ss_other_thread **thread)
{
    *thread = &places[index].thread;
    return atomic_load(&places[index].state) == ANSWERED;
}

void ss_threads_interrupt(uint64_t id, uint64_t number)
{
    if (take_signal())
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
    const ss_other_thread *thread;

    for (uint32_t i = 0; i < place_count; i++) {
        if (ss_threads_get(i, &thread) && thread->id == id)
            return thread;
    }
    return NULL;
}
