/*
 * Finds secrets in a text, in one pass and in time proportional to its length.  Nothing here
 * allocates or locks, so a fail-fast report uses it too.
 */
#ifndef SS_SCAN_H
#define SS_SCAN_H

#include "base/platform.h"
#include <stacksplice/redact.h>

/* A text in one of two encodings. */
typedef struct ss_text {
    const char *utf8; /* NULL: use UTF16 */
    const uint16_t *utf16;
    size_t length; /* in units of its encoding */
} ss_text;

static inline uint32_t ss_text_at(const ss_text *text, size_t at)
{
    return text->utf8 ? (unsigned char)text->utf8[at] : text->utf16[at];
}

/* What to look for.  The names are lower-case letters and digits. */
typedef struct ss_rules {
    uint32_t rules;
    uint32_t name_count;
    char names[STACKSPLICE_REDACT_NAMES_MAX][STACKSPLICE_REDACT_NAME_MAX + 1];
    stacksplice_redact_callback hook;
    void *hook_data;
} ss_rules;

/* A part of a text, without END, and what its marker says. */
typedef struct ss_secret {
    size_t begin, end;
    const char *kind;
} ss_secret;

typedef struct ss_scan {
    ss_text text;
    const ss_rules *rules;
    size_t at;
    size_t done;       /* end of the last secret */
    bool is_source;    /* a line of source */
    uint32_t in_quote; /* in source: the quote that began the literal at AT; or 0 */
} ss_scan;

/* Find the next secret; false when there is none. */
bool ss_scan_next(ss_scan *s, ss_secret *secret);

/* Find what a name followed by its value is called, from BEGIN to END; NULL: it names no secret. */
typedef struct ss_secret_name {
    const char *kind;
    bool to_line_end; /* its value has blanks */
    bool in_prose;    /* a quoted word after it is no secret: "unexpected token '<'" */
    bool encoded;     /* its value is base64 or the like: in prose it says something else */
} ss_secret_name;

/* ---- Characters, ASCII only ------------------------------------------------------------------*/

static inline uint32_t ss_scan_at(const ss_scan *s, size_t at)
{
    return at < s->text.length ? ss_text_at(&s->text, at) : 0;
}

static inline bool ss_is_digit(uint32_t c)
{
    return c - '0' < 10;
}

static inline bool ss_is_letter(uint32_t c)
{
    return (c | 32) - 'a' < 26;
}

static inline bool ss_is_alnum(uint32_t c)
{
    return ss_is_letter(c) || ss_is_digit(c);
}

/* Of names such as X-Api-Key and db_password. */
static inline bool ss_is_of_name(uint32_t c)
{
    return ss_is_alnum(c) || c == '_' || c == '-';
}

static inline bool ss_is_quote(uint32_t c)
{
    return c == '"' || c == '\'' || c == '`';
}

static inline bool ss_is_blank(uint32_t c)
{
    return c == ' ' || c == '\t';
}

static inline bool ss_is_line_end(uint32_t c)
{
    return c == '\n' || c == '\r';
}

static inline uint32_t ss_lower(uint32_t c)
{
    return c - 'A' < 26 ? c | 32 : c;
}

/* Whether WORD, in lower case, stands at AT, in any case. */
static inline bool ss_scan_has(const ss_scan *s, size_t at, const char *word)
{
    while (*word && ss_lower(ss_scan_at(s, at)) == (unsigned char)*word) {
        word++;
        at++;
    }
    return !*word;
}

#endif
