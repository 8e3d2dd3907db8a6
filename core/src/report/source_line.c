#include "report/source_line.h"

#include "base/hash.h"
#include "splice/source.h"

#include <stacksplice/source.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum { BYTES_MAX = 16 << 20 /* of a file whose lines are read: a report does not wait for more */ };

/* ---- Opening source files: no other file, whatever its name says ------------------------------*/

/* Whether the open file is of the kernel: by its file system, wherever that is mounted, and by its
   real path, since its name may contain links. */
static bool is_of_kernel(int fd, const char *link)
{
    static const unsigned long systems[] = {0x9FA0 /* proc */, 0x62656572 /* sysfs */,
                                            0x64626720 /* debugfs */, 0x74726163 /* tracefs */};
    static const char *const folders[] = {"/proc/", "/sys/", "/dev/"};
    struct statfs system;
    char path[8] = "";
    /* What cannot be asked is refused. */
    bool found = readlink(link, path, sizeof path - 1) <= 0 || fstatfs(fd, &system);

    for (size_t i = 0; i < SS_COUNT_OF(systems) && !found; i++)
        found = (unsigned long)system.f_type == systems[i];
    for (size_t i = 0; i < SS_COUNT_OF(folders) && !found; i++)
        found = !strncmp(path, folders[i], strlen(folders[i]));
    return found;
}

/*
 * Open FILE for reading and fill STATUS, or return -1.  The first descriptor only refers to the
 * file, because opening a device or a FIFO can have effects.  The file is opened only after it is
 * known to be regular.  A rename in between does not matter: we read the same file that we checked.
 */
static int open_source(const char *file, struct stat *status)
{
    char link[32];
    int named = open(file, O_PATH | O_CLOEXEC), fd = -1;

    if (named < 0)
        return -1;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", named);
    if (!fstat(named, status) && S_ISREG(status->st_mode) && !is_of_kernel(named, link))
        fd = open(link, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    close(named);
    return fd;
}

int stacksplice_is_source_file(const char *file)
{
    struct stat status;
    int saved = errno, fd = file ? open_source(file, &status) : -1;

    if (fd >= 0)
        close(fd);
    errno = saved;
    return fd >= 0 && status.st_size <= BYTES_MAX;
}

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
    source->name = 0;
    source->fd = -1;
    source->line = 0;
    errno = saved;
}

static int64_t time_of(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Never 0. */
static uint64_t hash_of(const char *path)
{
    return ss_hash_bytes(SS_HASH_START, path, strlen(path)) | 1;
}

int64_t ss_source_built_at(ss_source *source, const char *path)
{
    uint64_t binary = path ? hash_of(path) : 0;
    struct stat status;
    int saved = errno;

    if (source->binary != binary) {
        source->binary = binary;
        source->built = path && !stat(path, &status) ? time_of(status.st_mtim) : 0;
        errno = saved;
    }
    return source->built;
}

/* Whether nothing was changed just now: within the tick of a coarse clock further changes leave the times
   as they are. */
static bool is_settled(const ss_source *source)
{
    enum { TICK = 2 /* seconds, of the coarsest file systems */ };
    struct timespec now;

    return !clock_gettime(CLOCK_REALTIME, &now) &&
           source->changed_at / 1000000000 + TICK < (int64_t)now.tv_sec;
}

/* Whether FILE is one to read. */
static bool turn_to(ss_source *source, const char *file)
{
    uint64_t name = hash_of(file);
    struct stat status;

    if (source->name != name) {
        ss_source_close(source);
        source->name = name;
        source->fd = open_source(file, &status);
        if (source->fd >= 0) {
            source->written_at = time_of(status.st_mtim);
            source->changed_at = time_of(status.st_ctim);
            source->size = status.st_size;
            source->device = status.st_dev;
            source->inode = status.st_ino;
            source->is_settled = is_settled(source);
        }
    }
    return source->fd >= 0;
}

const char ss_source_moved[] =
    "no lines of files with relative names: the working directory has changed";

/* Whether the open file can have the lines that ran; if not, notes why.  A file that took the place of
   another one may have been written before it, but came here later.  When a binary's file came here
   says nothing, since sources and binaries are copied in any order. */
static bool is_as_it_was(ss_source *source, const char *file, ss_code_times code)
{
    int64_t changed =
        source->written_at > source->changed_at ? source->written_at : source->changed_at;
    const char *why = NULL;

    if (*file != '/' && ss_folder_has_changed())
        why = ss_source_moved;
    else if (source->size > BYTES_MAX)
        why = "no lines of files that are longer than 16 MB";
    else if (source->newest && changed > source->newest)
        why = "no lines of files that were changed after this";
    else if (code.met && changed > code.met)
        why = "no lines of files that were changed after their code ran first";
    else if (code.built && source->written_at > code.built)
        why = "no lines of files that were changed after their binary was built";
    source->why = why ? why : source->why;
    return !why;
}

/* ---- Its lines -------------------------------------------------------------------------------*/

/* A place in the file, of which a part is in memory. */
typedef struct reader {
    const ss_source *source;
    off_t offset;      /* of what follows the window */
    size_t at, end;    /* in the window */
    char window[1024]; /* small: so may be the stack */
} reader;

/* Whether there is a byte at AT. */
static bool fill(reader *r)
{
    ssize_t got = 0;

    if (r->at < r->end)
        return true;
    if (r->offset < BYTES_MAX) {
        do {
            got = pread(r->source->fd, r->window, sizeof r->window, r->offset);
        } while (got < 0 && errno == EINTR);
    }
    r->at = 0;
    r->end = got > 0 ? (size_t)got : 0;
    r->offset += (off_t)r->end;
    return got > 0;
}

/* Go behind the next end of a line; false if there is none. */
static bool skip_line(reader *r)
{
    while (fill(r)) {
        const char *end = memchr(r->window + r->at, '\n', r->end - r->at);

        r->at = end ? (size_t)(end + 1 - r->window) : r->end;
        if (end)
            return true;
    }
    return false;
}

/* Go to LINE, from the last one that was read where that is further up; false if there is none. */
static bool go_to_line(reader *r, ss_source *source, uint32_t line)
{
    bool ahead = source->line && source->line <= line;
    uint32_t at = ahead ? source->line : 1;

    r->source = source;
    r->offset = ahead ? source->offset : 0;
    r->at = r->end = 0;
    while (at < line && skip_line(r))
        at++;
    source->line = at == line ? line : 0;
    source->offset = r->offset - (off_t)(r->end - r->at);
    return at == line;
}

static bool is_blank(char c)
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

/* Noinline: the window is large for a small stack. */
static SS_NOINLINE size_t read_line(ss_source *source, uint32_t line, char *out, uint32_t *column)
{
    size_t length = 0;
    reader r;

    if (!is_still_ours(source) || !go_to_line(&r, source, line))
        return 0;
    *column = 1;
    while (fill(&r) && r.window[r.at] != '\n') {
        char c = r.window[r.at++];

        if (length == SS_SOURCE_LINE_MAX)
            return mark_cut(out);
        if (length || !is_blank(c))
            out[length++] = c;
        else
            ++*column;
    }
    while (length && is_blank(out[length - 1]))
        length--;
    return length;
}

int64_t ss_source_changed_at(ss_source *source, const char *file)
{
    int saved = errno;
    int64_t changed = turn_to(source, file) ? source->changed_at : 0;

    errno = saved;
    return changed;
}

bool ss_source_refuses(ss_source *source, const char *file, int64_t met)
{
    int saved = errno;
    bool refuses =
        turn_to(source, file) && !is_as_it_was(source, file, (ss_code_times){.met = met});

    errno = saved;
    return refuses;
}

bool ss_source_state(ss_source *source, const char *file, ss_code_times code, uint64_t state[5])
{
    int saved = errno;
    bool is_read = turn_to(source, file) && is_as_it_was(source, file, code);

    memset(state, 0, 5 * sizeof *state);
    if (is_read) {
        state[0] = (uint64_t)source->inode;
        state[1] = (uint64_t)source->device;
        state[2] = (uint64_t)source->size;
        state[3] = (uint64_t)source->written_at;
        state[4] = (uint64_t)source->changed_at;
    }
    errno = saved;
    return !is_read || source->is_settled;
}

size_t ss_source_line(ss_source *source, const char *file, uint32_t line, ss_code_times code,
                      char out[SS_SOURCE_LINE_MAX], uint32_t *column)
{
    int saved = errno;
    size_t length = 0;

    if (line && turn_to(source, file) && is_as_it_was(source, file, code))
        length = read_line(source, line, out, column);
    errno = saved;
    if (!length)
        *column = 0;
    return length;
}
