/* Texts that a test is given by parts, and what is in them. */
#ifndef STACKSPLICE_TEST_TEXT_H
#define STACKSPLICE_TEST_TEXT_H

#include <stddef.h>
#include <string.h>

/* A stacksplice_write: DATA is a string with room for BYTES. */
static inline int append(const char *bytes, size_t length, void *data)
{
    strncat(data, bytes, length);
    return 0;
}

static inline unsigned count_of(const char *all, const char *part)
{
    unsigned count = 0;

    for (; (all = strstr(all, part)) != NULL; all += strlen(part))
        count++;
    return count;
}

#endif
