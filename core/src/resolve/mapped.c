/*
 * Whether a file on disk is the one that was loaded, where no build-id tells.  The kernel names a
 * mapping as it names an open file, with a mark behind what was deleted or replaced.
 */
#include "resolve/debuginfo_session.h"

#include "splice/unloaded.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST = SS_BINARY_PATH_MAX + 128 };

/* The kernel's name of the file at PATH; false if it cannot be opened. */
static bool name_of_file(const char *path, char name[LONGEST])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char link[32];
    ssize_t length;

    if (fd < 0)
        return false;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, name, LONGEST - 1);
    close(fd);
    name[length > 0 ? length : 0] = 0;
    return length > 0;
}

/* Whether LINE of the kernel's list is of ADDRESS; *NAME is then what it ends with. */
static bool is_of(const char *line, uintptr_t address, const char **name)
{
    unsigned long start, end;
    int at = 0;

    if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &start, &end, &at) < 2 || !at ||
        address < start || address >= end)
        return false;
    *name = line + at;
    return true;
}

/* Whether ADDRESS has a mapping of the file NAME; true where the kernel does not tell. */
static bool is_mapped_at(uintptr_t address, const char *name)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    static char lines[2 * LONGEST]; /* (LOCK of native.c) */
    const char *mapped = NULL;
    size_t have = 0;
    ssize_t got;

    while (fd >= 0 && !mapped && (got = read(fd, lines + have, sizeof lines - 1 - have)) > 0) {
        char *line = lines, *end;

        have += (size_t)got;
        lines[have] = 0;
        for (; (end = strchr(line, '\n')) != NULL && !mapped; line = end + 1) {
            *end = 0;
            if (is_of(line, address, &mapped))
                break;
        }
        if (!mapped) {
            have -= (size_t)(line - lines);
            memmove(lines, line, have);
        }
    }
    if (fd >= 0)
        close(fd);
    return !mapped || !strcmp(mapped, name);
}

bool ss_file_is_mapped(const ss_binary *module)
{
    static char name[LONGEST]; /* (LOCK of native.c) */

    return ss_met_file_stays(module->start + 1) &&
           (!name_of_file(module->path, name) || is_mapped_at(module->start, name));
}
