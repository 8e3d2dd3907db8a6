#include "report/source_line.h"

#include "base/alloc.h"
#include "splice/source.h"

#include <stacksplice/source.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- Source open -----------------------------------------------------------------------------*/

/* Opens source files: no other file, whatever its name says. */

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

/* A descriptor of FILE, or -1 if it is none of source. */
/*
 * Open FILE for reading, or return -1.  The first descriptor only refers to the file, because
 * opening a device or a FIFO can have effects.  The file is opened only after it is known to be
 * regular.  A rename in between does not matter: we read the same file that we checked.
 */
static int ss_source_open(const char *file)
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

/* ---- Source line -----------------------------------------------------------------------------*/

enum {
    BYTES_MAX = 16 << 20, /* bytes read of a file at most: a report does not wait for more */
    WINDOW = 16384,
    SMALL_WINDOW = 1024 /* on the stack, which may be small */
};

/* ---- The file --------------------------------------------------------------------------------*/

/* A host that closed all its descriptors may have given the number to a file of its own. */
static bool is_still_ours(const ss_source *source)
{
    struct stat status;

    return source->fd >= 0 && !fstat(source->fd, &status) && status.st_dev == source->device &&
           status.st_ino == source->inode;
}

void ss_source_close(ss_source *source)
{
    int saved = errno;

    if (is_still_ours(source))
        close(source->fd);
    ss_free(source->path);
    source->path = NULL;
    source->fd = -1;
    source->begin = 0;
    source->end = 0;
    source->line = 0;
    errno = saved;
}

static int64_t time_of(const struct stat *status)
{
    return (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
}

int64_t ss_written_at(const char *path)
{
    struct stat status;
    int saved = errno;
    int64_t time = path && !stat(path, &status) ? time_of(&status) : 0;

    errno = saved;
    return time;
}

static void open_file(ss_source *source, const char *file)
{
    struct stat status;

    source->fd = ss_source_open(file);
    if (source->fd >= 0 && fstat(source->fd, &status)) {
        close(source->fd);
        source->fd = -1;
    }
    if (source->fd >= 0) {
        source->written_at = time_of(&status);
        source->device = status.st_dev;
        source->inode = status.st_ino;
    }
}

/* Whether FILE is one to read. */
static bool turn_to(ss_source *source, const char *file)
{
    size_t size = strlen(file) + 1;

    if (!source->path || strcmp(source->path, file) != 0) {
        ss_source_close(source);
        open_file(source, file);
        source->path = ss_alloc_dirty(size + WINDOW);
        if (source->path)
            memcpy(source->path, file, size);
    }
    return source->fd >= 0;
}

/* Whether the open file can have the lines that ran; if not, notes why. */
static bool is_as_it_was(ss_source *source, const char *file, int64_t built)
{
    if (*file != '/' && ss_folder_has_changed())
        source->is_elsewhere = true;
    else if (source->newest && source->written_at > source->newest)
        source->is_newer = true;
    else if (built && source->written_at > built)
        source->is_newer_than_binary = true;
    else
        return true;
    return false;
}

/* ---- Its bytes -------------------------------------------------------------------------------*/

/* A place in the file, of which a part is in memory. */
typedef struct reader {
    ss_source *source;
    char *window;
    size_t room, at; /* of the window */
} reader;

/* Whether there is a byte at AT. */
static bool fill(reader *r)
{
    ss_source *source = r->source;
    ssize_t got;

    if (r->at < source->end)
        return true;
    source->begin += (off_t)source->end;
    source->end = r->at = 0;
    if (source->begin >= BYTES_MAX || !is_still_ours(source))
        return false;
    do {
        got = pread(source->fd, r->window, r->room, source->begin);
    } while (got < 0 && errno == EINTR);
    source->end = got > 0 ? (size_t)got : 0;
    return got > 0;
}

static void go_to_offset(reader *r, off_t offset)
{
    ss_source *source = r->source;
    off_t ahead = offset - source->begin;

    if (ahead >= 0 && ahead <= (off_t)source->end) {
        r->at = (size_t)ahead;
    } else {
        source->begin = offset;
        source->end = r->at = 0;
    }
}

/* The next byte, or -1 at the end. */
static int next_byte(reader *r)
{
    return fill(r) ? (unsigned char)r->window[r->at++] : -1;
}

/* Go behind the next end of a line; false if there is none. */
static bool skip_line(reader *r)
{
    while (fill(r)) {
        const char *end = memchr(r->window + r->at, '\n', r->source->end - r->at);

        r->at = end ? (size_t)(end + 1 - r->window) : r->source->end;
        if (end)
            return true;
    }
    return false;
}

/* ---- Its lines -------------------------------------------------------------------------------*/

/* Go to LINE, from the last one that was read where that is further up; false if there is none. */
static bool go_to_line(reader *r, uint32_t line)
{
    ss_source *source = r->source;
    bool ahead = source->line && source->line <= line;
    uint32_t at = ahead ? source->line : 1;

    go_to_offset(r, ahead ? source->offset : 0);
    while (at < line && skip_line(r))
        at++;
    source->line = at == line ? line : 0;
    source->offset = source->begin + (off_t)r->at;
    return at == line;
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

static size_t read_line(reader *r, char *out, uint32_t *column)
{
    size_t length = 0;
    int c;

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

/* Noinline: the window is large for a small stack. */
SS_NOINLINE static size_t read_without_memory(ss_source *source, uint32_t line, char *out,
                                              uint32_t *column)
{
    char window[SMALL_WINDOW];
    reader r = {source, window, sizeof window, 0};
    size_t length = go_to_line(&r, line) ? read_line(&r, out, column) : 0;

    source->begin = 0;
    source->end = 0;
    return length;
}

bool ss_source_refuses(ss_source *source, const char *file)
{
    int saved = errno;
    bool refuses = turn_to(source, file) && !is_as_it_was(source, file, 0);

    errno = saved;
    return refuses;
}

const char *ss_why_no_lines(const ss_source *source)
{
    if (source->is_newer)
        return "no lines of files that were changed after this";
    if (source->is_elsewhere)
        return "no lines of files with relative names: the working directory has changed";
    if (source->is_newer_than_binary)
        return "no lines of files that were changed after their binary was built";
    return NULL;
}

size_t ss_source_line(ss_source *source, const char *file, uint32_t line, int64_t built,
                      char out[SS_SOURCE_LINE_MAX], uint32_t *column)
{
    int saved = errno;
    size_t length = 0;

    *column = 0;
    if (line && turn_to(source, file) && is_as_it_was(source, file, built)) {
        if (source->path) {
            reader r = {source, source->path + strlen(source->path) + 1, WINDOW, 0};

            length = go_to_line(&r, line) ? read_line(&r, out, column) : 0;
        } else {
            length = read_without_memory(source, line, out, column);
        }
    }
    errno = saved;
    if (!length)
        *column = 0;
    return length;
}
