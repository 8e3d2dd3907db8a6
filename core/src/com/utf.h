/* Converts UTF-8 to UTF-16.  For the reverse see stacksplice_utf8 (stacksplice/script.h). */
#ifndef SS_UTF_H
#define SS_UTF_H

#include "base/platform.h"
#include <stacksplice/winrt/wtypesbase.h>

/*
 * Convert LENGTH bytes at TEXT to UTF-16 in OUT, of CAPACITY units, without a NUL; returns the
 * units stored.  A surrogate encoded in three bytes stays that unit.  Other invalid UTF-8 becomes
 * one U+FFFD per maximal invalid part.  Output beyond CAPACITY is dropped by units: a pair may be
 * cut.
 */
size_t ss_utf16_from_utf8(const char *text, size_t length, WCHAR *out, size_t capacity);

#endif
