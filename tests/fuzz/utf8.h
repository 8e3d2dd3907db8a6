/* What a report wrote, and whether a terminal or a reader of lines can be led astray by it. */
#ifndef FUZZ_UTF8_H
#define FUZZ_UTF8_H

#include "base/writer.h"

typedef struct utf8_output {
    char *bytes;
    size_t size, room;
} utf8_output;

/* A stacksplice_write_callback; DATA is the utf8_output. */
int utf8_collect(const char *bytes, size_t size, void *data);

/*
 * Valid UTF-8 without control characters but for those of ALLOWED; and, unless it is JSON, without
 * characters that turn the direction of text or separate lines.
 */
bool utf8_is_harmless(const utf8_output *out, ss_escape escape, const char *allowed);

#endif
