/* Opens source files: no other file, whatever its name says. */
#include "report/source_line.h"

#include <errno.h>
#include <fcntl.h>
#include <stacksplice/source.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* File systems whose files come from the kernel, wherever they are mounted. */
static bool is_of_kernel(int fd)
{
    static const unsigned long kernels[] = {0x9FA0 /* proc */, 0x62656572 /* sysfs */,
                                            0x64626720 /* debugfs */, 0x74726163 /* tracefs */};
    struct statfs system;

    if (fstatfs(fd, &system))
        return true;
    for (size_t i = 0; i < SS_COUNT_OF(kernels); i++) {
        if ((unsigned long)system.f_type == kernels[i])
            return true;
    }
    return false;
}

/* Check the open file's real path, by its descriptor: its name may contain links. */
static bool is_in_kernel_folder(const char *link)
{
    static const char *const folders[] = {"/proc/", "/sys/", "/dev/"};
    char path[8];
    ssize_t length = readlink(link, path, sizeof path - 1);

    if (length <= 0)
        return true; /* cannot tell, so refuse */
    path[length] = '\0';
    for (size_t i = 0; i < SS_COUNT_OF(folders); i++) {
        if (!strncmp(path, folders[i], strlen(folders[i])))
            return true;
    }
    return false;
}

/*
 * Open FILE for reading, or return -1.  The first descriptor only refers to the file, because
 * opening a device or a FIFO can have effects.  The file is opened only after it is known to be
 * regular.  A rename in between does not matter: we read the same file that we checked.
 */
int ss_source_open(const char *file)
{
    char link[32];
    struct stat status;
    int named = open(file, O_PATH | O_CLOEXEC), fd = -1;

    if (named < 0)
        return -1;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", named);
    if (!fstat(named, &status) && S_ISREG(status.st_mode) && !is_of_kernel(named) &&
        !is_in_kernel_folder(link))
        fd = open(link, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    close(named);
    return fd;
}

int stacksplice_is_source_file(const char *file)
{
    int saved = errno, fd = file ? ss_source_open(file) : -1;

    if (fd >= 0)
        close(fd);
    errno = saved;
    return fd >= 0;
}
