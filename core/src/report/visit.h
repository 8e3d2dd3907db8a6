/* Walks over an error and passes its fields to a visitor: stacksplice/read.h. */
#ifndef SS_VISIT_H
#define SS_VISIT_H

#include "report/json.h"
#include "report/report.h"

void ss_emit_frame(ss_emit *e, const char *key, const stacksplice_told_frame *frame);

/* Emit the members "stack", of elements with their frames, and "frames_left_out". */
void ss_visit_stack(const ss_report *r, ss_emit *e, ss_shown_stack stack, uint32_t left_out);

/*
 * Emit the object of one error; SCHEMA, or NULL, is its first member.  PARTS as in read.h; 0: all.
 */
void ss_visit_error(const ss_report *r, ss_emit *e, const char *key, const ss_facts *facts,
                    const char *schema, uint32_t parts);

/* Emit the event that Sentry takes. */
void ss_sentry_event(const ss_report *r, ss_emit *e, const ss_facts *facts);

/* Parts of it. */
void ss_visit_text(ss_emit *e, const char *key, ss_text text);
void ss_visit_notes(ss_emit *e, const ss_facts *facts); /* the member "notes" */

#define SS_SCHEMA_ERROR "stacksplice-error/1"

#endif
