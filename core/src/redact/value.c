/* Where the value of a name begins and ends. */
#include "redact/scan.h"

#include <string.h>

enum {
    CODE_SEEN = 512, /* of a list in code, to find a literal in it */
    MOST_LINE_DIGITS = 7
};

/* What stands between a name and its value. */
typedef enum separator { NOTHING, BLANKS, COLON, EQUALS, COMMA, PARENTHESIS } separator;

static size_t after_blanks(const ss_scan *s, size_t at)
{
    while (ss_is_blank(ss_scan_at(s, at)))
        at++;
    return at;
}

/* Past a quote, which a text within a text has behind a backslash. */
static size_t after_quote(const ss_scan *s, size_t at)
{
    size_t quote = ss_scan_at(s, at) == '\\' ? at + 1 : at;

    return ss_is_quote(ss_scan_at(s, quote)) ? quote + 1 : at;
}

static separator read_sign(const ss_scan *s, size_t *at)
{
    uint32_t c = ss_scan_at(s, *at), next = ss_scan_at(s, *at + 1);

    if (c == ':' && next == ':')
        return NOTHING; /* a scope of C++ */
    if (c == '=' || ((c == '!' || c == ':' || c == '~') && next == '=')) {
        while (c == '=' || c == '!' || c == ':' || c == '~' || c == '>')
            c = ss_scan_at(s, ++*at);
        return EQUALS;
    }
    if (c != ':' && c != ',' && c != '(')
        return NOTHING;
    ++*at;
    return c == ':' ? COLON : c == ',' ? COMMA : PARENTHESIS;
}

/* Read from END of a name to where its value may begin. */
static separator read_separator(const ss_scan *s, size_t end, size_t *at)
{
    size_t after = after_quote(s, end), blank;
    bool is_quoted = after != end;
    separator found;

    if (is_quoted && ss_scan_at(s, after) == ']')
        after++;
    *at = blank = after_blanks(s, after);
    found = read_sign(s, at);
    *at = after_blanks(s, *at);
    if (found == COMMA && !is_quoted)
        return NOTHING;
    if (found == NOTHING && !is_quoted && blank > end)
        return BLANKS;
    return found;
}

/* In source: past the type in "password: str = ". */
static size_t after_type(const ss_scan *s, size_t at)
{
    size_t end = at, most = at + 64;

    while (end < most && (ss_is_of_name(ss_scan_at(s, end)) || ss_is_blank(ss_scan_at(s, end)) ||
                          ss_scan_at(s, end) == '.' || ss_scan_at(s, end) == '|'))
        end++;
    return ss_scan_at(s, end) == '=' ? after_blanks(s, end + 1) : at;
}

static size_t after_scheme(const ss_scan *s, size_t at)
{
    static const char *const schemes[] = {"bearer ", "basic ", "digest ", "token "};

    for (size_t i = 0; i < SS_COUNT_OF(schemes); i++) {
        if (ss_scan_has(s, at, schemes[i]))
            return after_blanks(s, at + strlen(schemes[i]));
    }
    return at;
}

/* Past the letters before a literal: b'', rb"", L"". */
static size_t after_prefix(const ss_scan *s, size_t at)
{
    size_t end = at;

    while (end < at + 2 && ss_is_letter(ss_scan_at(s, end)))
        end++;
    return after_quote(s, end) != end ? end : at;
}

static bool ends_line(const ss_scan *s, size_t at)
{
    return at >= s->text.length || ss_is_line_end(ss_scan_at(s, at));
}

/* Whether only punctuation follows in this line. */
static bool is_rest_of_code(const ss_scan *s, size_t at)
{
    while (!ends_line(s, at)) {
        uint32_t c = ss_scan_at(s, at++);

        if (!ss_is_blank(c) && c != ')' && c != ']' && c != '}' && c != ',' && c != ';' && c != ':')
            return false;
    }
    return true;
}

/* The literal whose first quote is at AT. */
static bool read_quoted(const ss_scan *s, size_t at, ss_secret *secret)
{
    bool is_inner = ss_scan_at(s, at) == '\\';
    uint32_t quote = ss_scan_at(s, at + is_inner);
    size_t end;

    at += 1 + (size_t)is_inner;
    if (ss_scan_at(s, at) == quote && ss_scan_at(s, at + 1) == quote)
        at += 2; /* three quotes */
    for (end = at; !ends_line(s, end) && ss_scan_at(s, end) != quote; end++) {
        if (ss_scan_at(s, end) != '\\')
            continue;
        if (is_inner && ss_scan_at(s, end + 1) == quote)
            break;
        if (!ends_line(s, end + 1))
            end++;
    }
    if (s->is_source && ends_line(s, end) && is_rest_of_code(s, at))
        return false; /* it is the quote that ends a literal */
    secret->begin = at;
    secret->end = end;
    return end > at;
}

/* A list, a table or a tuple; in code only one with literals. */
static bool read_bracketed(const ss_scan *s, size_t at, ss_secret *secret)
{
    uint32_t open = ss_scan_at(s, at), close = open == '(' ? ')' : open + 2;
    bool has_literal = ss_scan_at(s, at + 1) == '[' || ss_scan_at(s, at + 1) == '=';
    unsigned depth = 0;
    size_t end = at;

    do {
        uint32_t c = ss_scan_at(s, end++);

        depth += c == open;
        depth -= c == close;
        has_literal = has_literal || ss_is_quote(c);
    } while (depth && !ends_line(s, end) && (!s->is_source || has_literal || end < at + CODE_SEEN));
    secret->begin = at;
    secret->end = end;
    return (!s->is_source || has_literal) && end > at + 2;
}

static bool ends_word(uint32_t c)
{
    switch (c) {
    case ',':
    case ';':
    case '&':
    case ')':
    case ']':
    case '}':
    case '<':
    case '>':
    case '|':
    case '\\':
        return true;
    default:
        return c <= ' ' || ss_is_quote(c);
    }
}

/* Whether what stands from BEGIN to END says that there is no value. */
static bool is_no_value(const ss_scan *s, size_t begin, size_t end)
{
    static const char *const words[] = {"none", "null", "nil", "true", "false", "undefined"};
    size_t at = begin;

    for (size_t i = 0; i < SS_COUNT_OF(words); i++) {
        if (ss_scan_has(s, begin, words[i]) && !ss_is_of_name(ss_scan_at(s, begin + 4)))
            return true;
        if (ss_scan_has(s, begin, words[i]) && end - begin > 4 && end - begin < 10 && i > 3)
            return true;
    }
    while (at < end && ss_scan_at(s, at) == '*')
        at++;
    return at == end;
}

static bool read_word(const ss_scan *s, const ss_secret_name *name, size_t at, ss_secret *secret)
{
    bool is_code = s->is_source && !s->in_quote;
    uint32_t first = ss_scan_at(s, at);
    size_t end = at;

    if (is_code ? !ss_is_digit(first) : s->is_source && (first == '%' || first == '$'))
        return false;
    while (!ends_line(s, end) &&
           (name->to_line_end ? !ss_is_quote(ss_scan_at(s, end)) : !ends_word(ss_scan_at(s, end))))
        end++;
    secret->begin = at;
    secret->end = end;
    return end > at && !is_no_value(s, at, end) && (!is_code || end > at + 3);
}

/* Whether a value without a sign before it is one: --token abc, Bearer abc, password "abc". */
static bool may_follow_blanks(const ss_scan *s, const ss_secret_name *name, size_t begin, size_t at)
{
    if (after_quote(s, at) != at)
        return !name->in_prose || s->is_source;
    if (ss_scan_has(s, begin, "bearer ")) {
        size_t end = at;

        while (!ends_line(s, end) && !ends_word(ss_scan_at(s, end)))
            end++;
        return end > at + 11;
    }
    return ss_scan_has(s, begin, "--") && ss_scan_at(s, at) != '-';
}

/* Whether the name from BEGIN to END is a file and a line follows: "dir/token:12: in f",
 * "<token:12>". */
static bool is_place(const ss_scan *s, size_t begin, size_t end)
{
    uint32_t before = begin ? ss_scan_at(s, begin - 1) : 0;
    size_t at = end + 1;

    if (ss_scan_at(s, end) != ':' || (before != '/' && before != '<' && before != '\t'))
        return false;
    while (at <= end + MOST_LINE_DIGITS && ss_is_digit(ss_scan_at(s, at)))
        at++;
    return at > end + 1 && (ss_scan_at(s, at) == ':' || ss_scan_at(s, at) == '>');
}

bool ss_scan_value(const ss_scan *s, const ss_secret_name *name, size_t begin, size_t end,
                   ss_secret *secret)
{
    size_t at, quote;
    separator by = read_separator(s, end, &at);
    bool is_code = s->is_source && !s->in_quote;

    if (by == NOTHING || (by == BLANKS && !may_follow_blanks(s, name, begin, at)) ||
        is_place(s, begin, end))
        return false;
    if (is_code && by == COLON)
        at = after_type(s, at);
    if (ss_scan_has(s, at, "[redacted"))
        return false;
    secret->kind = name->kind;
    quote = after_prefix(s, at);
    if (s->in_quote && ss_scan_at(s, quote) == s->in_quote)
        return false; /* the literal ends here */
    if (after_quote(s, quote) != quote) {
        if (ss_scan_has(s, after_quote(s, quote), "[redacted"))
            return false;
        return read_quoted(s, quote, secret);
    }
    if (by == COMMA || by == PARENTHESIS)
        return false;
    at = after_scheme(s, at);
    if (!name->to_line_end &&
        (ss_scan_at(s, at) == '[' || ss_scan_at(s, at) == '{' || ss_scan_at(s, at) == '('))
        return !(s->is_source && s->in_quote) && read_bracketed(s, at, secret);
    return read_word(s, name, at, secret);
}
