/*
 * A cursor for reading unwind data, which never leaves its bytes.  After the first read that would
 * leave them it has failed for good, and every read gives 0.  So callers check once.
 */
#ifndef SS_CURSOR_H
#define SS_CURSOR_H

#include "base/platform.h"

#include <string.h>

typedef struct ss_cursor {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
} ss_cursor;

static inline ss_cursor ss_cursor_over(const void *at, const void *end)
{
    return (ss_cursor){at, end, (uintptr_t)at > (uintptr_t)end};
}

static inline size_t ss_cursor_left(const ss_cursor *c)
{
    return c->failed ? 0 : (size_t)(c->end - c->at);
}

/* The skipped bytes, or NULL. */
static inline const uint8_t *ss_cursor_skip(ss_cursor *c, uint64_t bytes)
{
    const uint8_t *at = c->at;

    if (bytes > ss_cursor_left(c)) {
        c->failed = true;
        return NULL;
    }
    c->at += bytes;
    return at;
}

/* Read SIZE bytes (1, 2, 4 or 8) as unsigned, in this machine's byte order. */
static inline uint64_t ss_cursor_unsigned(ss_cursor *c, unsigned size)
{
    const uint8_t *at = ss_cursor_skip(c, size);
    uint16_t two;
    uint32_t four;
    uint64_t eight;

    if (!at)
        return 0;
    switch (size) {
    case 1:
        return *at;
    case 2:
        memcpy(&two, at, sizeof two);
        return two;
    case 4:
        memcpy(&four, at, sizeof four);
        return four;
    default:
        memcpy(&eight, at, sizeof eight);
        return eight;
    }
}

static inline uint8_t ss_cursor_byte(ss_cursor *c)
{
    return (uint8_t)ss_cursor_unsigned(c, 1);
}

static inline int64_t ss_cursor_signed(ss_cursor *c, unsigned size)
{
    uint64_t value = ss_cursor_unsigned(c, size);
    unsigned unused = 64 - 8 * size;

    return (int64_t)(value << unused) >> unused;
}

/* Drops bits beyond the 64th, as readers of DWARF do. */
static inline uint64_t ss_cursor_uleb(ss_cursor *c)
{
    uint64_t value = 0;
    uint8_t byte;
    unsigned shift = 0;

    do {
        byte = ss_cursor_byte(c);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    return value;
}

static inline int64_t ss_cursor_sleb(ss_cursor *c)
{
    uint64_t value = 0;
    uint8_t byte;
    unsigned shift = 0;

    do {
        byte = ss_cursor_byte(c);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    if (shift < 64 && (byte & 0x40))
        value |= UINT64_MAX << shift;
    return (int64_t)value;
}

#endif
