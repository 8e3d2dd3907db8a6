/* The members of reports, walks that pass them to a visitor (stacksplice/read.h), and JSON. */
#ifndef SS_VISIT_H
#define SS_VISIT_H

#include "report/report.h"

#include <stacksplice/read.h>

/* ---- A visitor that writes JSON to a sink, without secrets -----------------------------------*/

typedef struct ss_json {
    stacksplice_visitor visitor;
    ss_writer *w;
    bool comma;       /* the next value needs a comma */
    bool failfast;    /* the process is failing */
    bool locals;      /* in an object of local variables */
    bool identifiers; /* in a list of them */
} ss_json;

void ss_json_init(ss_json *json, ss_writer *w, bool failfast);

/* ---- Emit ------------------------------------------------------------------------------------*/

/* Passes values to a visitor.  Sticky: after the visitor stopped, it is not called again. */

typedef struct ss_emit {
    stacksplice_visitor *visitor;
    bool stopped;
} ss_emit;

static inline bool ss_visitor_is_valid(const stacksplice_visitor *visitor)
{
    return visitor->size == sizeof *visitor;
}

#define SS_EMIT(e, method, ...) \
    ((void)((e)->stopped = (e)->stopped || (e)->visitor->method((e)->visitor, __VA_ARGS__)))

#define ss_emit_begin(e, key, container) SS_EMIT(e, begin, key, container)
#define ss_emit_end(e, container) SS_EMIT(e, end, container)
#define ss_emit_boolean(e, key, value) SS_EMIT(e, boolean, key, value)
#define ss_emit_integer(e, key, value) SS_EMIT(e, integer, key, value)
#define ss_emit_hex(e, key, value, digits) SS_EMIT(e, hex, key, value, digits)
#define ss_emit_utf8(e, key, text, length) SS_EMIT(e, utf8, key, text, length)
#define ss_emit_utf16(e, key, text, length) SS_EMIT(e, utf16, key, text, length)

/* TEXT ends with a NUL; NULL gives null. */
void ss_emit_text(ss_emit *e, const char *key, const char *text);

/* An object of texts; nothing if there are none. */
void ss_emit_locals(ss_emit *e, const char *key, stacksplice_document_locals locals);

/* ---- Fields ----------------------------------------------------------------------------------*/

/* What a member of a report is; those from HRESULT on are only read. */
typedef enum ss_field_type {
    SS_FIELD_KIND,
    SS_FIELD_TRUST,
    SS_FIELD_TEXT,   /* const char *, up to the first NUL */
    SS_FIELD_STRING, /* stacksplice_document_text */
    SS_FIELD_COUNT,  /* uint32_t */
    SS_FIELD_OFFSET, /* uint64_t */
    SS_FIELD_FLAG,   /* int */
    SS_FIELD_ADDRESS,
    SS_FIELD_LOCALS,
    SS_FIELD_HRESULT,
    SS_FIELD_FRAMES,
    SS_FIELD_NOTES,
    SS_FIELD_NODES,
    SS_FIELD_MEMBERS,
    SS_FIELD_THREADS,
    SS_FIELD_MODULES,
    SS_FIELD_MEMBER,
    SS_FIELD_HEADER,
    SS_FIELD_CAUSES,
    SS_FIELD_PROCESS
} ss_field_type;

/* When a report has it.  Needed: always, and a report without it is none. */
typedef enum ss_field_rule {
    SS_RULE_IF_SET,
    SS_RULE_NEEDED,
    SS_RULE_ALWAYS,
    SS_RULE_OF_NATIVE,
    SS_RULE_WITH_FUNCTION,
    SS_RULE_WITH_MODULE
} ss_field_rule;

typedef struct ss_field {
    const char *key;
    ss_field_type type;
    ss_field_rule rule;
    size_t at; /* its offset in the structure of what has it */
} ss_field;

enum { SS_FRAME_FIELDS = 23 };

/* Of stacksplice_document_frame. */
extern const ss_field ss_frame_fields[SS_FRAME_FIELDS];

/* Their values start at 1. */
extern const char *const ss_kinds[3];
extern const char *const ss_trusts[3];

/* ---- Walks -----------------------------------------------------------------------------------*/

/* Emit the members "stack", of elements with their frames, and "frames_left_out". */
void ss_visit_stack(const ss_report *r, ss_emit *e, ss_shown_stack stack);

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
#define SS_SCHEMA_FILE "stacksplice-report/1"

#endif
