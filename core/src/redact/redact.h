/* Texts without their secrets: stacksplice/redact.h. */
#ifndef SS_REDACT_H
#define SS_REDACT_H

#include "base/writer.h"
#include "redact/scan.h"

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

/* For readers of the rules: they stay as they are in between.  Never waits.  Signal safe. */
const ss_rules *ss_rules_enter(void);
void ss_rules_leave(void);

void ss_text_write(ss_text text, ss_writer *w, ss_escape escape);

#endif
