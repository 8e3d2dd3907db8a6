/* Misses deadlines, or does not: deadline_program CASE.  deadline_test.py looks at what it leaves.
 */
#include "check.h"
#include "instruments.h"

#include <stacksplice/crash.h>
#include <stacksplice/deadline.h>
#include <stacksplice/stacksplice.h>

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SOON = 20,
    NEVER = 3600 * 1000,
    QUIET = STACKSPLICE_DEADLINE_NO_TEXT | STACKSPLICE_DEADLINE_NO_FILE
};

static atomic_int calls;
static volatile int *volatile nowhere =
    (volatile int *)16; /* UBSAN ends a process itself for NULL */

/* After the report, in the late thread, again and again until the deadline ends: once counts. */
static void note_miss(void *noted)
{
    if (!atomic_exchange((atomic_bool *)noted, true))
        atomic_fetch_add(&calls, 1);
}

static stacksplice_deadline begin(uint32_t milliseconds, const char *name, uint32_t flags)
{
    enum { MOST = 4096 };
    static atomic_bool noted[MOST];
    static atomic_uint next;
    const stacksplice_deadline_options options = {sizeof options, name, flags, note_miss,
                                                  &noted[atomic_fetch_add(&next, 1) % MOST]};
    stacksplice_deadline deadline;

    CHECK(stacksplice_deadline_begin(milliseconds, &options, &deadline) == S_OK);
    return deadline;
}

/* Not in the C library, whose functions have no unwind data in musl. */
static void hang_until(int count)
{
    while (atomic_load(&calls) < count)
        if (SANITIZED)
            (void)usleep(1000); /* sanitizers deliver signals here */
}

/*
 * The function to look for in reports: misses a deadline, until COUNT were missed.  It begins the
 * deadline itself, so that it is on the stack however late the thread runs.
 */
__attribute__((noinline, visibility("default"))) void miss(const char *name, uint32_t flags,
                                                           int count);

void miss(const char *name, uint32_t flags, int count)
{
    stacksplice_deadline deadline = begin(SOON, name, flags);

    hang_until(count);
    CHECK(stacksplice_deadline_end(deadline) == S_FALSE);
    CHECK(stacksplice_deadline_end(deadline) == E_INVALIDARG);
}

/* ---- Cases -----------------------------------------------------------------------------------*/

static void miss_one(void)
{
    miss("loading", 0, 1);
}

static void meet_many(void)
{
    for (int i = 0; i < 1000; i++) {
        stacksplice_deadline outer = begin(NEVER, "outer", 0), inner = begin(NEVER, "inner", 0);

        CHECK(outer != inner);
        CHECK(stacksplice_deadline_end(inner) == S_OK);
        CHECK(stacksplice_deadline_end(outer) == S_OK);
    }
}

static void miss_inner(void)
{
    stacksplice_deadline outer = begin(NEVER, "outer", 0);

    miss("inner", 0, 1);
    CHECK(stacksplice_deadline_end(outer) == S_OK);
}

static void miss_outer(void)
{
    stacksplice_deadline outer = begin(SOON, "outer", 0), inner = begin(NEVER, "inner", 0);

    hang_until(1);
    CHECK(stacksplice_deadline_end(inner) == S_OK);
    CHECK(stacksplice_deadline_end(outer) == S_FALSE);
}

static pthread_barrier_t both_run;

static void *miss_in_thread(void *unused)
{
    (void)pthread_barrier_wait(&both_run);
    miss("thread", 0, 2);
    return unused;
}

static void miss_in_two_threads(void)
{
    pthread_t threads[2];

    CHECK(pthread_barrier_init(&both_run, NULL, 2) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, miss_in_thread, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* More reports than there are real-time signals. */
static void miss_again_and_again(void)
{
    if (SANITIZED)
        exit(77); /* a sanitizer has a thread of its own, which does not answer */
    for (int i = 1; i <= 40; i++)
        miss("again", STACKSPLICE_DEADLINE_NO_FILE, i);
}

static void have_many(void)
{
    enum { COUNT = 1000 };
    static stacksplice_deadline deadlines[COUNT];
    stacksplice_deadline early;

    for (int i = 0; i < COUNT; i++)
        deadlines[i] = begin(NEVER, "many", 0);
    early = begin(SOON, "early", 0);
    hang_until(1);
    for (int i = 0; i < COUNT; i++)
        CHECK(stacksplice_deadline_end(deadlines[i]) == S_OK);
    CHECK(stacksplice_deadline_end(early) == S_FALSE);
}

static void miss_in_child(void)
{
#ifdef __SANITIZE_THREAD__
    exit(77); /* it lets no thread start in a child */
#endif
    stacksplice_deadline deadline = begin(NEVER, "parent", 0);
    pid_t child = fork();
    int status = 0;

    if (!child) {
        CHECK(stacksplice_deadline_end(deadline) == E_INVALIDARG);
        miss_one();
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(stacksplice_deadline_end(deadline) == S_OK);
}

/* ---- Reports by signal -------------------------------------------------------------------------*/

enum { ASKING = SIGUSR1 };

static atomic_int calls_of_old;

static void old_handler(int number)
{
    (void)number;
    atomic_fetch_add(&calls_of_old, 1);
}

/* How many files of reports there are. */
static int count_reports(void)
{
    DIR *folder = opendir(getenv("STACKSPLICE_REPORT_DIR"));
    int count = 0;

    CHECK(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += strstr(entry->d_name, ".json") != NULL;
    closedir(folder);
    return count;
}

/* On a busy machine they take their time; who looks at what this leaves says what is missing. */
static void wait_for_reports(int count)
{
    for (int i = 0; i < 2000 && count_reports() < count; i++)
        (void)usleep(10 * 1000);
}

/* The function to look for: it waits until there are so many reports, of which the last is of this signal. */
__attribute__((noinline, visibility("default"))) void ask(int reports);

void ask(int reports)
{
    CHECK(pthread_kill(pthread_self(), ASKING) == 0);
    wait_for_reports(reports);
    CHECK(count_reports() == reports); /* no tail call, either: it stays on the stack */
}

static void report_on_signal(void)
{
    CHECK(signal(ASKING, old_handler) != SIG_ERR);
    CHECK(stacksplice_report_on_signal(ASKING) == S_OK);
    CHECK(stacksplice_report_on_signal(ASKING) == S_OK);
    errno = E2BIG;
    CHECK(raise(ASKING) == 0 && errno == E2BIG);
    wait_for_reports(1);
    ask(2);
    CHECK(calls_of_old == 0);
    CHECK(signal(ASKING, old_handler) != SIG_ERR && raise(ASKING) == 0 && calls_of_old == 1);
}

/* A storm from another thread: no report is torn, none is lost for ever, and nobody waits. */
static void *storm(void *main_thread)
{
    for (int i = 0; i < 2000; i++)
        CHECK(pthread_kill(*(pthread_t *)main_thread, ASKING) == 0);
    return NULL;
}

static void report_on_many_signals(void)
{
    pthread_t thread, self = pthread_self();

    CHECK(stacksplice_report_on_signal(ASKING) == S_OK);
    CHECK(pthread_create(&thread, NULL, storm, &self) == 0);
    for (int i = 0; i < 20000; i++)
        free(malloc((size_t)i)); /* whose lock a handler may find held */
    CHECK(pthread_join(thread, NULL) == 0);
    wait_for_reports(1);
}

static void report_in_child(void)
{
#ifdef __SANITIZE_THREAD__
    exit(77); /* it lets no thread start in a child */
#endif
    pid_t child;
    int status = 0;

    CHECK(stacksplice_report_on_signal(ASKING) == S_OK);
    child = fork();
    if (!child) {
        CHECK(raise(ASKING) == 0); /* a line */
        CHECK(stacksplice_report_on_signal(ASKING) == S_OK);
        CHECK(raise(ASKING) == 0);
        wait_for_reports(1);
        exit(0); /* which waits for a report that has begun */
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void check_signals(void)
{
    static const int wrong[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGABRT, SIGSYS, 0, -1, 1000};
    struct sigaction before, after;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(stacksplice_report_on_signal(wrong[i]) == E_INVALIDARG);
    CHECK(sigaction(SIGSEGV, NULL, &before) == 0);
    CHECK(stacksplice_report_on_signal(SIGSEGV) == E_INVALIDARG);
    CHECK(sigaction(SIGSEGV, NULL, &after) == 0 && before.sa_handler == after.sa_handler);
}

/* It does not answer, nor does it hear of the end of its report: the next one, which says nothing,
   comes after it. */
static void *be_late_without_signals(void *begun)
{
    sigset_t all;

    (void)sigfillset(&all);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
    (void)begin(SOON, "loading", 0);
    (void)pthread_barrier_wait(begun);
    for (;;)
        (void)pause();
}

static void miss_without_signals(void)
{
    const stacksplice_crash_options options = {sizeof options, NULL, 50, 0};
    pthread_barrier_t begun;
    pthread_t thread;

    CHECK(stacksplice_install_crash_handler(&options) == S_OK);
    CHECK(pthread_barrier_init(&begun, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, be_late_without_signals, &begun) == 0);
    (void)pthread_barrier_wait(&begun);
    miss(NULL, QUIET, 1);
}

static void miss_silently(void)
{
    miss(NULL, QUIET, 1);
}

static void miss_without_text(void)
{
    miss(NULL, STACKSPLICE_DEADLINE_NO_TEXT, 1);
}

static void miss_with_long_name(void)
{
    char name[80];

    memset(name, 'x', sizeof name);
    memcpy(name + 62, "\xC3\xA9", 3); /* two bytes, of which one has room */
    miss(name, 0, 1);
}

static uint64_t interrupted_thread;
static atomic_int interrupts;

static void interrupt(void *data)
{
    *(uint64_t *)data = (uint64_t)gettid();
    atomic_fetch_add(&interrupts, 1);
}

/* Again and again, in this thread. */
static void interrupt_until_end(void)
{
    const stacksplice_deadline_options options = {sizeof options, NULL, QUIET, interrupt,
                                                  &interrupted_thread};
    stacksplice_deadline deadline, met;
    int before;

    CHECK(stacksplice_deadline_begin(NEVER, &options, &met) == S_OK);
    CHECK(stacksplice_deadline_begin(0, &options, &deadline) == S_OK);
    while (atomic_load(&interrupts) < 3)
        (void)usleep(1000);
    CHECK(interrupted_thread == (uint64_t)gettid());
    CHECK(stacksplice_deadline_end(deadline) == S_FALSE);
    before = atomic_load(&interrupts);
    for (int i = 0; i < 60; i++)
        (void)usleep(1000);
    CHECK(atomic_load(&interrupts) == before);
    CHECK(stacksplice_deadline_end(met) == S_OK);
}

static void crash_with_deadline(void)
{
    if (SANITIZED)
        exit(77);
    CHECK(stacksplice_install_crash_handler(NULL) == S_OK);
    miss_one(); /* the watcher's thread runs */
    (void)begin(NEVER, NULL, 0);
    *nowhere = 1;
}

/* More misses than are reported.  The clock of the core goes ahead where this program wants it. */
static _Atomic time_t ahead;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which have their own */

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);

    now->tv_sec += clock == CLOCK_MONOTONIC ? atomic_load(&ahead) : 0;
    return result;
}

/* The kernel's clock does not, by which the watcher sleeps: one that waits for a time that is ahead
   would wait for the whole minute. */
__attribute__((visibility("default"))) long syscall(long number, ...)
{
    static long (*real)(long number, ...);
    long given[6];
    struct timespec until;
    va_list list;

    va_start(list, number);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        given[i] = va_arg(list, long);
    va_end(list);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_futex && given[1] == (9 | 128) && given[3]) { /* FUTEX_WAIT_BITSET */
        until = *(const struct timespec *)given[3];
        until.tv_sec -= atomic_load(&ahead);
        given[3] = (long)&until;
    }
    return real(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
#endif

static void miss_now(const char *name, uint32_t flags)
{
    int count = atomic_load(&calls) + 1;
    stacksplice_deadline deadline = begin(0, name, flags);

    hang_until(count);
    CHECK(stacksplice_deadline_end(deadline) == S_FALSE);
}

static void miss_too_many(void)
{
    if (SANITIZED)
        exit(77); /* it has a clock_gettime of its own */
    for (int i = 0; i < 70; i++)
        miss_now("flood", STACKSPLICE_DEADLINE_NO_FILE);
    atomic_store(&ahead, 61);
    for (int i = 0; i < 2; i++)
        miss_now("later", 0);
}

static void check_arguments(void)
{
    stacksplice_deadline_options options = {sizeof options, NULL, 0, NULL, NULL};
    stacksplice_deadline deadline = 1;

    CHECK(stacksplice_deadline_begin(1, NULL, NULL) == E_POINTER);
    options.size--;
    CHECK(stacksplice_deadline_begin(1, &options, &deadline) == E_INVALIDARG && deadline == 1);
    options.size++;
    options.flags = 4;
    CHECK(stacksplice_deadline_begin(1, &options, &deadline) == E_INVALIDARG);
    CHECK(stacksplice_deadline_end(0) == E_INVALIDARG);
    CHECK(stacksplice_deadline_end(UINT64_MAX) == E_INVALIDARG);
    CHECK(stacksplice_deadline_begin(UINT32_MAX, NULL, &deadline) == S_OK);
    CHECK(stacksplice_deadline_end(deadline) == S_OK);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"one", miss_one},
    {"met", meet_many},
    {"inner", miss_inner},
    {"outer", miss_outer},
    {"threads", miss_in_two_threads},
    {"again", miss_again_and_again},
    {"many", have_many},
    {"child", miss_in_child},
    {"blocked", miss_without_signals},
    {"silent", miss_silently},
    {"no-text", miss_without_text},
    {"long-name", miss_with_long_name},
    {"interrupts", interrupt_until_end},
    {"crash", crash_with_deadline},
    {"flood", miss_too_many},
    {"arguments", check_arguments},
    {"signal", report_on_signal},
    {"signals", report_on_many_signals},
    {"signal-child", report_in_child},
    {"signal-arguments", check_signals},
};

int main(int count, char **arguments)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    for (size_t i = 0; count > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (!strcmp(cases[i].name, arguments[1])) {
            cases[i].run();
            (void)puts("went on");
            return 0;
        }
    }
    (void)fputs(stacksplice_build(), stdout);
    return 0;
}
