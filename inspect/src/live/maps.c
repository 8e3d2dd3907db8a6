/* What is mapped in a living process, from the kernel's list. */
#include "live/live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LINE = 8192 };

/* A mapping of LINE, whose path stays in it; false if the line is not understood. */
static bool parse(char *line, ssi_mapping *mapping)
{
    unsigned long long start, end, offset;
    char rights[5];
    int at = 0;

    if (sscanf(line, "%llx-%llx %4s %llx %*s %*s %n", &start, &end, rights, &offset, &at) < 4 ||
        !at)
        return false;
    line[strcspn(line, "\n")] = '\0';
    *mapping = (ssi_mapping){.start = start,
                             .end = end,
                             .offset = offset,
                             .readable = rights[0] == 'r',
                             .writable = rights[1] == 'w',
                             .executable = rights[2] == 'x',
                             .path = line[at] ? line + at : NULL};
    return true;
}

static void read_executable(ssi_target *target)
{
    char link[64], path[4096];
    ssize_t length;

    snprintf(link, sizeof link, "/proc/%d/exe", target->process);
    length = readlink(link, path, sizeof path - 1);
    if (length > 0) {
        path[length] = '\0';
        target->executable = strdup(path);
    }
}

int ssi_live_maps(ssi_target *target)
{
    char *line = malloc(MAX_LINE), path[64];
    FILE *file;
    int error = 0;

    snprintf(path, sizeof path, "/proc/%d/maps", target->process);
    file = line ? fopen(path, "re") : NULL;
    if (!file) {
        error = errno;
        free(line);
        return error ? error : ENOMEM;
    }
    while (!error && fgets(line, MAX_LINE, file)) {
        ssi_mapping mapping;

        if (parse(line, &mapping) && !ssi_target_add_mapping(target, &mapping))
            error = ENOMEM;
    }
    fclose(file);
    free(line);
    snprintf(target->root, sizeof target->root, "/proc/%d/root", target->process);
    read_executable(target);
    return error;
}
