/*
 * What is a secret in a text: by its form, or by the name before it; which rules are in force; and
 * texts without their secrets.  One pass, in time proportional to the length.
 */
#include "redact/redact.h"

#include "base/alloc.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <string.h>

/* What a name in front of a value says of it. */
typedef struct ss_secret_name {
    const char *kind;
    bool to_line_end; /* its value has blanks */
    bool in_prose;    /* a quoted word after it is no secret: "unexpected token '<'" */
    bool encoded;     /* its value is base64 or the like: in prose it says something else */
} ss_secret_name;

/* ---- Characters, ASCII only ------------------------------------------------------------------*/

static uint32_t ss_scan_at(const ss_scan *s, size_t at)
{
    return at < s->text.length ? ss_text_at(&s->text, at) : 0;
}

static bool ss_is_digit(uint32_t c)
{
    return c - '0' < 10;
}

static bool ss_is_letter(uint32_t c)
{
    return (c | 32) - 'a' < 26;
}

static bool ss_is_alnum(uint32_t c)
{
    return ss_is_letter(c) || ss_is_digit(c);
}

/* Of names such as X-Api-Key and db_password. */
static bool ss_is_of_name(uint32_t c)
{
    return ss_is_alnum(c) || c == '_' || c == '-';
}

static bool ss_is_quote(uint32_t c)
{
    return c == '"' || c == '\'' || c == '`';
}

static bool ss_is_blank(uint32_t c)
{
    return c == ' ' || c == '\t';
}

static bool ss_is_line_end(uint32_t c)
{
    return c == '\n' || c == '\r';
}

static uint32_t ss_lower(uint32_t c)
{
    return c - 'A' < 26 ? c | 32 : c;
}

/* Whether WORD, in lower case, stands at AT, in any case. */
static bool ss_scan_has(const ss_scan *s, size_t at, const char *word)
{
    while (*word && ss_lower(ss_scan_at(s, at)) == (unsigned char)*word) {
        word++;
        at++;
    }
    return !*word;
}

/* ---- Secrets known by their form --------------------------------------------------------------*/

/* ---- Tokens ----------------------------------------------------------------------------------*/

/* A prefix, in which '?' is any letter, and the fewest letters, digits and characters of MORE that
   follow it. */
static const struct shape {
    const char *prefix;
    unsigned fewest;
    const char *more;
    const char *kind;
} shapes[] = {
    {"AKIA", 16, "", "AWS key"},
    {"ASIA", 16, "", "AWS key"},
    {"gh?_", 30, "", "GitHub token"},
    {"github_pat_", 22, "_", "GitHub token"},
    {"glpat-", 20, "_-", "GitLab token"},
    {"xox?-", 10, "-", "Slack token"},
    {"xapp-", 10, "-", "Slack token"},
    {"AIza", 35, "_-", "Google key"},
    {"sk_live_", 16, "", "Stripe key"},
    {"rk_live_", 16, "", "Stripe key"},
    {"sk_test_", 16, "", "Stripe key"},
    {"sk-", 32, "_-", "key"},
    {"npm_", 36, "", "npm token"},
    {"pypi-", 32, "_-", "PyPI token"},
    {"hf_", 30, "", "Hugging Face token"},
    {"SG.", 40, "._-", "SendGrid key"},
    {"SK", 32, "", "Twilio key"},
    {"dckr_pat_", 20, "_-", "Docker token"},
    {"hooks.slack.com/services/", 20, "/", "Slack webhook"},
};
static const char firsts[] = "AghxsrnpeSd"; /* with which a shape or a JWT begins */

static bool is_one_of(uint32_t c, const char *more)
{
    return ss_is_alnum(c) || (c && c < 128 && strchr(more, (int)c));
}

static size_t run_end(const ss_scan *s, size_t at, const char *more)
{
    while (is_one_of(ss_scan_at(s, at), more))
        at++;
    return at;
}

static bool begins_with(const ss_scan *s, size_t at, const char *prefix)
{
    for (; *prefix; prefix++, at++) {
        uint32_t c = ss_scan_at(s, at);

        if (*prefix == '?' ? !ss_is_letter(c) : c != (unsigned char)*prefix)
            return false;
    }
    return true;
}

/* Three parts of base64 with dots between; the first is a JSON object. */
static bool is_jwt(const ss_scan *s, size_t at, size_t *end)
{
    size_t first, second;

    if (!begins_with(s, at, "eyJ"))
        return false;
    first = run_end(s, at, "_-");
    if (first < at + 12 || ss_scan_at(s, first) != '.')
        return false;
    second = run_end(s, first + 1, "_-");
    *end = ss_scan_at(s, second) == '.' ? run_end(s, second + 1, "_-") : second;
    return second > first + 8;
}

static bool is_one_of_firsts(uint32_t c)
{
    return c && c < 128 && strchr(firsts, (int)c);
}

/* Client secrets of Azure have no prefix: three characters, a digit, "Q~" and 31 to 34 more. */
static bool is_azure(const ss_scan *s, size_t at, size_t *end)
{
    if (ss_scan_at(s, at + 4) != 'Q' || ss_scan_at(s, at + 5) != '~' ||
        !ss_is_digit(ss_scan_at(s, at + 3)))
        return false;
    *end = run_end(s, at + 6, "_~.-");
    return *end >= at + 37;
}

static bool scan_token(const ss_scan *s, size_t at, ss_secret *secret)
{
    secret->begin = at;
    secret->kind = "Azure secret";
    if (is_azure(s, at, &secret->end))
        return true;
    if (!is_one_of_firsts(ss_scan_at(s, at)))
        return false;
    for (size_t i = 0; i < SS_COUNT_OF(shapes); i++) {
        size_t body = at + strlen(shapes[i].prefix);

        if (!begins_with(s, at, shapes[i].prefix))
            continue;
        secret->end = run_end(s, body, shapes[i].more);
        secret->kind = shapes[i].kind;
        return secret->end >= body + shapes[i].fewest;
    }
    secret->kind = "JWT";
    return is_jwt(s, at, &secret->end);
}

/* ---- Private keys ----------------------------------------------------------------------------*/

static bool scan_private_key(const ss_scan *s, size_t at, ss_secret *secret)
{
    size_t label = at + 11, end;

    if (!begins_with(s, at, "-----BEGIN "))
        return false;
    while (label < at + 64 && !begins_with(s, label, "PRIVATE KEY"))
        label++;
    if (label == at + 64)
        return false;
    for (end = label; end < s->text.length && !begins_with(s, end, "-----END "); end++) {
    }
    if (end < s->text.length) {
        for (end += 9; end < s->text.length && !begins_with(s, end, "-----"); end++) {
        }
        end += end < s->text.length ? 5 : 0;
    }
    *secret = (ss_secret){at, end, "private key"};
    return true;
}

/* ---- URLs and addresses ----------------------------------------------------------------------*/

/* Whether the quote at END is that of a literal around the URL whose colon is at AT, and no part of
   a password. */
static bool ends_url(const ss_scan *s, size_t at, size_t end)
{
    uint32_t next = ss_scan_at(s, end + 1);
    size_t scheme = at;

    if (s->is_source && s->in_quote == ss_scan_at(s, end))
        return ss_scan_at(s, end - 1) != '\\';
    if (!ss_is_alnum(next) && next != '@' && !ss_is_quote(next))
        return true;
    while (scheme > s->done && at - scheme < 16 && is_one_of(ss_scan_at(s, scheme - 1), "+.-"))
        scheme--;
    return scheme > s->done && ss_scan_at(s, scheme - 1) == ss_scan_at(s, end) &&
           ss_scan_at(s, end - 1) != '\\';
}

/* "https://USER:PASSWORD@host"; at the colon. */
static bool scan_url(const ss_scan *s, size_t at, ss_secret *secret)
{
    size_t begin = at + 3, end = begin;
    bool found = false;

    if (at < s->done + 2 || !ss_is_alnum(ss_scan_at(s, at - 1)) || !begins_with(s, at, "://"))
        return false;
    if (at >= s->done + 3 && begins_with(s, at - 3, "ssh")) /* git@host is no secret */
        return false;
    for (;; end++) {
        uint32_t c = ss_scan_at(s, end);

        if (c <= ' ' || c == '/' || c == '?' || c == '#' || c == '<' || c == '>' ||
            (ss_is_quote(c) && ends_url(s, at, end)))
            break;
        if (c == '@' && end > begin) {
            *secret = (ss_secret){begin, end, "credentials"};
            found = true;
        }
    }
    return found && !begins_with(s, begin, "[redacted");
}

static bool scan_email(const ss_scan *s, size_t at, ss_secret *secret)
{
    size_t begin = at, end = at + 1, dot = 0;

    while (begin > s->done && at - begin < 64 && is_one_of(ss_scan_at(s, begin - 1), "._%+-"))
        begin--;
    for (; is_one_of(ss_scan_at(s, end), ".-"); end++)
        dot = ss_scan_at(s, end) == '.' && ss_is_alnum(ss_scan_at(s, end + 1)) ? end : dot;
    while (end > at && !ss_is_alnum(ss_scan_at(s, end - 1)))
        end--;
    *secret = (ss_secret){begin, end, "e-mail"};
    return begin < at && dot > at + 1;
}

/* ---- Where a value begins and ends ------------------------------------------------------------*/

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

/* The value of the name NAME from BEGIN to END, after its separator; false if there is no secret.
 */
static bool scan_value(const ss_scan *s, const ss_secret_name *name, size_t begin, size_t end,
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

/* ---- Values with a telling name ---------------------------------------------------------------*/

/* password=..., "api_key": "...", Authorization: ... */

enum { NAME_SEEN = 64 }; /* of a longer name only the end counts */

/* A name ends in one of these; WHOLE: and it is a word of its own there, as in db_pass. */
#define NAME(text) text, sizeof(text) - 1
static const struct known_name {
    const char *ends;
    size_t length;
    bool whole;
    ss_secret_name is;
} known_names[] = {
    {NAME("password"), false, {"password", false, false, false}},
    {NAME("passwords"), false, {"password", false, false, false}},
    {NAME("passwd"), false, {"password", false, false, false}},
    {NAME("passphrase"), false, {"password", false, false, false}},
    {NAME("passcode"), false, {"password", false, false, false}},
    {NAME("pwd"), true, {"password", false, false, false}},
    {NAME("pass"), true, {"password", false, false, false}},
    {NAME("secret"), false, {"secret", false, false, false}},
    {NAME("secrets"), false, {"secret", false, false, false}},
    {NAME("token"), false, {"token", false, true, false}},
    {NAME("jwt"), true, {"token", false, true, false}},
    {NAME("bearer"), true, {"token", false, true, false}},
    {NAME("apikey"), false, {"key", false, false, false}},
    {NAME("accesskey"), false, {"key", false, false, false}},
    {NAME("secretkey"), false, {"key", false, false, false}},
    {NAME("privatekey"), false, {"key", false, false, false}},
    {NAME("authkey"), false, {"key", false, false, false}},
    {NAME("encryptionkey"), false, {"key", false, false, false}},
    {NAME("signingkey"), false, {"key", false, false, false}},
    {NAME("masterkey"), false, {"key", false, false, false}},
    {NAME("accountkey"), false, {"key", false, false, false}},
    {NAME("sharedkey"), false, {"key", false, false, false}},
    {NAME("amzsignature"), false, {"key", false, false, false}},
    {NAME("credential"), false, {"credentials", false, false, false}},
    {NAME("credentials"), false, {"credentials", false, false, false}},
    {NAME("authorization"), false, {"credentials", true, false, false}},
    {NAME("cookie"), true, {"cookie", true, false, false}},
    {NAME("sessionid"), false, {"session", false, false, false}},
    {NAME("sharedaccesssignature"), false, {"key", false, false, false}},
    {NAME("sig"), true, {"key", false, false, true}},
    {NAME("basic"), true, {"credentials", false, false, true}},
    {NAME("auth"), true, {"credentials", false, false, true}},
};
static const ss_secret_name by_host = {"secret", false, false, false};

/* What may stand behind such a name, as in db_password_prod or secret_key_base. */
static const struct variant {
    const char *ends;
    size_t length;
} variants[] = {
    {NAME("prod")},    {NAME("production")},  {NAME("stage")},        {NAME("staging")},
    {NAME("dev")},     {NAME("development")}, {NAME("test")},         {NAME("live")},
    {NAME("old")},     {NAME("new")},         {NAME("current")},      {NAME("previous")},
    {NAME("primary")}, {NAME("secondary")},   {NAME("backup")},       {NAME("main")},
    {NAME("default")}, {NAME("value")},       {NAME("text")},         {NAME("plain")},
    {NAME("raw")},     {NAME("base")},        {NAME("hash")},         {NAME("confirm")},
    {NAME("local")},   {NAME("env")},         {NAME("confirmation")},
};

/* The last character of the text from BEGIN to END, but for case, '_' and '-'; 0: there is none.
   Most names differ in it already. */
static uint32_t last_of(const ss_text *text, size_t begin, size_t end)
{
    while (end > begin) {
        uint32_t c = ss_text_at(text, --end);

        if (c != '_' && c != '-')
            return ss_lower(c);
    }
    return 0;
}

/* Whether the text from BEGIN to END ends in the LEFT characters of NAME, but for case, '_' and
   '-'. */
static bool ends_in(const ss_text *text, size_t begin, size_t end, const char *name, size_t left,
                    bool whole)
{
    uint32_t c = 0, after;

    while (left && end > begin) {
        c = ss_text_at(text, --end);
        if (c == '_' || c == '-')
            continue;
        if (ss_lower(c) != (unsigned char)name[left - 1])
            return false;
        left--;
    }
    if (left)
        return false;
    after = end > begin ? ss_text_at(text, end - 1) : 0;
    return !whole || !ss_is_letter(after) || (c != ss_lower(c) && after == ss_lower(after));
}

/* Whether a name has more parts than one, as db_password_prod, dbPassword and password1. */
static bool has_parts(const ss_text *text, size_t begin, size_t end)
{
    for (size_t at = begin + 1; at < end; at++) {
        uint32_t c = ss_text_at(text, at);

        if (!ss_is_letter(c) || ss_lower(c) != c)
            return true;
    }
    return false;
}

/* END without a variant or a number; END itself if there is none. */
static size_t before_variant(const ss_text *text, size_t begin, size_t end)
{
    uint32_t last = last_of(text, begin, end);
    size_t at = end;

    while (at > begin && (ss_is_digit(ss_text_at(text, at - 1)) ||
                          ss_text_at(text, at - 1) == '_' || ss_text_at(text, at - 1) == '-'))
        at--;
    if (at < end)
        return at;
    for (size_t i = 0; i < SS_COUNT_OF(variants); i++) {
        const struct variant *v = &variants[i];

        if ((unsigned char)v->ends[v->length - 1] == last &&
            ends_in(text, begin, end, v->ends, v->length, true))
            return end - v->length;
    }
    return end;
}

static const ss_secret_name *find_name(const ss_rules *rules, const ss_text *text, size_t begin,
                                       size_t end)
{
    uint32_t last = last_of(text, begin, end);

    for (size_t i = 0; i < SS_COUNT_OF(known_names); i++) {
        const struct known_name *name = &known_names[i];

        if ((unsigned char)name->ends[name->length - 1] == last &&
            ends_in(text, begin, end, name->ends, name->length, name->whole))
            return &name->is;
    }
    for (uint32_t i = 0; i < rules->name_count; i++) {
        if (ends_in(text, begin, end, rules->names[i], strlen(rules->names[i]), true))
            return &by_host;
    }
    return NULL;
}

static const ss_secret_name *secret_name_of(const ss_rules *rules, const ss_text *text,
                                            size_t begin, size_t end)
{
    const ss_secret_name *found = NULL;
    size_t shorter = end;

    if (end - begin > NAME_SEEN)
        begin = end - NAME_SEEN;
    do {
        end = shorter;
        found = find_name(rules, text, begin, end);
        shorter = found || !has_parts(text, begin, end) ? end : before_variant(text, begin, end);
    } while (shorter < end && shorter > begin);
    return found;
}

static bool is_sign(uint32_t c)
{
    return ss_is_quote(c) || c == '=' || c == ':' || c == '(' || c == '!' || c == '~' || c == '\\';
}

/* Whether a value can follow the word from BEGIN to END: most words of a text are looked at no
   further. */
static bool may_have_value(const ss_scan *s, size_t begin, size_t end)
{
    size_t at = end;

    if (!ss_is_blank(ss_scan_at(s, end)))
        return is_sign(ss_scan_at(s, end));
    while (ss_is_blank(ss_scan_at(s, at)))
        at++;
    return is_sign(ss_scan_at(s, at)) || ss_scan_at(s, begin) == '-' ||
           ss_scan_has(s, begin, "bearer") || ss_scan_has(s, begin, "basic");
}

/* Rules at AT, for scan_next. */
static bool scan_named(const ss_scan *s, size_t at, ss_secret *secret)
{
    const ss_secret_name *name;
    size_t end = at;

    while (ss_is_of_name(ss_scan_at(s, end)))
        end++;
    if (!may_have_value(s, at, end))
        return false;
    name = secret_name_of(s->rules, &s->text, at, end);
    return name && scan_value(s, name, at, end, secret);
}

/* ---- The rules of this process ----------------------------------------------------------------*/

static const ss_rules usual = {.rules = STACKSPLICE_REDACT_DEFAULT};

/* Rules that were replaced while somebody read them. */
typedef struct replaced {
    ss_rules rules; /* first: what CURRENT points to */
    struct replaced *next;
} replaced;

SS_LOCK(lock);
static replaced *old;                     /* (LOCK lock) */
static _Atomic(const ss_rules *) current; /* NULL: the usual ones */
static atomic_uint readers;

/* For readers of the rules: they stay as they are in between.  Never waits.  Signal safe. */
static const ss_rules *rules_enter(void)
{
    const ss_rules *rules;

    atomic_fetch_add(&readers, 1);
    rules = atomic_load(&current);
    return rules ? rules : &usual;
}

static void rules_leave(void)
{
    atomic_fetch_sub(&readers, 1);
}

/* Copy NAME in lower case without '_' and '-'; false if it is none. */
static bool copy_name(const char *name, char to[STACKSPLICE_REDACT_NAME_MAX + 1])
{
    size_t length = 0;

    for (; name && *name; name++) {
        uint32_t c = ss_lower((unsigned char)*name);

        if (c == '_' || c == '-')
            continue;
        if (!ss_is_alnum(c) || length == STACKSPLICE_REDACT_NAME_MAX)
            return false;
        to[length++] = (char)c;
    }
    to[length] = 0;
    return length != 0;
}

static bool copy(const stacksplice_redaction *from, ss_rules *to)
{
    const uint32_t all = STACKSPLICE_REDACT_DEFAULT | STACKSPLICE_REDACT_EMAILS;

    if (from->size != sizeof *from || from->rules & ~all ||
        from->name_count > STACKSPLICE_REDACT_NAMES_MAX || (from->name_count && !from->names))
        return false;
    to->rules = from->rules;
    to->hook = from->hook;
    to->hook_data = from->hook_data;
    for (; to->name_count < from->name_count; to->name_count++) {
        if (!copy_name(from->names[to->name_count], to->names[to->name_count]))
            return false;
    }
    return true;
}

/* Make NEXT, or NULL for the usual ones, the rules; free what nobody reads any more. */
static bool replace(replaced *next)
{
    replaced *before, *unused = NULL;

    if (!ss_lock_take(&lock))
        return false;
    before = (replaced *)(uintptr_t)atomic_exchange(&current, next ? &next->rules : NULL);
    if (before) {
        before->next = old;
        old = before;
    }
    if (!atomic_load(&readers)) { /* whoever comes later reads the new ones */
        unused = old;
        old = NULL;
    }
    ss_lock_drop(&lock);
    while (unused) {
        before = unused->next;
        ss_free(unused);
        unused = before;
    }
    return true;
}

stacksplice_hresult stacksplice_set_redaction(const stacksplice_redaction *redaction)
{
    replaced *made = NULL;

    if (redaction) {
        made = ss_alloc(1, sizeof *made);
        if (!made)
            return E_OUTOFMEMORY;
        if (!copy(redaction, &made->rules)) {
            ss_free(made);
            return E_INVALIDARG;
        }
    }
    if (replace(made))
        return S_OK;
    ss_free(made);
    return E_UNEXPECTED;
}

const char *stacksplice_redact_name(const char *name)
{
    ss_text text = {name ? name : "", NULL, name ? strlen(name) : 0};
    const ss_rules *rules = rules_enter();
    const ss_secret_name *found = rules->rules & STACKSPLICE_REDACT_NAMED
                                      ? secret_name_of(rules, &text, 0, text.length)
                                      : NULL;

    rules_leave();
    return found && !found->encoded ? found->kind : NULL;
}

/* ---- From one secret to the next --------------------------------------------------------------*/

/* In source, note where literals begin and end. */
static void pass(ss_scan *s, uint32_t c)
{
    s->at++;
    if (!s->is_source)
        return;
    if (s->in_quote && c == '\\')
        s->at++;
    else if (s->in_quote)
        s->in_quote = c == s->in_quote ? 0 : s->in_quote;
    else if (ss_is_quote(c))
        s->in_quote = c;
}

/* Whether a secret begins at the current place, or, an e-mail address, is around it. */
static bool find(const ss_scan *s, uint32_t c, ss_secret *secret)
{
    uint32_t rules = s->rules->rules, before = s->at > s->done ? ss_scan_at(s, s->at - 1) : 0;

    if (c == ':')
        return rules & STACKSPLICE_REDACT_URLS && scan_url(s, s->at, secret);
    if (c == '@')
        return rules & STACKSPLICE_REDACT_EMAILS && scan_email(s, s->at, secret);
    if (c == '-' && rules & STACKSPLICE_REDACT_TOKENS && scan_private_key(s, s->at, secret))
        return true;
    if (!ss_is_of_name(c))
        return false;
    if (rules & STACKSPLICE_REDACT_TOKENS && !ss_is_alnum(before) && scan_token(s, s->at, secret))
        return true;
    return rules & STACKSPLICE_REDACT_NAMED && !ss_is_of_name(before) &&
           scan_named(s, s->at, secret);
}

/* Find the next secret; false when there is none. */
static bool scan_next(ss_scan *s, ss_secret *secret)
{
    while (s->at < s->text.length) {
        uint32_t c = ss_scan_at(s, s->at);

        if (find(s, c, secret)) {
            s->at = s->done = secret->end;
            /* A value in quotes of its own: the opening one was passed over, the closing one not.
             */
            if (s->is_source && !s->in_quote && ss_is_quote(ss_scan_at(s, s->at)))
                s->at++;
            return true;
        }
        pass(s, c);
    }
    return false;
}

/* ---- Writing ---------------------------------------------------------------------------------*/

void ss_text_write(ss_text text, ss_writer *w, ss_escape escape)
{
    if (text.utf8 && escape == SS_ESCAPE_NOTHING)
        ss_writer_put(w, text.utf8, text.length); /* also what is not UTF-8 */
    else if (text.utf8)
        ss_writer_utf8(w, text.utf8, text.length, escape);
    else
        ss_writer_utf16(w, text.utf16, text.length, escape);
}

static ss_text part(const ss_text *text, size_t begin, size_t end)
{
    return (ss_text){text->utf8 ? text->utf8 + begin : NULL,
                     text->utf8 ? NULL : text->utf16 + begin, end - begin};
}

static void find_next(ss_redacted *r)
{
    if (!r->scan.rules || !scan_next(&r->scan, &r->next))
        r->next = (ss_secret){r->scan.text.length, r->scan.text.length, NULL};
}

static void put_marker(ss_writer *w, const char *kind)
{
    ss_writer_text(w, "[redacted: ");
    ss_writer_text(w, kind);
    ss_writer_text(w, "]");
}

bool ss_redacted_is_done(const ss_redacted *r)
{
    return r->at >= r->scan.text.length;
}

bool ss_redacted_line_is_done(const ss_redacted *r)
{
    return ss_redacted_is_done(r) || (r->at < r->next.begin && ss_scan_at(&r->scan, r->at) == '\n');
}

/* Write up to END, which is not behind the next secret, or up to that and its marker. */
static void write_part(ss_redacted *r, size_t end, ss_writer *w, ss_escape escape)
{
    ss_text_write(part(&r->scan.text, r->at, end), w, escape);
    r->at = end;
    if (end != r->next.begin || !r->next.kind)
        return;
    put_marker(w, r->next.kind);
    r->at = r->next.end;
    find_next(r);
}

void ss_redacted_line(ss_redacted *r, ss_writer *w, ss_escape escape)
{
    while (!ss_redacted_line_is_done(r)) {
        size_t end = r->at;

        while (end < r->next.begin && ss_scan_at(&r->scan, end) != '\n')
            end++;
        write_part(r, end, w, escape);
    }
    r->at++;
}

static void write_rest(ss_redacted *r, ss_writer *w, ss_escape escape)
{
    while (!ss_redacted_is_done(r) && !w->failed)
        write_part(r, r->next.begin, w, escape);
}

/* ---- The hook --------------------------------------------------------------------------------*/

typedef struct buffer {
    char *bytes; /* owned */
    size_t length, capacity;
} buffer;

static int append(const char *bytes, size_t length, void *data)
{
    buffer *b = data;

    if (length > b->capacity - b->length) {
        size_t capacity = (b->length + length) * 2 + 64;
        char *grown = ss_realloc(b->bytes, capacity, 1);

        if (!grown)
            return 1;
        b->bytes = grown;
        b->capacity = capacity;
    }
    if (length)
        memcpy(b->bytes + b->length, bytes, length);
    b->length += length;
    return 0;
}

/* Have the hook write the text anew. */
static void call_hook(ss_redacted *r, const ss_rules *rules, stacksplice_text_kind kind)
{
    static const char failed[] = "[redacted: hook failed]";
    buffer left = {NULL, 0, 0}, made = {NULL, 0, 0};
    ss_writer w;
    bool is_made;

    ss_writer_init(&w, append, &left);
    write_rest(r, &w, SS_ESCAPE_NOTHING);
    is_made = ss_writer_finish(&w) && !rules->hook(left.bytes ? left.bytes : "", left.length, kind,
                                                   append, &made, rules->hook_data);
    ss_free(left.bytes);
    r->made = made.bytes;
    r->scan.rules = NULL;
    r->scan.text = is_made ? (ss_text){made.bytes ? made.bytes : "", NULL, made.length}
                           : (ss_text){failed, NULL, sizeof failed - 1};
    r->at = 0;
    find_next(r);
}

/* ---- A text ----------------------------------------------------------------------------------*/

void ss_redacted_begin(ss_redacted *r, ss_text text, stacksplice_text_kind kind, bool failfast)
{
    const ss_rules *rules = rules_enter();

    *r = (ss_redacted){.scan = {.text = text,
                                .rules = rules->rules ? rules : NULL,
                                .is_source = kind == STACKSPLICE_TEXT_SOURCE}};
    find_next(r);
    if (rules->hook && !failfast && text.length)
        call_hook(r, rules, kind);
}

void ss_redacted_end(ss_redacted *r)
{
    ss_free(r->made);
    rules_leave();
}

void ss_redact(ss_text text, stacksplice_text_kind kind, bool failfast, ss_writer *w,
               ss_escape escape)
{
    ss_redacted r;

    ss_redacted_begin(&r, text, kind, failfast);
    write_rest(&r, w, escape);
    ss_redacted_end(&r);
}

/* What a saved report has removed already stays. */
void ss_redact_local(const char *name, ss_text value, bool failfast, ss_writer *w, ss_escape escape)
{
    static const char removed[] = "[redacted: ";
    const char *secret = stacksplice_redact_name(name);

    if (!secret || (value.utf8 && value.length >= sizeof removed - 1 &&
                    !memcmp(value.utf8, removed, sizeof removed - 1)))
        ss_redact(value, STACKSPLICE_TEXT_LOCAL, failfast, w, escape);
    else
        put_marker(w, secret);
}

static stacksplice_hresult redact(const char *text, size_t length, stacksplice_text_kind kind,
                                  bool with_hook, stacksplice_write_callback write, void *data)
{
    ss_redacted r;
    ss_writer w;

    if (!text || !write)
        return E_POINTER;
    if (kind < STACKSPLICE_TEXT_MESSAGE || kind > STACKSPLICE_TEXT_LOCAL)
        return E_INVALIDARG;
    ss_redacted_begin(&r, (ss_text){text, NULL, length}, kind, !with_hook);
    ss_writer_init(&w, write, data);
    write_rest(&r, &w, SS_ESCAPE_NOTHING);
    ss_redacted_end(&r);
    return ss_writer_finish(&w) ? S_OK : S_FALSE;
}

stacksplice_hresult stacksplice_redact(const char *text, size_t length, stacksplice_text_kind kind,
                                       stacksplice_write_callback write, void *data)
{
    return redact(text, length, kind, true, write, data);
}

stacksplice_hresult stacksplice_redact_by_rules(const char *text, size_t length,
                                                stacksplice_text_kind kind,
                                                stacksplice_write_callback write, void *data)
{
    return redact(text, length, kind, false, write, data);
}
