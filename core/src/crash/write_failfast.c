#include "crash/crash.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int ss_crash_stderr = STDERR_FILENO;

int ss_crash_write(const char *text, size_t length, void *data)
{
    const int *file = data;

    while (length) {
        ssize_t done = write(*file, text, length);

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
