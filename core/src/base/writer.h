/*
 * The sticky sink that every report is written through.  After a write failed or asked to stop,
 * everything else is ignored: callers write twenty fields and check once, in ss_writer_finish.
 *
 * Nothing here allocates, locks or reads a locale, so that a crash report can use it too.
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
    char margin_char; /* of the next line; those behind it get '|' */
    uint32_t margin;  /* twice as many blanks and a '|' before each line; 0: nothing */
    size_t used;
    char buffer[1024];
} ss_writer;

/* What becomes of characters that would break the surrounding syntax or drive a terminal. */
typedef enum ss_escape {
    /* What drives a terminal, ends a line or turns the order of what is read: \xNN, \uNNNN. */
    SS_ESCAPE_LINE,
    SS_ESCAPE_TABS, /* the same, but tabs stay */
    SS_ESCAPE_JSON  /* the inside of a JSON string */
} ss_escape;

void ss_writer_init(ss_writer *w, stacksplice_write_callback write, void *data);

/* From the next line on: two blanks for each of DEPTH, then FIRST (in further lines '|') and,
   unless the line is empty, a blank.  DEPTH 0: nothing.  Call it where a line begins. */
void ss_writer_margin(ss_writer *w, uint32_t depth, char first);

/* BYTES as they are, but for the margin. */
void ss_writer_put(ss_writer *w, const char *bytes, size_t length);
void ss_writer_text(ss_writer *w, const char *text);

void ss_writer_decimal(ss_writer *w, uint64_t value);

/* Lower-case hexadecimal without prefix, filled with zeros to DIGITS. */
void ss_writer_hex(ss_writer *w, uint64_t value, unsigned digits);

/* Text of any origin as valid UTF-8: U+FFFD stands for what is not Unicode. */
void ss_writer_utf8(ss_writer *w, const char *bytes, size_t length, ss_escape escape);
void ss_writer_utf16(ss_writer *w, const uint16_t *units, size_t length, ss_escape escape);

/* Write what is buffered.  True if every byte was taken. */
bool ss_writer_finish(ss_writer *w);

#endif
