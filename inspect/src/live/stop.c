/*
 * Stops all threads of a process.  A seized thread is interrupted without a signal, and a
 * thread that was stopped before (by Ctrl-Z) stays so afterwards.  The process notices only that a
 * few system calls, such as epoll_wait, return with EINTR.
 */
#include "live/live.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

enum {
    ROUNDS = 8,        /* of looking for threads that began meanwhile */
    ATTEMPTS = 8,      /* to begin: for a moment, a thread that ends or begins a program refuses */
    PATIENCE_MS = 500, /* for a thread that waits for a processor */
    SPIN_NS = 100000,
    PAUSE_NS = 1000000,
    LONG_NS = 3000000,   /* until it is asked why a thread does not stop */
    RESTART_FIRST = 512, /* the kernel's own errors (ERESTARTSYS and its like) */
    RESTART_LAST = 516
};

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Seize the thread; 0 or an errno. */
static int seize(ssi_target *target, int id)
{
    for (size_t i = 0; i < target->thread_count; i++)
        if (target->threads[i].id == id)
            return 0;
    if (ptrace(PTRACE_SEIZE, id, NULL, NULL))
        return errno;
    if (!ssi_target_add_thread(target, id)) {
        ptrace(PTRACE_DETACH, id, NULL, NULL);
        return ENOMEM;
    }
    return 0;
}

/* Seize all threads that are not yet; 0, or an errno if none can be. */
static int seize_all(ssi_target *target)
{
    char path[48];
    DIR *folder;
    int error = ESRCH, failed = 0;

    snprintf(path, sizeof path, "/proc/%d/task", target->process);
    folder = opendir(path);
    if (!folder)
        return errno == ENOENT ? ESRCH : errno;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        int id = (int)strtol(entry->d_name, NULL, 10);

        if (id <= 0)
            continue;
        failed = seize(target, id);
        if (failed && failed != ESRCH) /* a thread may have ended meanwhile */
            error = failed;
    }
    closedir(folder);
    return target->thread_count ? 0 : error;
}

static int begin(ssi_target *target)
{
    static const struct timespec pause = {0, 2000000};
    int error = seize_all(target);

    for (int i = 0; error == EPERM && i < ATTEMPTS; i++) {
        nanosleep(&pause, NULL);
        error = seize_all(target);
    }
    return error;
}

/* ---- Waiting ----------------------------------------------------------------------------------*/

/* What a stopped thread is detached with: a signal that was on its way to it, else 0. */
static int signal_of(int status)
{
    return status >> 16 ? 0 : WSTOPSIG(status);
}

/* Whether a signal, as from Ctrl-Z, had stopped the thread before. */
static bool was_stopped(int status)
{
    return status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP;
}

static sigset_t stops(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    return set;
}

/* Have the kernel keep the signal that tells of a stop, whatever this program inherited. */
static void expect_stops(void)
{
    sigset_t set = stops();

    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

/* Most threads stop within microseconds.  On a busy machine the program that sleeps is woken sooner
   than the one that yields has its turn again. */
static void wait_briefly(uint64_t since)
{
    const struct timespec pause = {0, PAUSE_NS};
    sigset_t set = stops();

    if (now_ns() - since > SPIN_NS)
        (void)sigtimedwait(&set, NULL, &pause);
}

/* Whether the kernel lets nothing interrupt the thread: it waits for a disk, or for a vfork. */
static bool is_uninterruptible(int id)
{
    FILE *file = ssi_live_file(id, "stat");
    char line[256];
    const char *state;
    size_t length;

    if (!file)
        return false;
    length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = '\0';
    state = strrchr(line, ')');
    return state && !strncmp(state, ") D", 3);
}

/* Wait until THREAD has stopped; false if it ends, or not in time.  All others wait meanwhile. */
static bool wait_for(ssi_thread *thread, uint64_t since)
{
    for (;; wait_briefly(since)) {
        int status = 0;
        pid_t got = waitpid(thread->id, &status, __WALL | WNOHANG);

        if (got == thread->id && WIFSTOPPED(status)) {
            thread->signal = signal_of(status);
            thread->state = was_stopped(status) ? "stopped" : NULL;
            return true;
        }
        if (got == thread->id || (got < 0 && errno != EINTR)) {
            snprintf(thread->why, sizeof thread->why, "thread ended while it was being stopped");
            return false;
        }
        if (now_ns() - since > PATIENCE_MS * 1000000ull ||
            (now_ns() - since > LONG_NS && is_uninterruptible(thread->id))) {
            snprintf(thread->why, sizeof thread->why,
                     "thread waits in the kernel and cannot be stopped");
            return false;
        }
    }
}

/* ---- Registers --------------------------------------------------------------------------------*/

/* Whether the stop interrupted a system call that waited: the kernel then will begin it again, or
   has it fail.  All else runs, or waits for a processor. */
static const char *state_of(const ssi_machine *machine, const uint64_t *words)
{
    int64_t result = (int64_t)words[machine->result];
    bool waited = (result <= -RESTART_FIRST && result >= -RESTART_LAST) || result == -EINTR;

    if (!machine->system_call)
        return NULL;
    return (int64_t)words[machine->system_call] >= 0 && waited ? "sleeping" : "running";
}

static void read_registers(const ssi_machine *machine, ssi_thread *thread)
{
    uint64_t words[SSI_MAX_KERNEL_WORDS];
    struct iovec place = {words, sizeof words};

    if (ptrace(PTRACE_GETREGSET, thread->id, (void *)NT_PRSTATUS, &place)) {
        snprintf(thread->why, sizeof thread->why, "registers cannot be read: %s", strerror(errno));
        return;
    }
    if (place.iov_len != machine->kernel_words * sizeof *words) {
        snprintf(thread->why, sizeof thread->why, "thread of another machine (32 bits)");
        return;
    }
    ssi_thread_set_registers(thread, machine, words);
    if (!thread->state)
        thread->state = state_of(machine, words);
}

/* What the kernel says of a thread, which may have ended meanwhile. */
static void read_status(ssi_thread *thread)
{
    FILE *file = ssi_live_file(thread->id, "status");
    char line[256];

    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        const char *last = strrchr(line, '\t');

        line[strcspn(line, "\n")] = '\0';
        if (!strncmp(line, "Name:\t", 6))
            snprintf(thread->name, sizeof thread->name, "%.31s", line + 6);
        else if (!strncmp(line, "NSpid:", 6) && last)
            thread->own_id = (int)strtol(last + 1, NULL, 10);
    }
    fclose(file);
}

/* ---- Stop and go ------------------------------------------------------------------------------*/

int ssi_live_stop(ssi_target *target)
{
    size_t done = 0;
    int error;
    uint64_t start;

    expect_stops();
    error = begin(target);
    start = now_ns();
    if (error)
        return error;
    target->stopped_ns = start;
    for (int round = 0; round < ROUNDS && done < target->thread_count; round++) {
        size_t count = target->thread_count;

        for (size_t i = done; i < count; i++)
            ptrace(PTRACE_INTERRUPT, target->threads[i].id, NULL, NULL);
        for (size_t i = done; i < count; i++) {
            ssi_thread *thread = &target->threads[i];

            if (wait_for(thread, start))
                read_registers(target->machine, thread);
        }
        done = count;
        (void)seize_all(target);
    }
    ssi_target_find_stacks(target);
    return 0;
}

void ssi_live_release(ssi_target *target)
{
    for (size_t i = 0; i < target->thread_count; i++)
        ptrace(PTRACE_DETACH, target->threads[i].id, NULL, (void *)(long)target->threads[i].signal);
    target->stopped_ns = now_ns() - target->stopped_ns;
    for (size_t i = 0; i < target->thread_count; i++)
        read_status(&target->threads[i]);
}

size_t ssi_live_fetch(void *target, uint64_t address, void *out, size_t size)
{
    struct iovec local = {out, size}, remote = {(void *)address, size};
    ssize_t got = process_vm_readv(((const ssi_target *)target)->living, &local, 1, &remote, 1, 0);

    return got > 0 ? (size_t)got : 0;
}
