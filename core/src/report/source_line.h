/* Reads lines of source files, one by one, for readers of a report. */
#ifndef SS_SOURCE_LINE_H
#define SS_SOURCE_LINE_H

#include "base/platform.h"

#include <sys/types.h>

enum { SS_SOURCE_LINE_MAX = 500 };

/*
 * The file of the last line, which stays open: many frames of a stack are of the same file.  Begins
 * as SS_SOURCE_NONE.
 */
typedef struct ss_source {
    int64_t newest;  /* nanoseconds since 1970: no line of a file written later; 0: of any */
    const char *why; /* lines are not shown, as reports say it; NULL: all are */
    bool has_told, has_told_of_binaries; /* of either, and of binaries that were replaced */
    uint64_t name;                       /* a hash of it; 0: none */
    int fd;                              /* -1: it is no file to read */
    int64_t written_at, changed_at;
    off_t size;
    dev_t device;
    ino_t inode;
    bool is_settled; /* another content would have another time of change */
    uint32_t line;   /* begins at OFFSET; 0: unknown */
    off_t offset;
    uint64_t binary; /* a hash of the path of the last binary; 0: none */
    int64_t built;   /* when that was written */
} ss_source;

#define SS_SOURCE_NONE ((ss_source){.fd = -1})

void ss_source_close(ss_source *source);

/* What is known of the age of code, in nanoseconds since 1970; 0: nothing. */
typedef struct ss_code_times {
    int64_t built; /* its binary was written */
    int64_t met;   /* a capture had it */
} ss_code_times;

/*
 * Copy line LINE (1 is the first) of FILE to OUT without surrounding white space.  Returns its
 * length in bytes, 0 when there is none to show.  A longer line ends in dots.  Sets *COLUMN to
 * where OUT begins in the line: 1 is its first byte; 0 when there is none.
 *
 * Refuses a file that was written or put there after SOURCE->newest or after its code was MET, or was written
 * after BUILT, where these are not 0, and a relative name when the folder that it began at is not the one of now: these are
 * not the lines that ran.  Refuses a file of more than 16 MB.
 *
 * Opens only regular files, so it never waits.  It opens no files of the kernel: a script could
 * give a name below /proc, /sys or /dev, or a link to one, to read its host's secrets.
 */
size_t ss_source_line(ss_source *source, const char *file, uint32_t line, ss_code_times code,
                      char out[SS_SOURCE_LINE_MAX], uint32_t *column);

/* Fill STATE, which begins with the inode, with what decides on the lines of FILE; all 0 if ss_source_line
   reads none of it.  False: they may be others next time, with the same state. */
bool ss_source_state(ss_source *source, const char *file, ss_code_times code, uint64_t state[5]);

/* When the binary at PATH, which may be NULL, was written; 0 if nobody knows. */
int64_t ss_source_built_at(ss_source *source, const char *path);

/* Whether FILE can be read, but ss_source_line refuses it; the code was MET then, or 0. */
bool ss_source_refuses(ss_source *source, const char *file, int64_t met);

/* When what FILE, which can be read, says of itself was changed last; 0 if it cannot. */
int64_t ss_source_changed_at(ss_source *source, const char *file);

/* Why the lines of a relative name are refused. */
extern const char ss_source_moved[];

#endif
