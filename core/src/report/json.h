/* JSON: a visitor that writes JSON to a sink, without secrets. */
#ifndef SS_JSON_H
#define SS_JSON_H

#include "base/platform.h"
#include "base/writer.h"

#include <stacksplice/read.h>

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

void ss_emit_begin(ss_emit *e, const char *key, stacksplice_container container);
void ss_emit_end(ss_emit *e, stacksplice_container container);
void ss_emit_boolean(ss_emit *e, const char *key, bool value);
void ss_emit_integer(ss_emit *e, const char *key, int64_t value);
void ss_emit_hex(ss_emit *e, const char *key, uint64_t value, unsigned digits);
void ss_emit_utf8(ss_emit *e, const char *key, const char *text, size_t length);
void ss_emit_utf16(ss_emit *e, const char *key, const uint16_t *text, size_t length);

/* TEXT ends with a NUL; NULL gives null. */
void ss_emit_text(ss_emit *e, const char *key, const char *text);

/* An object of texts; nothing if there are none. */
void ss_emit_locals(ss_emit *e, const char *key, stacksplice_document_locals locals);

#endif
