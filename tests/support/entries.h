/* The entries of .eh_frame, one after the other. */
#ifndef STACKSPLICE_TEST_ENTRIES_H
#define STACKSPLICE_TEST_ENTRIES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The entry after the one at AT; NULL if that is the last, or does not end before END. */
static inline const uint8_t *entry_after(const uint8_t *at, const uint8_t *end)
{
    uint32_t length;

    if (end - at < (ptrdiff_t)sizeof length)
        return NULL;
    memcpy(&length, at, sizeof length);
    at += sizeof length;
    return length && length <= (size_t)(end - at) ? at + length : NULL;
}

#endif
