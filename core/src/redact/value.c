/* Where the value of a name begins and ends. */
#include "redact/scan.h"

#include <string.h>

enum {
    CODE_SEEN = 512,     /* of a list in code, to find a literal in it */
    ENCODED_SEEN = 1024, /* of a word that must be base64 to be a secret */
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

/* Where the literal that begins at AT ends; it may have several lines.  The end of its first line,
   if no quote ends it: then nothing behind here looks for such a quote again. */
static size_t literal_end(const ss_scan *s, size_t at, uint32_t quote, bool is_inner,
                          bool is_triple)
{
    size_t line_end = 0;

    for (size_t end = at; end < s->text.length; end++) {
        uint32_t c = ss_scan_at(s, end);

        if (ss_is_line_end(c)) {
            line_end = line_end ? line_end : end;
            if (s->is_source)
                break;
        } else if (c == '\\') {
            if (is_inner && ss_scan_at(s, end + 1) == quote)
                return end;
            end += !ends_line(s, end + 1);
        } else if (c == quote && (!is_triple || (ss_scan_at(s, end + 1) == quote &&
                                                 ss_scan_at(s, end + 2) == quote))) {
            return end;
        }
    }
    return line_end ? line_end : s->text.length;
}

/* The literal whose first quote is at AT. */
static bool read_quoted(const ss_scan *s, size_t at, ss_secret *secret)
{
    bool is_inner = ss_scan_at(s, at) == '\\', is_triple;
    uint32_t quote = ss_scan_at(s, at + is_inner);
    size_t end;

    at += 1 + (size_t)is_inner;
    is_triple = ss_scan_at(s, at) == quote && ss_scan_at(s, at + 1) == quote;
    at += is_triple ? 2 : 0;
    end = literal_end(s, at, quote, is_inner, is_triple);
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

/* Whether what stands at BEGIN says that there is no value. */
static bool is_no_value(const ss_scan *s, const ss_secret_name *name, size_t begin)
{
    static const char *const words[] = {"none", "null", "nil", "true", "false", "undefined"};
    size_t at = begin;

    for (size_t i = 0; i < SS_COUNT_OF(words); i++) {
        size_t after = begin + strlen(words[i]);

        if (ss_scan_has(s, begin, words[i]) && !ss_is_of_name(ss_scan_at(s, after)) &&
            (!name->to_line_end || ends_line(s, after) || ss_is_quote(ss_scan_at(s, after))))
            return true;
    }
    while (ss_scan_at(s, at) == '*')
        at++;
    return at > begin && (ends_line(s, at) || ends_word(ss_scan_at(s, at)));
}

/* The blank with which a header goes on behind the end of a line at AT, after a comma; AT itself if
   it ends there. */
static size_t after_fold(const ss_scan *s, size_t at)
{
    size_t next = at + 1 + (ss_scan_at(s, at) == '\r' && ss_scan_at(s, at + 1) == '\n');

    return at && ss_scan_at(s, at - 1) == ',' && ss_is_blank(ss_scan_at(s, next)) ? next : at;
}

/* Where the line ends that begins with a name at BEGIN and has its value at AT, or the literal
   around it.  Quotes in it are its own. */
static size_t header_end(const ss_scan *s, size_t begin, size_t at)
{
    uint32_t before = begin ? ss_scan_at(s, begin - 1) : 0;
    uint32_t quote = s->is_source ? s->in_quote : ss_is_quote(before) ? before : 0;
    bool is_inner = quote && begin > 1 && ss_scan_at(s, begin - 2) == '\\';

    for (; at < s->text.length; at++) {
        uint32_t c = ss_scan_at(s, at);

        if (quote && c == '\\') {
            if (is_inner && ss_scan_at(s, at + 1) == quote)
                break;
            at += !ends_line(s, at + 1);
        } else if (quote && c == quote) {
            break;
        } else if (ss_is_line_end(c)) {
            size_t next = quote ? at : after_fold(s, at);

            if (next == at)
                break;
            at = next;
        }
    }
    return at < s->text.length ? at : s->text.length;
}

/* Whether the name from BEGIN to END is a variable of a shell or of .env, whose value ends with a
   blank: at the beginning of a line, in capitals, with '=' behind it. */
static bool is_variable(const ss_scan *s, size_t begin, size_t end)
{
    if (s->is_source || ss_scan_at(s, end) != '=' ||
        (begin && !ss_is_line_end(ss_scan_at(s, begin - 1)) &&
         (begin < 7 || !ss_scan_has(s, begin - 7, "export "))))
        return false;
    for (; begin < end; begin++) {
        if (ss_lower(ss_scan_at(s, begin)) != ss_scan_at(s, begin))
            continue;
        if (ss_is_letter(ss_scan_at(s, begin)))
            return false;
    }
    return true;
}

static size_t word_end(const ss_scan *s, const ss_secret_name *name, size_t begin, size_t name_end,
                       size_t at)
{
    bool is_whole = is_variable(s, begin, name_end);
    size_t most = name->encoded ? at + ENCODED_SEEN : s->text.length;

    while (at < most && !ends_line(s, at) &&
           (is_whole ? ss_scan_at(s, at) > ' ' : !ends_word(ss_scan_at(s, at))))
        at++;
    return at;
}

/* Whether it looks like base64: twelve or more, and not all small letters. */
static bool is_encoded(const ss_scan *s, size_t begin, size_t end)
{
    bool is_mixed = false;

    for (size_t at = begin; at < end; at++) {
        uint32_t c = ss_scan_at(s, at);

        if (!ss_is_of_name(c) && c != '+' && c != '/' && c != '=' && c != '%' && c != '.')
            return false;
        is_mixed = is_mixed || (at > begin && ss_lower(c) != c) || ss_is_digit(c) || c == '=';
    }
    return is_mixed && end >= begin + 12;
}

static bool read_word(const ss_scan *s, const ss_secret_name *name, size_t begin, size_t name_end,
                      size_t at, ss_secret *secret)
{
    bool is_code = s->is_source && !s->in_quote;
    uint32_t first = ss_scan_at(s, at);
    size_t end;

    if (is_code ? !ss_is_digit(first) : s->is_source && (first == '%' || first == '$'))
        return false;
    if (is_no_value(s, name, at))
        return false;
    end = name->to_line_end ? header_end(s, begin, at) : word_end(s, name, begin, name_end, at);
    secret->begin = at;
    secret->end = end;
    return end > at && (!is_code || end > at + 3);
}

/* Whether a value without a sign before it is one: --token abc, Bearer abc, password "abc". */
static bool may_follow_blanks(const ss_scan *s, const ss_secret_name *name, size_t begin, size_t at)
{
    if (after_quote(s, at) != at)
        return !name->in_prose || s->is_source;
    if (ss_scan_has(s, begin, "bearer ") || name->encoded) {
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

/* ---- Prose -----------------------------------------------------------------------------------*/

static bool is_word_of(const ss_scan *s, size_t begin, size_t end, const char *const *words,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(words[i]) == end - begin && ss_scan_has(s, begin, words[i]))
            return true;
    }
    return false;
}

#define IS_WORD_OF(s, begin, end, words) is_word_of(s, begin, end, words, SS_COUNT_OF(words))

enum { WORD_MAX = 16 };

static size_t plain_word_end(const ss_scan *s, size_t at)
{
    size_t end = at;

    while (end < at + WORD_MAX &&
           (ss_is_letter(ss_scan_at(s, end)) ||
            (ss_scan_at(s, end) == '\'' && ss_is_letter(ss_scan_at(s, end + 1)))))
        end++;
    return end;
}

/* Whether a sentence about the value begins at AT: "must have 8 letters", "is required". */
static bool is_sentence(const ss_scan *s, size_t at)
{
    static const char *const begins[] = {
        "must",  "should", "may",     "can",      "cannot",  "can't",    "is",      "isn't",
        "are",   "has",    "have",    "needs",    "need",    "does",     "doesn't", "was",
        "this",  "value",  "field",   "please",   "not",     "too",      "at",      "expected",
        "input", "string", "invalid", "required", "missing", "requires", "check",
    };
    size_t end = plain_word_end(s, at);

    return IS_WORD_OF(s, at, end, begins) &&
           (ends_line(s, end) || ss_scan_at(s, end) == ',' || ss_scan_at(s, end) == '.' ||
            (ss_scan_at(s, end) == ' ' && ss_is_alnum(ss_scan_at(s, end + 1))));
}

/* Whether a word and another one stand at AT, in letters. */
static bool are_words(const ss_scan *s, size_t at)
{
    size_t end = plain_word_end(s, at);

    return end > at && ss_scan_at(s, end) == ' ' && ss_is_letter(ss_scan_at(s, end + 1));
}

/* Whether what stands at AT, perhaps in quotes, is short and has no digit, as pieces of a language
   are: foo, ')', <eof>. */
static bool is_lexeme(const ss_scan *s, size_t at)
{
    size_t begin = after_quote(s, at), end = begin;

    while (end < begin + WORD_MAX && !ends_line(s, end) && ss_scan_at(s, end) != ' ' &&
           !ss_is_quote(ss_scan_at(s, end)) && !ss_is_digit(ss_scan_at(s, end)))
        end++;
    return ends_line(s, end) || ss_scan_at(s, end) == ' ' || ss_is_quote(ss_scan_at(s, end));
}

/* The word in front of BEGIN, or the first one of a name such as invalid_token. */
static void word_before(const ss_scan *s, size_t *begin, size_t *end)
{
    size_t from = *begin;

    if (from > s->done && ss_scan_at(s, from - 1) == ' ') {
        *end = from - 1;
        for (from = *end; from > s->done && *end - from < WORD_MAX; from--) {
            if (!ss_is_letter(ss_scan_at(s, from - 1)))
                break;
        }
        *begin = from;
    } else {
        *end = plain_word_end(s, from);
    }
}

/* Whether "NAME: " at BEGIN is prose about a value, not in front of one. */
static bool is_prose(const ss_scan *s, const ss_secret_name *name, size_t begin, size_t at)
{
    static const char *const none[] = {"unexpected", "expected", "missing",
                                       "no",         "such",     "without"};
    static const char *const judged[] = {
        "invalid", "wrong",     "bad",          "illegal",      "unknown", "incorrect", "weak",
        "stray",   "malformed", "unrecognized", "unterminated", "at",      "near",      "found",
        "got",     "undefined", "unsupported",  "first",        "next",    "of",
    };
    size_t word = begin, word_end;

    if (ss_scan_at(s, at - 1) != ' ')
        return false;
    if (is_sentence(s, at) || (name->in_prose && are_words(s, at)))
        return true;
    word_before(s, &word, &word_end);
    return IS_WORD_OF(s, word, word_end, none) ||
           (IS_WORD_OF(s, word, word_end, judged) &&
            (name->in_prose || name->to_line_end ? is_lexeme(s, at) : are_words(s, at)));
}

/* ---- Values ----------------------------------------------------------------------------------*/

/* The block of YAML that follows "|" or ">" at AT: the lines that are further in than the name at
   BEGIN. */
static bool read_block(const ss_scan *s, size_t begin, size_t at, ss_secret *secret)
{
    size_t margin = 0, end;

    if (ss_scan_at(s, at) != '|' && ss_scan_at(s, at) != '>')
        return false;
    for (at++; !ends_line(s, at); at++) {
        uint32_t c = ss_scan_at(s, at);

        if (c != '-' && c != '+' && !ss_is_digit(c) && !ss_is_blank(c))
            return false;
    }
    while (margin < begin && ss_is_blank(ss_scan_at(s, begin - 1 - margin)))
        margin++;
    secret->begin = secret->end = at;
    for (end = at; end < s->text.length;) {
        size_t line = end, inner;

        while (line < s->text.length && ss_is_line_end(ss_scan_at(s, line)))
            line++;
        inner = after_blanks(s, line);
        if (inner <= line + margin || ends_line(s, inner))
            break;
        if (secret->begin == at)
            secret->begin = inner;
        for (end = inner; !ends_line(s, end);)
            end++;
        secret->end = end;
    }
    return secret->end > at;
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
    if (by == COLON && !is_code && is_prose(s, name, begin, at))
        return false;
    if (by == COLON && !s->is_source && read_block(s, begin, at, secret))
        return true;
    quote = after_prefix(s, at);
    if (s->in_quote && ss_scan_at(s, quote) == s->in_quote)
        return false; /* the literal ends here */
    /* Of a header, a quote is a part. */
    if (after_quote(s, quote) != quote &&
        !(name->to_line_end && by == COLON && after_quote(s, end) == end && !s->is_source)) {
        if (ss_scan_has(s, after_quote(s, quote), "[redacted"))
            return false;
        return read_quoted(s, quote, secret) &&
               (!name->encoded || is_encoded(s, secret->begin, secret->end));
    }
    if (by == COMMA || by == PARENTHESIS)
        return false;
    at = after_scheme(s, at);
    if (!name->to_line_end &&
        (ss_scan_at(s, at) == '[' || ss_scan_at(s, at) == '{' || ss_scan_at(s, at) == '('))
        return !(s->is_source && s->in_quote) && read_bracketed(s, at, secret);
    return read_word(s, name, begin, end, at, secret) &&
           (!name->encoded || is_encoded(s, secret->begin, secret->end));
}
