/* Texts without their secrets: stacksplice/redact.h. */
#ifndef SS_REDACT_H
#define SS_REDACT_H

#include "base/writer.h"

#include <stacksplice/redact.h>

/* A text in one of two encodings. */
typedef struct ss_text {
    const char *utf8; /* NULL: use UTF16 */
    const uint16_t *utf16;
    size_t length; /* in units of its encoding */
} ss_text;

#ifdef SS_REDACT_STEPS /* a test counts them */
extern size_t ss_redact_steps;
#define SS_STEP() ((void)++ss_redact_steps)
#else
#define SS_STEP() ((void)0)
#endif

static inline uint32_t ss_text_at(const ss_text *text, size_t at)
{
    SS_STEP();
    return text->utf8 ? (unsigned char)text->utf8[at] : text->utf16[at];
}

/* What to look for.  The names are lower-case letters and digits. */
typedef struct ss_rules {
    uint32_t rules;
    uint32_t number; /* no other rules of this process have it */
    uint32_t name_count;
    char names[STACKSPLICE_REDACT_NAMES_MAX][STACKSPLICE_REDACT_NAME_MAX + 1];
    stacksplice_redact_callback hook;
    void *hook_data;
} ss_rules;

/* A part of a text, without END, and what its marker says. */
typedef struct ss_secret {
    size_t begin, end;
    const char *kind;
    uint32_t quote; /* in source: the quote that begins the literal at END; or 0 */
} ss_secret;

typedef struct ss_scan {
    ss_text text;
    const ss_rules *rules;
    size_t at;
    size_t done;         /* end of the last secret */
    bool is_source;      /* a line of source */
    uint32_t in_quote;   /* in source: the quote that began the literal at AT; or 0 */
    size_t refused;      /* before here no JWT begins */
    bool is_insert;      /* a statement of SQL, "INSERT INTO", began before */
    const char *command; /* whose options may be secrets, named on this line; or NULL */
} ss_scan;

/*
 * A text on its way out.  Between begin and end it may be written line by line.  Allocates only for
 * a hook, which a failing process does not call.
 */
typedef struct ss_redacted {
    ss_scan scan;
    ss_secret next; /* secret; at the end of the text when there is none */
    size_t at;      /* written up to here */
    char *made;     /* owned: what a hook made of it; or NULL */
} ss_redacted;

void ss_redacted_begin(ss_redacted *r, ss_text text, stacksplice_text_kind kind, bool failfast);
void ss_redacted_end(ss_redacted *r);

/* Whether nothing is left, and whether nothing is left of this line. */
bool ss_redacted_is_done(const ss_redacted *r);
bool ss_redacted_line_is_done(const ss_redacted *r);

/* Write up to the next line feed, which is passed over. */
void ss_redacted_line(ss_redacted *r, ss_writer *w, ss_escape escape);

/* Write TEXT whole. */
void ss_redact(ss_text text, stacksplice_text_kind kind, bool failfast, ss_writer *w,
               ss_escape escape);

/* The same for the value VALUE of a local variable NAME. */
void ss_redact_local(const char *name, ss_text value, bool failfast, ss_writer *w,
                     ss_escape escape);

void ss_text_write(ss_text text, ss_writer *w, ss_escape escape);

/*
 * What is the same as long as the rules are, and never again once they were others.  0: nobody knows what
 * becomes of a text, because there is a hook or the rules are changing.  So a text that is written between
 * two calls with an equal result is written for all with that result.
 */
uint64_t ss_redaction_state(void);

/* ---- Texts without secrets --------------------------------------------------------------------*/

/* Whether it is known that RULES find no secret in TEXT; then *IS_PLAIN says whether it is one line of
   printable ASCII. */
bool ss_clean_has(const ss_rules *rules, const ss_text *text, stacksplice_text_kind kind,
                  bool *is_plain);

/* Note that they find none. */
void ss_clean_add(const ss_rules *rules, const ss_text *text, stacksplice_text_kind kind);

#endif
