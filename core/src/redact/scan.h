/*
 * Reading a text for secrets.  The rules that look ahead are bounded, or take what they have read, or
 * remember where they were refused: so the whole is linear in the text's length.
 */
#ifndef SS_REDACT_SCAN_H
#define SS_REDACT_SCAN_H

#include "redact/redact.h"

#include <string.h>

/* What a name in front of a value says of it. */
typedef struct ss_secret_name {
    const char *kind;
    bool whole;       /* it is a word of its own, as in db_pass */
    bool exact;       /* nothing stands before it: session, but not db_session */
    bool to_line_end; /* its value has blanks */
    bool in_prose;    /* a quoted word after it is no secret: "unexpected token '<'" */
    bool is_counted;  /* a small number after it is no secret: "pass=3" */
    bool of_text;     /* only in texts: a variable of that name is none */
    bool of_call;     /* only of a call with two literals: login('bob', 'x') */
    bool of_variable; /* only of variables and members: in texts it is none */
    unsigned fewest;  /* 0, or of base64 or the like that its value has: in prose it says less */
} ss_secret_name;

/* What stands between a name and its value. */
typedef enum ss_separator {
    SS_NOTHING,
    SS_BLANKS,
    SS_COLON,
    SS_EQUALS,
    SS_COMMA,
    SS_PARENTHESIS,
    SS_TAG, /* <password> */
    SS_SEPARATORS
} ss_separator;

/* A name from BEGIN to END, and AT, where its value may begin. */
typedef struct ss_named {
    const ss_secret_name *is;
    size_t begin, end, at;
    ss_separator by;
    bool is_quoted;   /* a quote ends it */
    bool is_compared; /* the separator is "==" or the like */
    bool is_percent;  /* the separator is %3D, so the value ends with %26 */
    uint32_t quote;   /* the quote that will end the literal which the value is a part of; or 0 */
    bool is_code;     /* in source: the value is in no literal */
} ss_named;

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

static inline bool ss_is_any(uint32_t c, const char *of)
{
    return c && c < 128 && strchr(of, (int)c);
}

static inline uint32_t ss_lower(uint32_t c)
{
    return c - 'A' < 26 ? c | 32 : c;
}

static inline bool ends_line(const ss_scan *s, size_t at)
{
    uint32_t c = at < s->text.length ? ss_text_at(&s->text, at) : '\n';

    return c == '\n' || c == '\r';
}

static inline bool is_alnum_or(uint32_t c, const char *more)
{
    return ss_is_alnum(c) || ss_is_any(c, more);
}

/* Past letters, digits and characters of MORE. */
static inline size_t run_end(const ss_scan *s, size_t at, const char *more)
{
    while (is_alnum_or(ss_scan_at(s, at), more))
        at++;
    return at;
}

/* Past characters of ANY. */
static inline size_t after_any(const ss_scan *s, size_t at, const char *any)
{
    while (ss_is_any(ss_scan_at(s, at), any))
        at++;
    return at;
}

static inline size_t after_blanks(const ss_scan *s, size_t at)
{
    return after_any(s, at, " \t");
}

/* Past a quote, which a text within a text has behind a backslash. */
static inline size_t after_quote(const ss_scan *s, size_t at)
{
    size_t quote = ss_scan_at(s, at) == '\\' ? at + 1 : at;

    return ss_is_quote(ss_scan_at(s, quote)) ? quote + 1 : at;
}

static inline bool is_quoted(const ss_scan *s, size_t at)
{
    return after_quote(s, at) != at;
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

/* Whether PREFIX, in which '?' is any letter, stands at AT. */
static inline bool begins_with(const ss_scan *s, size_t at, const char *prefix)
{
    for (; *prefix; prefix++, at++) {
        uint32_t c = ss_scan_at(s, at);

        if (*prefix == '?' ? !ss_is_letter(c) : c != (unsigned char)*prefix)
            return false;
    }
    return true;
}

/* Where TEXT begins, from AT on and before END; else END. */
static inline size_t find_text(const ss_scan *s, size_t at, size_t end, const char *text)
{
    while (at < end && !begins_with(s, at, text))
        at++;
    return at < end ? at : end;
}

enum { WORD_MAX = 16 };

/* Past a word of letters, as in "can't"; b'x' is none. */
static inline size_t plain_word_end(const ss_scan *s, size_t at)
{
    size_t end = at;

    while (end < at + WORD_MAX &&
           (ss_is_letter(ss_scan_at(s, end)) ||
            (end > at + 2 && ss_scan_at(s, end) == '\'' && ss_is_letter(ss_scan_at(s, end + 1)))))
        end++;
    return end;
}

/* Whether the text from BEGIN to END is one of WORDS, which have blanks between, in any case. */
static inline bool is_word_of(const ss_scan *s, size_t begin, size_t end, const char *words)
{
    size_t length, same;

    for (; *words; words += length + (words[length] == ' ')) {
        length = strcspn(words, " ");
        for (same = 0; same < length && length == end - begin; same++) {
            if (ss_lower(ss_scan_at(s, begin + same)) != (unsigned char)words[same])
                break;
        }
        if (same == length)
            return true;
    }
    return false;
}

/* ---- The rules ------------------------------------------------------------------------------*/

/* Each says whether a secret begins at AT, and which. */
bool ss_scan_token(ss_scan *s, size_t at, ss_secret *secret);
bool ss_scan_bot(const ss_scan *s, size_t at, ss_secret *secret);
bool ss_scan_private_key(const ss_scan *s, size_t at, ss_secret *secret);
bool ss_scan_url(const ss_scan *s, size_t at, ss_secret *secret);
bool ss_scan_source_name(const ss_scan *s, size_t at, ss_secret *secret);
bool ss_scan_email(const ss_scan *s, size_t at, ss_secret *secret);
bool ss_scan_named(const ss_scan *s, size_t at, ss_secret *secret);

/* The name from BEGIN to END of TEXT; NULL if it is that of no secret. */
const ss_secret_name *ss_secret_name_of(const ss_rules *rules, const ss_text *text, size_t begin,
                                        size_t end);

/* Whether what stands at the place of N's value says that there is none. */
bool ss_is_no_value(const ss_scan *s, const ss_named *n, size_t at);

/* Whether "NAME: " is prose about a value, and whether the literal from BEGIN on is. */
bool ss_is_prose(const ss_scan *s, const ss_named *n);
bool ss_is_remark(const ss_scan *s, size_t begin);

/* Whether the name of a type is at AT. */
bool ss_is_type(const ss_scan *s, size_t at);

/* Whether the value of N, in a text, is code: next(stream), self.token. */
bool ss_is_code(const ss_scan *s, const ss_named *n);

/* Whether SECRET, which is compared with a token, is a piece of a language: token == "end". */
bool ss_is_token(const ss_scan *s, const ss_named *n, const ss_secret *secret);

/* Whether the word of a usage at AT stands for the value of an option: --token TEXT. */
bool ss_is_usage(const ss_scan *s, size_t at);

/* Options of commands, as in "mysql -pWORD": note the command that begins at AT, and whether what an
   option of it means begins at AT. */
void ss_note_command(ss_scan *s, size_t at);
bool ss_scan_option(const ss_scan *s, size_t at, ss_secret *secret);

#endif
