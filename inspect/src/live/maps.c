/* What is mapped in a living process, from the kernel's list. */
#include "live/live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LINE = 8192, MAX_COMMAND = 1 << 16 };

/* ---- The program ------------------------------------------------------------------------------*/

FILE *ssi_live_file(int number, const char *name)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", number, name);
    return fopen(path, "re");
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
    FILE *file = ssi_live_file(process, "auxv");

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
    FILE *file = ssi_live_file(target->living, "cmdline");
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
    FILE *file = ssi_live_file(target->living, "maps");
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
