/*
 * Reads and writes code points in UTF-8 and UTF-16, one by one, and converts UTF-8 to UTF-16.  For
 * the reverse see stacksplice_utf8 (stacksplice/script.h).
 */
#ifndef SS_BASE_UTF_H
#define SS_BASE_UTF_H

#include "base/platform.h"

enum { SS_REPLACEMENT = 0xFFFD };

/*
 * The code point at BYTES[*AT]; advances *AT past it.  U+FFFD for each maximal part that is not
 * UTF-8.  A surrogate encoded in three bytes stays one.
 */
uint32_t ss_utf8_next(const char *bytes, size_t length, size_t *at);

/* The same in UTF-16, where an unpaired surrogate is U+FFFD. */
uint32_t ss_utf16_next(const uint16_t *text, size_t length, size_t *at);

/* Encode POINT in UTF-8; returns the number of bytes. */
size_t ss_utf8_put(uint32_t point, char out[4]);

/*
 * Convert LENGTH bytes at TEXT to UTF-16 in OUT, of CAPACITY units, without a NUL; returns the
 * units stored.  A surrogate encoded in three bytes stays that unit.  Other invalid UTF-8 becomes
 * one U+FFFD per maximal invalid part.  Output beyond CAPACITY is dropped by units: a pair may be
 * cut.
 */
size_t ss_utf16_from_utf8(const char *text, size_t length, uint16_t *out, size_t capacity);

#endif
