#include "report/source_line.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES_MAX = 16 << 20 }; /* of a file: a report does not wait for what lies behind */

typedef struct reader {
    int fd;
    size_t left;
    size_t at, end;
    char buffer[4096];
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

static size_t read_line(reader *r, uint32_t line, char *out)
{
    size_t length = 0;
    int c = 0;

    for (uint32_t i = 1; i < line && c >= 0; i++) {
        while ((c = next_byte(r)) >= 0 && c != '\n') {
        }
    }
    if (c < 0)
        return 0;
    while ((c = next_byte(r)) >= 0 && c != '\n' && length < SS_SOURCE_LINE_MAX) {
        if (length || !is_blank(c))
            out[length++] = (char)c;
    }
    while (length && is_blank((unsigned char)out[length - 1]))
        length--;
    return length;
}

size_t ss_source_line(const char *file, uint32_t line, char out[SS_SOURCE_LINE_MAX])
{
    int saved = errno;
    size_t length = 0;
    struct stat status;
    reader r;

    r.fd = line ? open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    r.left = BYTES_MAX;
    r.at = r.end = 0;
    if (r.fd >= 0) {
        if (!fstat(r.fd, &status) && S_ISREG(status.st_mode))
            length = read_line(&r, line, out);
        close(r.fd);
    }
    errno = saved;
    return length;
}
