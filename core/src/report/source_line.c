#include "report/source_line.h"

#include <errno.h>
#include <fcntl.h>
#include <stacksplice/source.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { BYTES_MAX = 16 << 20 }; /* bytes read of a file at most: a report does not wait for more */

typedef struct reader {
    int fd;
    size_t left;
    size_t at, end;
    char buffer[1024]; /* a stack may be small */
} reader;

/* The next byte, or -1 at the end. */
static int next_byte(reader *r)
{
    if (r->at == r->end) {
        ssize_t got;

        do {
            got = read(r->fd, r->buffer, sizeof r->buffer);
        } while (got < 0 && errno == EINTR);
        if (got <= 0 || (size_t)got > r->left)
            return -1;
        r->left -= (size_t)got;
        r->at = 0;
        r->end = (size_t)got;
    }
    return (unsigned char)r->buffer[r->at++];
}

static bool is_blank(int c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f';
}

/* End a cut line with dots, after a whole character. */
static size_t mark_cut(char out[SS_SOURCE_LINE_MAX])
{
    static const char dots[] = "...";
    size_t length = SS_SOURCE_LINE_MAX - (sizeof dots - 1);

    while (length && ((unsigned char)out[length] & 0xC0) == 0x80)
        length--;
    memcpy(out + length, dots, sizeof dots - 1);
    return length + sizeof dots - 1;
}

static size_t read_line(reader *r, uint32_t line, char *out, uint32_t *column)
{
    size_t length = 0;
    int c = 0;

    for (uint32_t i = 1; i < line && c >= 0; i++) {
        while ((c = next_byte(r)) >= 0 && c != '\n') {
        }
    }
    if (c < 0)
        return 0;
    *column = 1;
    while ((c = next_byte(r)) >= 0 && c != '\n') {
        if (length == SS_SOURCE_LINE_MAX)
            return mark_cut(out);
        if (length || !is_blank(c))
            out[length++] = (char)c;
        else
            ++*column;
    }
    while (length && is_blank((unsigned char)out[length - 1]))
        length--;
    return length;
}

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
static int open_source(const char *file)
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
    int saved = errno, fd = file ? open_source(file) : -1;

    if (fd >= 0)
        close(fd);
    errno = saved;
    return fd >= 0;
}

size_t ss_source_line(const char *file, uint32_t line, char out[SS_SOURCE_LINE_MAX],
                      uint32_t *column)
{
    int saved = errno;
    size_t length = 0;
    reader r;

    *column = 0;
    r.fd = line ? open_source(file) : -1;
    r.left = BYTES_MAX;
    r.at = r.end = 0;
    if (r.fd >= 0) {
        length = read_line(&r, line, out, column);
        close(r.fd);
    }
    errno = saved;
    if (!length)
        *column = 0;
    return length;
}
