/* Reads one line of a source file, for readers of a report. */
#ifndef SS_SOURCE_LINE_H
#define SS_SOURCE_LINE_H

#include "base/platform.h"

enum { SS_SOURCE_LINE_MAX = 500 };

/*
 * Copy line LINE (1 is the first) of FILE to OUT without surrounding white space.  Returns its
 * length in bytes, 0 when there is none to show.  A longer line ends in dots.  Sets *COLUMN to
 * where OUT begins in the line: 1 is its first byte; 0 when there is none.
 *
 * Opens only regular files, so it never waits.  It opens no files of the kernel: a script could
 * give a name below /proc, /sys or /dev, or a link to one, to read its host's secrets.
 */
size_t ss_source_line(const char *file, uint32_t line, char out[SS_SOURCE_LINE_MAX],
                      uint32_t *column);

#endif
