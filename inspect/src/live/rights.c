#include "live/live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* GROUPS and one more. */
static char *with_group(char *groups, unsigned group)
{
    char *all = NULL;

    if (asprintf(&all, "%u %s", group, groups ? groups : "") < 0)
        all = NULL;
    free(groups);
    return all;
}

void ssi_live_read_user(ssi_target *target, int number)
{
    ssi_user user = {.is_known = false};
    unsigned group = 0;
    FILE *file = ssi_live_file(number, "status");
    char *line = NULL;
    size_t room = 0;

    if (!file)
        return;
    while (getline(&line, &room, file) > 0) /* one has 65,536 groups at most */
        read_line(line, &user, &group);
    fclose(file);
    free(line);
    user.groups = with_group(user.groups, group);
    if (!is_in_our_namespace(number))
        user.enters_all = user.reads_all = false;
    free(target->user.groups);
    target->user = user;
}

/* Why the kernel refuses to trace a process, and what helps. */

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
    if (found)
        memmove(after, after + length, strlen(after + length) + 1);
    return found;
}

/* The number there; -1 if there is none. */
static int number_in(FILE *file, const char *before)
{
    char after[256];

    return find_line(file, before, after) ? (int)strtol(after, NULL, 10) : -1;
}

/* A process that has ended stays until its parent asks for its status. */
static bool is_dead(int process)
{
    char state[256];

    return find_line(ssi_live_file(process, "status"), "State:\t", state) &&
           (*state == 'Z' || *state == 'X');
}

static const char *policy(int process)
{
    char folder[32];
    struct stat status;

    switch (number_in(fopen("/proc/sys/kernel/yama/ptrace_scope", "re"), "")) {
    case 3:
        return "this kernel forbids tracing until it is started anew (kernel.yama.ptrace_scope is "
               "3)";
    case 2:
        return "only root may trace here (kernel.yama.ptrace_scope is 2): run this command with "
               "sudo";
    case 1:
        if (geteuid() != 0)
            return "only its ancestors may trace it (kernel.yama.ptrace_scope is 1): run this "
                   "command "
                   "with sudo, or once: sudo sysctl kernel.yama.ptrace_scope=0";
        break;
    default:
        break;
    }
    snprintf(folder, sizeof folder, "/proc/%d", process);
    if (geteuid() != 0 && !stat(folder, &status) && status.st_uid != geteuid())
        return "it belongs to another user: run this command as that user, or with sudo";
    return "in a container, start that with --cap-add=SYS_PTRACE; else run this command with sudo";
}

void ssi_explain_refusal(int process, int error, char *out, size_t size)
{
    int tracer = number_in(ssi_live_file(process, "status"), "TracerPid:");

    if (error == EPERM && is_dead(process))
        snprintf(out, size, "process %d has ended: only its parent has not asked for its status",
                 process);
    else if (error == EPERM && number_in(ssi_live_file(process, "status"), "VmLck:") < 0)
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
        snprintf(out, size, "may not trace process %d: %s", process, policy(process));
}
