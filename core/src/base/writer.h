/*
 * The sticky sink for every report.  After a write failed or asked to stop, it ignores everything
 * else.  So callers write twenty fields and check once, in ss_writer_finish.
 *
 * Nothing here allocates, locks or reads a locale, so a crash report can use it too.
 */
#ifndef SS_WRITER_H
#define SS_WRITER_H

#include "base/platform.h"
#include <stacksplice/stacksplice.h>

typedef struct ss_writer {
    stacksplice_write_callback write;
    void *data;
    bool failed;
    bool line_begun;  /* the margin of this line is written */
    char margin_char; /* of the next line; the lines after it get '|' */
    uint32_t margin;  /* write twice as many blanks and a '|' before each line; 0: nothing */
    uint32_t flushes; /* of the buffer, so far */
    size_t used;
    char buffer[1024];
} ss_writer;

/* A text of SIZE bytes at most in which a writer ends, with a NUL; SIZE is not 0. */
typedef struct ss_kept_text {
    char *to;
    size_t size, used;
} ss_kept_text;

/* A write callback for one: keeps as much as fits, and fails when that is not all. */
int ss_writer_keep(const char *bytes, size_t length, void *kept);

/* How to escape characters that would break the surrounding syntax or control a terminal. */
typedef enum ss_escape {
    SS_ESCAPE_NOTHING, /* for programs, not for readers */
    /* Escape what controls a terminal, ends a line or changes text direction: \xNN, \uNNNN. */
    SS_ESCAPE_LINE,
    SS_ESCAPE_TABS, /* the same, but keep tabs */
    SS_ESCAPE_JSON  /* the inside of a JSON string */
} ss_escape;

void ss_writer_init(ss_writer *w, stacksplice_write_callback write, void *data);

/*
 * Set the margin from the next line on: two blanks for each of DEPTH, then FIRST (in later lines
 * '|') and, unless the line is empty, a blank.  DEPTH 0: nothing.  Call it at the start of a line.
 */
void ss_writer_margin(ss_writer *w, uint32_t depth, char first);

/* Write BYTES unchanged, except for the margin. */
void ss_writer_put(ss_writer *w, const char *bytes, size_t length);
void ss_writer_text(ss_writer *w, const char *text);

void ss_writer_blanks(ss_writer *w, size_t count);

void ss_writer_decimal(ss_writer *w, uint64_t value);

/* Lower-case hexadecimal without prefix, zero-padded to DIGITS. */
void ss_writer_hex(ss_writer *w, uint64_t value, unsigned digits);

/* Write text of any origin as valid UTF-8: U+FFFD replaces what is not Unicode. */
void ss_writer_utf8(ss_writer *w, const char *bytes, size_t length, ss_escape escape);
void ss_writer_utf16(ss_writer *w, const uint16_t *units, size_t length, ss_escape escape);

/* Flush the buffer if little room is left: what is written next is in it as a whole, unless it is long. */
void ss_writer_make_room(ss_writer *w);

/* Flush the buffer.  True if every byte was accepted. */
bool ss_writer_finish(ss_writer *w);

#endif
