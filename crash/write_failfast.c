#include "crash/crash.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { STDERR_PATIENCE_MS = 5000 };

int ss_crash_stderr = STDERR_FILENO;

/*
 * Whether the reader of stderr takes PIPE_BUF bytes.  A pipe that nobody reads would hold a process
 * that crashes for ever.  A reader that was too slow once is not waited for again.
 */
static bool is_read(void)
{
    static atomic_bool was_too_slow; /* (ATOMIC) */
    struct pollfd stderr_now = {.fd = ss_crash_stderr, .events = POLLOUT};
    int ready;

    do
        ready = poll(&stderr_now, 1, atomic_load(&was_too_slow) ? 0 : STDERR_PATIENCE_MS);
    while (ready < 0 && errno == EINTR);
    atomic_store(&was_too_slow, ready == 0);
    return ready != 0;
}

/* Descriptors that leak are a frequent reason for the end of a process. */
int ss_crash_open(const char *path, int flags)
{
    int file = open(path, flags, 0600), error = errno;
    struct rlimit limit, higher;

    if (file >= 0 || error != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return file;
    higher = limit;
    higher.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &higher) == 0) {
        file = open(path, flags, 0600);
        error = errno;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    errno = error;
    return file;
}

int ss_crash_write(const char *text, size_t length, void *data)
{
    const int *file = data;

    while (length) {
        ssize_t done;

        if (file == &ss_crash_stderr && !is_read())
            return 1;
        done = write(*file, text, length < PIPE_BUF ? length : PIPE_BUF);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return 1;
        text += done;
        length -= (size_t)done;
    }
    return 0;
}

int ss_crash_append(const char *bytes, size_t length, void *data)
{
    ss_crash_text *t = data;

    if (length >= t->size - t->used)
        return 1;
    memcpy(t->to + t->used, bytes, length);
    t->used += length;
    t->to[t->used] = 0;
    return 0;
}
