/*
 * The text of a value of a script, as reports show it: bounded, and without secrets.  Who reads the
 * values says what it sees, of this process or of another one.  Nothing here allocates, locks or
 * fails: what there is no room for is left out.
 */
#ifndef SS_SHARED_VALUE_TEXT_H
#define SS_SHARED_VALUE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* docs/how-to/local-variables.md has these limits, too. */
enum {
    SS_VALUE_UNITS = 200,          /* of a text: characters, or bytes */
    SS_VALUE_ITEMS = 10,           /* of a container */
    SS_VALUE_DEPTH = 3,            /* of containers in containers */
    SS_VALUE_BYTES = 500,          /* of a container's text */
    SS_VALUE_TYPE = 100,           /* of a type's name */
    SS_VALUE_SEARCHED = 16 * 1024, /* bytes of a long text that are searched for secrets */
    SS_VALUE_ROOM = 4096,          /* more than any text has: an escaped character has ten bytes */
    SS_VALUE_ESCAPED = sizeof "\\U0010ffff"
};

/* What stands behind the last variable where others are left out: its name is none that a program can
   give, and its value says which. */
#define SS_VALUE_REMARK "..."
#define SS_VALUE_MORE "<more are not shown>"
#define SS_VALUE_OUTWARD "<not shown from here outward>"

typedef struct ss_value_text {
    bool shows_secrets;
    unsigned depth; /* of containers that are not ended */
    struct {
        size_t most; /* bytes before the end of the last item */
        size_t item; /* where the present one begins */
        unsigned count;
    } open[SS_VALUE_DEPTH + 1];
    size_t length;
    char bytes[SS_VALUE_ROOM];
} ss_value_text;

void ss_value_text_init(ss_value_text *to, bool shows_secrets);
void ss_value_put(ss_value_text *to, const char *text);
void ss_value_put_bytes(ss_value_text *to, const char *bytes, size_t length);

/* ---- Containers -------------------------------------------------------------------------------*/

/* For each item call ss_value_item, write it, call ss_value_fits.  One that gives false has written
   what stands for all others. */
void ss_value_begin(ss_value_text *to, const char *opening);
bool ss_value_item(ss_value_text *to);
bool ss_value_fits(ss_value_text *to);
/* All other items are left out, for a reason of the caller's. */
void ss_value_leave_out(ss_value_text *to);
/* How many items were written. */
unsigned ss_value_count(const ss_value_text *to);
void ss_value_end(ss_value_text *to, const char *closing);

/* If NAME, of a value, says that it is a secret, write that in its place; else false. */
bool ss_value_secret(ss_value_text *to, const char *name, const char *quote);

/* ---- Texts ------------------------------------------------------------------------------------*/

/* How a language quotes a text. */
typedef struct ss_value_quoting {
    const char *before;
    char quote, other; /* OTHER: for a text that has QUOTE and not OTHER */
    bool is_bytes;     /* each byte is a character */
    bool counts_bytes; /* else the limit is one of characters */
    /* The form of C in quotes; 0: it stands for itself. */
    size_t (*escape)(uint32_t c, char out[SS_VALUE_ESCAPED]);
} ss_value_quoting;

/* Write the text of LENGTH bytes, of UTF-8 as far as they are that; its SIZE counts as the limit
   does. */
void ss_value_quoted(ss_value_text *to, const ss_value_quoting *how, const char *bytes,
                     size_t length, uint64_t size);

/* The bytes of the first of LENGTH bytes' characters, *C; a surrogate is one.  What is no UTF-8 is
   U+FFFD, one byte. */
size_t ss_value_character(const char *bytes, size_t length, uint32_t *c);

/* ---- Lua --------------------------------------------------------------------------------------*/

extern const ss_value_quoting ss_value_of_lua;
void ss_value_lua_float(ss_value_text *to, double value);
/* Whether a key can be written as name. */
bool ss_value_is_lua_name(const char *text, size_t length);

/* ---- Python -----------------------------------------------------------------------------------*/

extern const ss_value_quoting ss_value_of_python_bytes;
/* For a str, where all but ASCII is up to the caller. */
size_t ss_value_python_escape(uint32_t c, char out[SS_VALUE_ESCAPED]);

#endif
