/* The grammar of JSON on a sink: commas and quotes.  Nesting is the caller's business. */
#ifndef SS_JSON_H
#define SS_JSON_H

#include "base/writer.h"

typedef struct ss_json {
    ss_writer *w;
    bool comma; /* the next element needs one before it */
} ss_json;

/* KEY is a name in an object, or NULL in an array. */
void ss_json_open(ss_json *j, const char *key, char bracket);
void ss_json_close(ss_json *j, char bracket);

/* The name of a value that somebody else writes. */
void ss_json_key(ss_json *j, const char *key);

/* TEXT is UTF-8 of any origin; NULL gives null. */
void ss_json_text(ss_json *j, const char *key, const char *text);
void ss_json_unsigned(ss_json *j, const char *key, uint64_t value);
void ss_json_signed(ss_json *j, const char *key, int64_t value);
void ss_json_bool(ss_json *j, const char *key, bool value);
void ss_json_hex(ss_json *j, const char *key, uint64_t value, unsigned digits);

/* A string whose inside the caller writes with SS_ESCAPE_JSON, between these two. */
void ss_json_begin_string(ss_json *j, const char *key);
void ss_json_end_string(ss_json *j);

#endif
