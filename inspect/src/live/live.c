#include "live/live.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What is mapped in a living process, from the kernel's list. */

enum { MAX_LINE = 8192, MAX_COMMAND = 1 << 16 };

/* ---- The program ------------------------------------------------------------------------------*/

/* The file NAME of the process or thread NUMBER in /proc, open to be read, or NULL. */
static FILE *open_file(int number, const char *name)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", number, name);
    return fopen(path, "re");
}

/* What follows the text BEFORE at the beginning of a line of FILE, which may be NULL and is closed;
   false if there is none. */
static bool find_line(FILE *file, const char *before, char after[256])
{
    size_t length = strlen(before);
    bool found = false;

    while (file && !found && fgets(after, 256, file))
        found = !strncmp(after, before, length);
    if (file)
        fclose(file);
    if (found) {
        memmove(after, after + length, strlen(after + length) + 1);
        after[strcspn(after, "\n")] = '\0';
    }
    return found;
}

/* The letter by which the kernel says what a process or thread does; 0 if it has ended. */
static char state_letter(int number)
{
    char state[256];

    return find_line(open_file(number, "status"), "State:\t", state) ? *state : '\0';
}

/* The file of the program of PROCESS to PATH, which ends in a NUL; false if it runs none any more.
 */
static bool read_executable(int process, char *path, size_t size)
{
    char link[64];
    ssize_t length;

    snprintf(link, sizeof link, "/proc/%d/exe", process);
    length = readlink(link, path, size - 1);
    if (length >= 0)
        path[length] = '\0';
    return length >= 0;
}

/* Where the kernel put the program: each time elsewhere. */
static void read_auxiliary(int process, uint64_t words[SSI_AUXILIARY])
{
    FILE *file = open_file(process, "auxv");

    memset(words, 0, SSI_AUXILIARY * sizeof *words);
    if (!file)
        return;
    (void)!fread(words, sizeof *words, SSI_AUXILIARY, file);
    fclose(file);
}

static bool runs_another(const ssi_target *target, int process)
{
    uint64_t now[SSI_AUXILIARY];
    char path[8];

    read_auxiliary(process, now);
    return memcmp(now, target->auxiliary, sizeof now) != 0 &&
           read_executable(process, path, sizeof path);
}

bool ssi_live_is_same(const ssi_target *target)
{
    return !runs_another(target, target->living) && !runs_another(target, target->process);
}

/* ---- What is mapped ---------------------------------------------------------------------------*/

/* The number by which the kernel shows memory and files of PROCESS: that of another thread, if the
   first one has ended.  They are the same, and PROCESS is as good as any where none is shown. */
static int living_thread(int process)
{
    char path[64];
    DIR *folder;
    int found = process;

    if (read_executable(process, path, sizeof path))
        return process;
    snprintf(path, sizeof path, "/proc/%d/task", process);
    folder = opendir(path);
    if (!folder)
        return process;
    for (struct dirent *entry; found == process && (entry = readdir(folder)) != NULL;) {
        int id = (int)strtol(entry->d_name, NULL, 10);

        if (id > 0 && read_executable(id, path, sizeof path))
            found = id;
    }
    closedir(folder);
    return found;
}

/* Its files stay open to us under that name when it ends, or begins another program. */
static void open_root(ssi_target *target)
{
    int fd;

    snprintf(target->root, sizeof target->root, "/proc/%d/root", target->living);
    fd = open(target->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        snprintf(target->root, sizeof target->root, "/proc/self/fd/%d", fd);
}

static void read_command(ssi_target *target)
{
    static char bytes[MAX_COMMAND];
    FILE *file = open_file(target->living, "cmdline");
    size_t size;

    if (!file)
        return;
    size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    ssi_target_set_command(target, bytes, size, size == sizeof bytes);
}

static int read_list(ssi_target *target)
{
    static char line[MAX_LINE];
    FILE *file = open_file(target->living, "maps");
    int error = 0;

    if (!file)
        return errno ? errno : ENOMEM;
    while (!error && fgets(line, sizeof line, file))
        if (!ssi_target_add_line(target, line))
            error = ENOMEM;
    fclose(file);
    return error;
}

int ssi_live_maps(ssi_target *target)
{
    char path[4096];

    target->living = living_thread(target->process);
    read_auxiliary(target->living, target->auxiliary);
    open_root(target);
    if (read_executable(target->living, path, sizeof path))
        target->executable = strdup(path);
    read_command(target);
    return read_list(target);
}

/* Who a living process is to the files that it opens, as the kernel says it. */

/* CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH */
enum { BEYOND_MODES = 1 << 1 | 1 << 2 };

/* Whether the rights of PROCESS are those of our own system, and not of a container's. */
static bool is_in_our_namespace(int process)
{
    char path[64], own[64], its[64];
    ssize_t own_length = readlink("/proc/self/ns/user", own, sizeof own), length;

    snprintf(path, sizeof path, "/proc/%d/ns/user", process);
    length = readlink(path, its, sizeof its);
    return length > 0 && length == own_length && !memcmp(own, its, (size_t)length);
}

/* The number for files, behind three others. */
static unsigned number_for_files(const char *numbers)
{
    unsigned long number = 0;
    char *end;

    for (int i = 0; i < 4; i++, numbers = end)
        number = strtoul(numbers, &end, 10);
    return (unsigned)number;
}

static void read_line(const char *line, ssi_user *user, unsigned *group)
{
    if (!strncmp(line, "Uid:", 4)) {
        user->id = number_for_files(line + 4);
        user->is_known = true;
    } else if (!strncmp(line, "Gid:", 4)) {
        *group = number_for_files(line + 4);
    } else if (!strncmp(line, "Groups:", 7)) {
        free(user->groups);
        user->groups = strdup(line + 7);
    } else if (!strncmp(line, "CapEff:", 7)) {
        user->enters_all = user->reads_all = strtoull(line + 7, NULL, 16) & BEYOND_MODES;
    }
}

void ssi_live_read_user(ssi_target *target, int number)
{
    ssi_user user = {.is_known = false};
    unsigned group = 0;
    FILE *file = open_file(number, "status");
    char *line = NULL, *more;
    size_t room = 0;

    if (!file)
        return;
    while (getline(&line, &room, file) > 0) /* one has 65,536 groups at most */
        read_line(line, &user, &group);
    fclose(file);
    free(line);
    more = user.groups;
    if (asprintf(&user.groups, "%u %s", group, more ? more : "") < 0)
        user.groups = NULL;
    free(more);
    if (!is_in_our_namespace(number))
        user.enters_all = user.reads_all = false;
    free(target->user.groups);
    target->user = user;
}

/* Why the kernel refuses to trace a process, and what helps. */

/* The number there; -1 if there is none. */
static int number_in(FILE *file, const char *before)
{
    char after[256];

    return find_line(file, before, after) ? (int)strtol(after, NULL, 10) : -1;
}

static const char *policy(int process)
{
    int scope = number_in(fopen("/proc/sys/kernel/yama/ptrace_scope", "re"), "");
    char folder[32];
    struct stat status;

    if (scope == 3)
        return "this kernel forbids tracing until it is started anew (kernel.yama.ptrace_scope is "
               "3)";
    if (geteuid() == 0)
        return "root has no such right here: in a container, start that with --cap-add=SYS_PTRACE; "
               "else run this command where root has it";
    if (scope == 2)
        return "only root may trace here (kernel.yama.ptrace_scope is 2): run this command with "
               "sudo";
    if (scope == 1)
        return "only its ancestors may trace it (kernel.yama.ptrace_scope is 1): run this command "
               "with sudo, or once: sudo sysctl kernel.yama.ptrace_scope=0";
    snprintf(folder, sizeof folder, "/proc/%d", process);
    if (!stat(folder, &status) && status.st_uid != geteuid())
        return "it belongs to another user: run this command as that user, or with sudo";
    return "in a container, start that with --cap-add=SYS_PTRACE; else run this command with sudo";
}

void ssi_explain_refusal(int process, int error, char *out, size_t size)
{
    int tracer = number_in(open_file(process, "status"), "TracerPid:");
    char state = state_letter(process);

    if (error == EPERM && (state == 'Z' || state == 'X'))
        snprintf(out, size, "process %d has ended: only its parent has not asked for its status",
                 process);
    else if (error == EPERM && number_in(open_file(process, "status"), "VmLck:") < 0)
        snprintf(out, size, "process %d is a thread of the kernel, which runs no program", process);
    else if (error == ESRCH || error == ENOENT)
        snprintf(out, size, "there is no process %d: ps lists those that run", process);
    else if (error == ESTALE)
        snprintf(out, size, "process %d began another program meanwhile: run this command again",
                 process);
    else if (error != EPERM && error != EACCES)
        snprintf(out, size, "cannot trace process %d: %s", process, strerror(error));
    else if (tracer > 0)
        snprintf(out, size, "process %d is traced by process %d already: end that debugger first",
                 process, tracer);
    else
        snprintf(out, size, "not permitted to trace process %d: %s", process, policy(process));
}

/*
 * Stops all threads of a process.  A seized thread is interrupted without a signal, and a
 * thread that was stopped before (by Ctrl-Z) stays so afterwards.  The process notices only that a
 * few system calls, such as epoll_wait, return with EINTR.
 */

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
        /* The kernel lets nothing interrupt one that waits for a disk, or for a vfork: D. */
        if (now_ns() - since > PATIENCE_MS * 1000000ull ||
            (now_ns() - since > LONG_NS && state_letter(thread->id) == 'D')) {
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
    char found[256];

    if (find_line(open_file(thread->id, "status"), "Name:\t", found))
        snprintf(thread->name, sizeof thread->name, "%.31s", found);
    if (find_line(open_file(thread->id, "status"), "NSpid:", found))
        thread->own_id = (int)strtol(strrchr(found, '\t') + 1, NULL, 10);
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
