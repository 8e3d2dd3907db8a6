/*
 * Separate debug files by the name and the checksum that a stripped binary has in .gnu_debuglink:
 * beside it, in .debug beside it, and below /usr/lib/debug.
 */
#include "resolve/debuginfo_session.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint32_t table[256]; /* (LOCK of native.c) of the checksum of Ethernet and zlib */

static void fill_table(void)
{
    for (uint32_t i = 0; i < SS_COUNT_OF(table); i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
    }
}

static bool has_checksum(int fd, uint32_t wanted)
{
    static uint8_t bytes[1 << 16]; /* (LOCK of native.c) */
    uint32_t sum = UINT32_MAX;
    ssize_t got;

    fill_table();
    while ((got = read(fd, bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < got; i++)
            sum = sum >> 8 ^ table[(sum ^ bytes[i]) & 0xff];
    }
    return !got && ~sum == wanted && !lseek(fd, 0, SEEK_SET);
}

/* A descriptor of the regular file PATH if it has that checksum, else -1. */
static int open_checked(const char *path, uint32_t checksum)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;

    if (fd >= 0 &&
        (fstat(fd, &status) || !S_ISREG(status.st_mode) || !has_checksum(fd, checksum))) {
        close(fd);
        return -1;
    }
    return fd;
}

int ss_debuglink_open(const char *binary, const char *link, uint32_t checksum)
{
    static const char *const forms[] = {"%.*s%s", "%.*s.debug/%s", "/usr/lib/debug%.*s%s"};
    static char path[2 * SS_BINARY_PATH_MAX]; /* (LOCK of native.c) */
    const char *slash = binary ? strrchr(binary, '/') : NULL;
    int fd = -1;

    if (!link || !*link || strchr(link, '/') || !slash)
        return -1;
    for (size_t i = 0; i < SS_COUNT_OF(forms) && fd < 0; i++) {
        int length = snprintf(path, sizeof path, forms[i], (int)(slash + 1 - binary), binary, link);

        if (length > 0 && (size_t)length < sizeof path && strcmp(path, binary) != 0)
            fd = open_checked(path, checksum);
    }
    return fd;
}
