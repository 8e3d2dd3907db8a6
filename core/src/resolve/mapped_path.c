#include "resolve/mapped_path.h"

#include "resolve/binary.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { END = -1 };

/* The kernel's list of mappings, read piece by piece. */
typedef struct reader {
    int file, next; /* the character that comes next, or END */
    size_t at, end;
    unsigned char bytes[1024];
} reader;

static void advance(reader *r)
{
    ssize_t got;

    if (r->at == r->end) {
        do
            got = read(r->file, r->bytes, sizeof r->bytes);
        while (got < 0 && errno == EINTR);
        r->at = 0;
        r->end = got > 0 ? (size_t)got : 0;
    }
    r->next = r->at < r->end ? r->bytes[r->at++] : END;
}

static uintptr_t read_hex(reader *r)
{
    uintptr_t number = 0;

    for (;; advance(r)) {
        if (r->next >= '0' && r->next <= '9')
            number = number << 4 | (uintptr_t)(r->next - '0');
        else if (r->next >= 'a' && r->next <= 'f')
            number = number << 4 | (uintptr_t)(r->next - 'a' + 10);
        else
            return number;
    }
}

/* From here to the end of the line; a path that does not fit is none. */
static void read_path(reader *r, char *path)
{
    size_t length = 0;

    for (; r->next != '\n' && r->next != END; advance(r))
        if (length < SS_BINARY_PATH_MAX)
            path[length++] = (char)r->next;
    path[length < SS_BINARY_PATH_MAX ? length : 0] = 0;
}

/* A line: low-high permissions offset device inode, and the path, the first that has a slash. False
   when it is the one that holds ADDRESS, or there are no more. */
static bool read_line(reader *r, uintptr_t address, char *path)
{
    uintptr_t low = read_hex(r), high;

    if (r->next != '-')
        return false;
    advance(r);
    high = read_hex(r);
    while (r->next != '/' && r->next != '\n' && r->next != END)
        advance(r);
    if (address >= low && address < high) {
        read_path(r, path);
        return false;
    }
    while (r->next != '\n' && r->next != END)
        advance(r);
    advance(r);
    return true;
}

void ss_mapped_path(uintptr_t address, char *path)
{
    reader r = {.file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};

    *path = 0;
    if (r.file < 0)
        return;
    advance(&r);
    while (read_line(&r, address, path))
        continue;
    close(r.file);
}
