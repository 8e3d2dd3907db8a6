/* What is mapped in a living process, from the kernel's list. */
#include "live/live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LINE = 8192 };

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
    while (!error && fgets(line, MAX_LINE, file))
        if (!ssi_target_add_line(target, line))
            error = ENOMEM;
    fclose(file);
    free(line);
    snprintf(target->root, sizeof target->root, "/proc/%d/root", target->process);
    read_executable(target);
    return error;
}
