/*
 * What is a secret in a text: by its form, or by the name before it; which rules are in force; and
 * texts without their secrets.  One pass, in time proportional to the length.
 */
#include "redact/redact.h"

#include "base/alloc.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <string.h>

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

static bool ss_is_any(uint32_t c, const char *of)
{
    return c && c < 128 && strchr(of, (int)c);
}

static uint32_t ss_lower(uint32_t c)
{
    return c - 'A' < 26 ? c | 32 : c;
}

static bool ends_line(const ss_scan *s, size_t at)
{
    uint32_t c = at < s->text.length ? ss_text_at(&s->text, at) : '\n';

    return c == '\n' || c == '\r';
}

static bool is_alnum_or(uint32_t c, const char *more)
{
    return ss_is_alnum(c) || ss_is_any(c, more);
}

/* Past letters, digits and characters of MORE. */
static size_t run_end(const ss_scan *s, size_t at, const char *more)
{
    while (is_alnum_or(ss_scan_at(s, at), more))
        at++;
    return at;
}

/* Past characters of ANY. */
static size_t after_any(const ss_scan *s, size_t at, const char *any)
{
    while (ss_is_any(ss_scan_at(s, at), any))
        at++;
    return at;
}

static size_t after_blanks(const ss_scan *s, size_t at)
{
    return after_any(s, at, " \t");
}

/* Past a quote, which a text within a text has behind a backslash. */
static size_t after_quote(const ss_scan *s, size_t at)
{
    size_t quote = ss_scan_at(s, at) == '\\' ? at + 1 : at;

    return ss_is_quote(ss_scan_at(s, quote)) ? quote + 1 : at;
}

static bool is_quoted(const ss_scan *s, size_t at)
{
    return after_quote(s, at) != at;
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

/* Whether PREFIX, in which '?' is any letter, stands at AT. */
static bool begins_with(const ss_scan *s, size_t at, const char *prefix)
{
    for (; *prefix; prefix++, at++) {
        uint32_t c = ss_scan_at(s, at);

        if (*prefix == '?' ? !ss_is_letter(c) : c != (unsigned char)*prefix)
            return false;
    }
    return true;
}

/* Where TEXT begins, from AT on and before END; else END. */
static size_t find_text(const ss_scan *s, size_t at, size_t end, const char *text)
{
    while (at < end && !begins_with(s, at, text))
        at++;
    return at < end ? at : end;
}

enum { WORD_MAX = 16 };

/* Past a word of letters, as in "can't". */
static size_t plain_word_end(const ss_scan *s, size_t at)
{
    size_t end = at;

    while (end < at + WORD_MAX &&
           (ss_is_letter(ss_scan_at(s, end)) ||
            (ss_scan_at(s, end) == '\'' && ss_is_letter(ss_scan_at(s, end + 1)))))
        end++;
    return end;
}

/* Whether the text from BEGIN to END is one of WORDS, which have blanks between, in any case. */
static bool is_word_of(const ss_scan *s, size_t begin, size_t end, const char *words)
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

/* ---- Secrets known by their form --------------------------------------------------------------*/

/* A prefix and the fewest letters, digits and characters of MORE that follow it. */
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
    uint32_t first = ss_scan_at(s, at);

    secret->begin = at;
    secret->kind = "Azure secret";
    if (is_azure(s, at, &secret->end))
        return true;
    if (!ss_is_any(first, firsts))
        return false;
    for (size_t i = 0; i < SS_COUNT_OF(shapes); i++) {
        size_t body = at + strlen(shapes[i].prefix);

        if ((unsigned char)*shapes[i].prefix != first || !begins_with(s, at, shapes[i].prefix))
            continue;
        secret->end = run_end(s, body, shapes[i].more);
        secret->kind = shapes[i].kind;
        return secret->end >= body + shapes[i].fewest;
    }
    secret->kind = "JWT";
    return is_jwt(s, at, &secret->end);
}

static bool scan_private_key(const ss_scan *s, size_t at, ss_secret *secret)
{
    size_t label, end, most = at + 64;

    if (!begins_with(s, at, "-----BEGIN "))
        return false;
    label = find_text(s, at + 11, most, "PRIVATE KEY");
    if (label == most)
        return false;
    end = find_text(s, label, s->text.length, "-----END ");
    end = find_text(s, end + 9, s->text.length, "-----") + 5;
    *secret = (ss_secret){at, end < s->text.length ? end : s->text.length, "private key"};
    return true;
}

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
    while (scheme > s->done && at - scheme < 16 && is_alnum_or(ss_scan_at(s, scheme - 1), "+.-"))
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

    while (begin > s->done && at - begin < 64 && is_alnum_or(ss_scan_at(s, begin - 1), "._%+-"))
        begin--;
    for (; is_alnum_or(ss_scan_at(s, end), ".-"); end++)
        dot = ss_scan_at(s, end) == '.' && ss_is_alnum(ss_scan_at(s, end + 1)) ? end : dot;
    while (end > at && !ss_is_alnum(ss_scan_at(s, end - 1)))
        end--;
    *secret = (ss_secret){begin, end, "e-mail"};
    return begin < at && dot > at + 1;
}

/* ---- Names that tell of a secret --------------------------------------------------------------*/

/* What a name in front of a value says of it. */
typedef struct ss_secret_name {
    const char *kind;
    bool whole;       /* it is a word of its own, as in db_pass */
    bool to_line_end; /* its value has blanks */
    bool in_prose;    /* a quoted word after it is no secret: "unexpected token '<'" */
    bool encoded;     /* its value is base64 or the like: in prose it says something else */
} ss_secret_name;

/* A name ends in one of these words. */
static const struct known_name {
    ss_secret_name is;
    const char *ends;
} known_names[] = {
    {{.kind = "password"}, "password passwords passwd passphrase passcode"},
    {{.kind = "password", .whole = true}, "pwd pass"},
    {{.kind = "secret"}, "secret secrets"},
    {{.kind = "token", .in_prose = true}, "token"},
    {{.kind = "token", .whole = true, .in_prose = true}, "jwt bearer"},
    {{.kind = "key"},
     "apikey accesskey secretkey privatekey authkey encryptionkey signingkey masterkey accountkey "
     "sharedkey amzsignature sharedaccesssignature"},
    {{.kind = "credentials"}, "credential credentials"},
    {{.kind = "credentials", .to_line_end = true}, "authorization"},
    {{.kind = "cookie", .whole = true, .to_line_end = true}, "cookie"},
    {{.kind = "session"}, "sessionid"},
    {{.kind = "key", .whole = true, .encoded = true}, "sig"},
    {{.kind = "credentials", .whole = true, .encoded = true}, "basic auth"},
};
static const ss_secret_name by_host = {.kind = "secret", .whole = true};

/* What may stand behind such a name, as in db_password_prod or secret_key_base. */
static const char variants[] =
    "prod production stage staging dev development test live old new current previous primary "
    "secondary backup main default value text plain raw base hash confirm local env confirmation";

enum { NAME_SEEN = 64 }; /* of a longer name only the end counts */

/* A name in lower case without '_' and '-'. */
typedef struct plain_name {
    char text[NAME_SEEN];
    bool begins[NAME_SEEN]; /* whether a word begins there */
    unsigned words;
    size_t length;
} plain_name;

static void read_name(const ss_text *text, size_t begin, size_t end, plain_name *n)
{
    uint32_t before = 0;

    n->length = n->words = 0;
    for (size_t at = end - begin > NAME_SEEN ? end - NAME_SEEN : begin; at < end; at++) {
        uint32_t c = ss_text_at(text, at), small = ss_lower(c);

        if (c != '_' && c != '-') {
            bool begins = !ss_is_letter(before) || (c != small && before == ss_lower(before));

            n->words += begins;
            n->begins[n->length] = begins;
            n->text[n->length++] = (char)(c < 128 ? small : 127);
        }
        before = c;
    }
}

/* The length of the word of WORDS, which have blanks between, in which N ends; 0: in none. */
static size_t ends_in(const plain_name *n, const char *words, bool whole)
{
    for (size_t length; *words; words += length + (words[length] == ' ')) {
        length = strcspn(words, " ");
        if (n->length >= length && !memcmp(n->text + n->length - length, words, length) &&
            (!whole || n->begins[n->length - length]))
            return length;
    }
    return 0;
}

static const ss_secret_name *find_name(const ss_rules *rules, const plain_name *n)
{
    for (size_t i = 0; i < SS_COUNT_OF(known_names); i++) {
        if (ends_in(n, known_names[i].ends, known_names[i].is.whole))
            return &known_names[i].is;
    }
    for (uint32_t i = 0; i < rules->name_count; i++) {
        if (ends_in(n, rules->names[i], true))
            return &by_host;
    }
    return NULL;
}

/* Take a number or a variant off the end; false if there is none. */
static bool drop_variant(plain_name *n)
{
    size_t before = n->length;

    while (n->length && ss_is_digit((unsigned char)n->text[n->length - 1]))
        n->length--;
    if (n->words > 1 && n->length == before)
        n->length -= ends_in(n, variants, true);
    return n->length < before;
}

static const ss_secret_name *secret_name_of(const ss_rules *rules, const ss_text *text,
                                            size_t begin, size_t end)
{
    const ss_secret_name *found;
    plain_name n;

    read_name(text, begin, end, &n);
    do
        found = find_name(rules, &n);
    while (!found && drop_variant(&n));
    return found;
}

/* ---- Where a value begins and ends ------------------------------------------------------------*/

enum {
    CODE_SEEN = 512,     /* of a list in code, to find a literal in it */
    ENCODED_SEEN = 1024, /* of a word that must be base64 to be a secret */
    MOST_LINE_DIGITS = 7
};

/* What stands between a name and its value. */
typedef enum separator { NOTHING, BLANKS, COLON, EQUALS, COMMA, PARENTHESIS } separator;

/* A name from BEGIN to END, and AT, where its value may begin. */
typedef struct named {
    const ss_secret_name *is;
    size_t begin, end, at;
    separator by;
} named;

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

/* Read from the end of a name to where its value may begin. */
static void read_separator(const ss_scan *s, named *n)
{
    size_t after = after_quote(s, n->end), blank;
    bool in_quotes = after != n->end;

    if (in_quotes && ss_scan_at(s, after) == ']')
        after++;
    n->at = blank = after_blanks(s, after);
    n->by = read_sign(s, &n->at);
    n->at = after_blanks(s, n->at);
    if (n->by == COMMA && !in_quotes)
        n->by = NOTHING;
    else if (n->by == NOTHING && !in_quotes && blank > n->end)
        n->by = BLANKS;
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

/* Past "Bearer " and the like. */
static size_t after_scheme(const ss_scan *s, size_t at)
{
    size_t end = plain_word_end(s, at);

    return ss_scan_at(s, end) == ' ' && is_word_of(s, at, end, "bearer basic digest token")
               ? after_blanks(s, end)
               : at;
}

/* Past the letters before a literal: b'', rb"", L"". */
static size_t after_prefix(const ss_scan *s, size_t at)
{
    size_t end = at;

    while (end < at + 2 && ss_is_letter(ss_scan_at(s, end)))
        end++;
    return is_quoted(s, end) ? end : at;
}

/* Where the literal that begins at AT ends; it may have several lines unless IN_LINE.  The end of its
   first line, if no quote ends it: then nothing behind here looks for such a quote again. */
static size_t literal_end(const ss_scan *s, size_t at, uint32_t quote, bool is_inner,
                          bool is_triple, bool in_line)
{
    size_t line_end = 0;

    for (size_t end = at; end < s->text.length; end++) {
        uint32_t c = ss_scan_at(s, end);

        if (ends_line(s, end)) {
            line_end = line_end ? line_end : end;
            if (in_line)
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

    at += 1 + (size_t)is_inner;
    is_triple = ss_scan_at(s, at) == quote && ss_scan_at(s, at + 1) == quote;
    secret->begin = is_triple ? at + 2 : at;
    secret->end = literal_end(s, secret->begin, quote, is_inner, is_triple, s->is_source);
    if (s->is_source && ends_line(s, secret->end) &&
        ends_line(s, after_any(s, secret->begin, " \t)]},;:")))
        return false; /* it is the quote that ends a literal */
    return secret->end > secret->begin;
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
    return c <= ' ' || ss_is_quote(c) || ss_is_any(c, ",;&)]}<>|\\");
}

/* Whether what stands at the value's place says that there is none. */
static bool is_no_value(const ss_scan *s, const named *n)
{
    size_t end = n->at, stars = after_any(s, n->at, "*");

    while (end < n->at + WORD_MAX && ss_is_of_name(ss_scan_at(s, end)))
        end++;
    if (is_word_of(s, n->at, end, "none null nil true false undefined") &&
        (!n->is->to_line_end || ends_line(s, end) || ss_is_quote(ss_scan_at(s, end))))
        return true;
    return stars > n->at && (ends_line(s, stars) || ends_word(ss_scan_at(s, stars)));
}

/* The blank with which a header goes on behind the end of a line at AT, after a comma; AT itself if
   it ends there. */
static size_t after_fold(const ss_scan *s, size_t at)
{
    size_t next = at + 1 + (ss_scan_at(s, at) == '\r' && ss_scan_at(s, at + 1) == '\n');

    return at && ss_scan_at(s, at - 1) == ',' && ss_is_blank(ss_scan_at(s, next)) ? next : at;
}

/* Where the line of a header ends, or the literal around it.  Quotes in it are its own. */
static size_t header_end(const ss_scan *s, const named *n)
{
    uint32_t before = n->begin ? ss_scan_at(s, n->begin - 1) : 0;
    uint32_t quote = s->is_source ? s->in_quote : ss_is_quote(before) ? before : 0;
    bool is_inner = quote && n->begin > 1 && ss_scan_at(s, n->begin - 2) == '\\';
    size_t end = n->at, next = end;

    if (quote)
        return literal_end(s, n->at, quote, is_inner, false, true);
    for (; !ends_line(s, end) || (next = after_fold(s, end)) != end; end++)
        end = ends_line(s, end) ? next : end;
    return end;
}

/* Whether the name is a variable of a shell or of .env, whose value ends with a blank: at the
   beginning of a line, in capitals, with '=' behind it. */
static bool is_variable(const ss_scan *s, const named *n)
{
    size_t at = n->begin;

    if (s->is_source || ss_scan_at(s, n->end) != '=' ||
        (at && !ends_line(s, at - 1) && (at < 7 || !ss_scan_has(s, at - 7, "export "))))
        return false;
    while (at < n->end && ss_scan_at(s, at) - 'a' >= 26)
        at++;
    return at == n->end;
}

static size_t word_end(const ss_scan *s, const named *n, size_t most)
{
    bool is_whole = is_variable(s, n);
    size_t at = n->at;

    while (at - n->at < most && !ends_line(s, at) &&
           (is_whole ? ss_scan_at(s, at) > ' ' : !ends_word(ss_scan_at(s, at))))
        at++;
    return at;
}

/* Whether SECRET can be that of N: where it must, it looks like base64, which has twelve characters
   or more, and not only small letters. */
static bool may_be_of(const ss_scan *s, const named *n, const ss_secret *secret)
{
    bool is_mixed = false;

    if (!n->is->encoded)
        return true;
    for (size_t at = secret->begin; at < secret->end; at++) {
        uint32_t c = ss_scan_at(s, at);

        if (!is_alnum_or(c, "_-+/=%."))
            return false;
        is_mixed =
            is_mixed || (at > secret->begin && ss_lower(c) != c) || ss_is_digit(c) || c == '=';
    }
    return is_mixed && secret->end >= secret->begin + 12;
}

static bool read_word(const ss_scan *s, const named *n, ss_secret *secret)
{
    bool is_code = s->is_source && !s->in_quote;
    uint32_t first = ss_scan_at(s, n->at);

    if ((is_code ? !ss_is_digit(first) : s->is_source && (first == '%' || first == '$')) ||
        is_no_value(s, n))
        return false;
    secret->begin = n->at;
    secret->end = n->is->to_line_end ? header_end(s, n)
                                     : word_end(s, n, n->is->encoded ? ENCODED_SEEN : SIZE_MAX);
    return secret->end > n->at && (!is_code || secret->end > n->at + 3) && may_be_of(s, n, secret);
}

/* Whether a value without a sign before it is one: --token abc, Bearer abc, password "abc". */
static bool may_follow_blanks(const ss_scan *s, const named *n)
{
    if (is_quoted(s, n->at))
        return !n->is->in_prose || s->is_source;
    if (ss_scan_has(s, n->begin, "bearer ") || n->is->encoded)
        return word_end(s, n, 12) == n->at + 12;
    return ss_scan_has(s, n->begin, "--") && ss_scan_at(s, n->at) != '-';
}

/* Whether the name is a file and a line follows: "dir/token:12: in f", "<token:12>". */
static bool is_place(const ss_scan *s, const named *n)
{
    size_t at = n->end + 1;

    if (!n->begin || !ss_is_any(ss_scan_at(s, n->begin - 1), "/<\t"))
        return false;
    while (at <= n->end + MOST_LINE_DIGITS && ss_is_digit(ss_scan_at(s, at)))
        at++;
    return at > n->end + 1 && ss_is_any(ss_scan_at(s, at), ":>") && ss_scan_at(s, n->end) == ':';
}

/* ---- Prose -----------------------------------------------------------------------------------*/

/* Whether a sentence about the value begins at AT: "must have 8 letters", "is required". */
static bool is_sentence(const ss_scan *s, size_t at)
{
    static const char begins[] =
        "must should may can cannot can't is isn't are has have needs need does doesn't was this "
        "value field please not too at expected input string invalid required missing requires "
        "check";
    size_t end = plain_word_end(s, at);

    return is_word_of(s, at, end, begins) &&
           (ends_line(s, end) || ss_is_any(ss_scan_at(s, end), ",.") ||
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

/* Whether "NAME: " is prose about a value, not in front of one. */
static bool is_prose(const ss_scan *s, const named *n)
{
    static const char judged[] =
        "invalid wrong bad illegal unknown incorrect weak stray malformed unrecognized "
        "unterminated at near found got undefined unsupported first next of";
    size_t begin = n->begin, end;

    if (ss_scan_at(s, n->at - 1) != ' ')
        return false;
    if (is_sentence(s, n->at) || (n->is->in_prose && are_words(s, n->at)))
        return true;
    word_before(s, &begin, &end);
    return is_word_of(s, begin, end, "unexpected expected missing no such without") ||
           (is_word_of(s, begin, end, judged) &&
            (n->is->in_prose || n->is->to_line_end ? is_lexeme(s, n->at) : are_words(s, n->at)));
}

/* ---- Values ----------------------------------------------------------------------------------*/

/* The block of YAML that follows "|" or ">": the lines that are further in than the name. */
static bool read_block(const ss_scan *s, const named *n, ss_secret *secret)
{
    size_t first, end, margin = 0;

    if (!ss_is_any(ss_scan_at(s, n->at), "|>"))
        return false;
    first = end = after_any(s, n->at + 1, "-+0123456789 \t");
    if (!ends_line(s, first))
        return false;
    while (margin < n->begin && ss_is_blank(ss_scan_at(s, n->begin - 1 - margin)))
        margin++;
    while (end < s->text.length) {
        size_t line = after_any(s, end, "\n\r"), inner = after_blanks(s, line);

        if (inner <= line + margin || ends_line(s, inner))
            break;
        if (end == first)
            secret->begin = inner;
        for (end = inner; !ends_line(s, end);)
            end++;
    }
    secret->end = end;
    return end > first;
}

/* The value of N, after its separator; false if there is no secret. */
static bool scan_value(const ss_scan *s, named *n, ss_secret *secret)
{
    bool is_code = s->is_source && !s->in_quote;
    size_t quote;

    if ((n->by == BLANKS && !may_follow_blanks(s, n)) || is_place(s, n))
        return false;
    if (is_code && n->by == COLON)
        n->at = after_type(s, n->at);
    if (ss_scan_has(s, n->at, "[redacted") || (n->by == COLON && !is_code && is_prose(s, n)))
        return false;
    if (n->by == COLON && !s->is_source && read_block(s, n, secret))
        return true;
    quote = after_prefix(s, n->at);
    if (s->in_quote && ss_scan_at(s, quote) == s->in_quote)
        return false; /* the literal ends here */
    /* Of a header, a quote is a part. */
    if (is_quoted(s, quote) &&
        !(n->is->to_line_end && n->by == COLON && !is_quoted(s, n->end) && !s->is_source))
        return !ss_scan_has(s, after_quote(s, quote), "[redacted") &&
               read_quoted(s, quote, secret) && may_be_of(s, n, secret);
    n->at = after_scheme(s, n->at);
    if (!n->is->to_line_end && ss_is_any(ss_scan_at(s, n->at), "[{("))
        return !(s->is_source && s->in_quote) && read_bracketed(s, n->at, secret);
    return read_word(s, n, secret);
}

/* A secret with a telling name at AT, for scan_next: password=..., "api_key": "..." */
static bool scan_named(const ss_scan *s, size_t at, ss_secret *secret)
{
    named n = {.begin = at, .end = at};

    while (ss_is_of_name(ss_scan_at(s, n.end)))
        n.end++;
    read_separator(s, &n);
    if (n.by == NOTHING || /* most words of a text are looked at no further */
        ((n.by == COMMA || n.by == PARENTHESIS) && !is_quoted(s, after_prefix(s, n.at))) ||
        (n.by == BLANKS && ss_scan_at(s, at) != '-' && !is_quoted(s, n.at) &&
         !ss_scan_has(s, at, "bearer") && !ss_scan_has(s, at, "basic")))
        return false;
    n.is = secret_name_of(s->rules, &s->text, n.begin, n.end);
    if (!n.is || !scan_value(s, &n, secret))
        return false;
    secret->kind = n.is->kind;
    return true;
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

/* Find the next secret, or the end, and no kind. */
static void find_next(ss_redacted *r)
{
    ss_scan *s = &r->scan;

    while (s->rules && s->at < s->text.length) {
        uint32_t c = ss_scan_at(s, s->at);

        if (find(s, c, &r->next)) {
            s->at = s->done = r->next.end;
            /* A value in quotes of its own: the opening one was passed, the closing one not. */
            if (s->is_source && !s->in_quote && ss_is_quote(ss_scan_at(s, s->at)))
                s->at++;
            return;
        }
        pass(s, c);
    }
    r->next = (ss_secret){s->text.length, s->text.length, NULL};
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
