/* UTF-8 to UTF-16.  The way back is stacksplice_utf8 (stacksplice/script.h). */
#ifndef SS_UTF_H
#define SS_UTF_H

#include "base/platform.h"
#include <stacksplice/winrt/wtypesbase.h>

/*
 * The UTF-16 form of LENGTH bytes at TEXT into OUT, of CAPACITY units, without a NUL; returns the
 * units stored.  A surrogate encoded in three bytes stays that unit; what is not valid UTF-8
 * otherwise becomes one U+FFFD per maximal invalid part.  What does not fit is left out by units: a
 * pair may be cut.
 */
size_t ss_utf16_from_utf8(const char *text, size_t length, WCHAR *out, size_t capacity);

#endif
