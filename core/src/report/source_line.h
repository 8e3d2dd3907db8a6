/* One line of a source file, for people who read a report. */
#ifndef SS_SOURCE_LINE_H
#define SS_SOURCE_LINE_H

#include "base/platform.h"

enum { SS_SOURCE_LINE_MAX = 500 };

/*
 * Line LINE (1 is the first) of FILE without the white space around it, into OUT; its length in
 * bytes, 0 when there is none to show.  One that is longer ends in dots.  Only regular files are
 * opened, for nothing may wait, and none of the kernel's: a name below /proc, /sys or /dev, or a
 * link there, may be what a script made up to read its host's secrets.
 */
size_t ss_source_line(const char *file, uint32_t line, char out[SS_SOURCE_LINE_MAX]);

#endif
