/* Who a living process is to the files that it opens, as the kernel says it. */
#include "live/live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* The last of the numbers after the name of LINE: of those for files, behind three others. */
static void read_line(const char *line, ssi_user *user, unsigned *group)
{
    unsigned long long rights;

    if (sscanf(line, "Uid: %*u %*u %*u %u", &user->id) == 1)
        user->is_known = true;
    else if (!strncmp(line, "Groups:", 7))
        user->groups = strdup(line + 7);
    else if (sscanf(line, "CapEff: %llx", &rights) == 1)
        user->enters_all = user->reads_all = (rights & BEYOND_MODES) != 0;
    else
        (void)sscanf(line, "Gid: %*u %*u %*u %u", group);
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
    char path[64], *line = NULL;
    size_t room = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/status", number);
    file = fopen(path, "re");
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
