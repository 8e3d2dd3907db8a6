/* A callback that keeps what is written, for tests that compare it. */
#ifndef STACKSPLICE_TEST_KEPT_TEXT_H
#define STACKSPLICE_TEST_KEPT_TEXT_H

#include <stddef.h>
#include <string.h>

typedef struct written {
    char text[1 << 14];
    size_t length;
} written;

/* A stacksplice_write_callback: appends to DATA, a written; stops where that is full. */
static inline int keep(const char *text, size_t length, void *data)
{
    written *out = data;

    if (length >= sizeof out->text - out->length)
        return 1;
    memcpy(out->text + out->length, text, length);
    out->length += length;
    out->text[out->length] = '\0';
    return 0;
}

#endif
