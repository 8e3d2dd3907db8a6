/* Where the value behind a telling name begins and ends. */
#include "redact/scan.h"

enum {
    CODE_SEEN = 128,    /* of a list in code, to find a literal in it */
    ENCODED_SEEN = 64,  /* of a word that must be base64 to be a secret */
    KEY_LEAST = 8,      /* characters of a key without a sign before it */
    LINES_SEEN = 512,   /* of a list of several lines, to find its end */
    TAG_SEEN = 128,     /* of the attributes of an element */
    MEMBER_SEEN = 64,   /* between a name and the name of its value */
    COLUMNS_SEEN = 256, /* of SQL, behind the name of one */
    FORM_SEEN = 32,     /* of the name behind "&" */
    FOLD_SEEN = 80,     /* from one literal to one joined to it on the next line */
    INDEX_SEEN = 32,    /* behind a name, in brackets */
    LOGIN_SEEN = 48,    /* before a password in .netrc */
    MOST_LINE_DIGITS = 7
};

/* ---- Between a name and its value ------------------------------------------------------------*/

/* Past blanks, also those that do not break. */
static size_t after_spaces(const ss_scan *s, size_t at)
{
    for (;;) {
        uint32_t c = ss_scan_at(s, at);

        if (ss_is_blank(c))
            at++;
        else if (c == 0xA0 && !s->text.utf8)
            at++;
        else if (c == 0xC2 && s->text.utf8 && ss_scan_at(s, at + 1) == 0xA0)
            at += 2;
        else
            return at;
    }
}

static ss_separator read_sign(const ss_scan *s, ss_named *n)
{
    uint32_t c = ss_scan_at(s, n->at), next = ss_scan_at(s, n->at + 1);

    if (c == ':' && next == ':')
        return SS_NOTHING; /* a scope of C++ */
    if (c == '%' && next == '3' && ss_is_any(ss_scan_at(s, n->at + 2), "DdAa")) {
        n->at += 3;
        n->is_percent = true;
        return SS_EQUALS;
    }
    if (c == '=' || ((c == '!' || c == ':' || c == '~') && next == '=') ||
        (c == '-' && next == '>' && n->is_quoted)) {
        n->is_compared = next == '=' && c != ':';
        if (n->is_compared && n->is_quoted && is_quoted(s, n->at - 2) && !n->is_code)
            return SS_NOTHING; /* two texts: 'token' == 'name' */
        do
            c = ss_scan_at(s, ++n->at);
        while (ss_is_any(c, "=~>"));
        return SS_EQUALS;
    }
    if (n->is_code && ss_scan_has(s, n->at, "or ") && is_quoted(s, n->at + 3)) {
        n->at += 3;
        return SS_EQUALS;
    }
    if (c != ':' && c != ',' && c != '(')
        return SS_NOTHING;
    n->at++;
    return c == ':' ? SS_COLON : c == ',' ? SS_COMMA : SS_PARENTHESIS;
}

/* Whether the name of N is itself the value of a member: "name": "DB_PASSWORD". */
static bool is_value(const ss_scan *s, const ss_named *n)
{
    size_t at = n->begin, least = at > MEMBER_SEEN ? at - MEMBER_SEEN : 0;

    while (at > least &&
           (ss_is_quote(ss_scan_at(s, at - 1)) || ss_is_any(ss_scan_at(s, at - 1), ". \\") ||
            (ss_scan_at(s, n->begin - 1) == '.' && is_alnum_or(ss_scan_at(s, at - 1), "_."))))
        at--;
    return at && (ss_is_any(ss_scan_at(s, at - 1), ":=") ||
                  (ss_scan_at(s, at - 1) == '>' && begins_with(s, n->end, "</")));
}

/* Past '"value":' or "<value>" behind the name in "name": "NAME" and perhaps another member; FROM if
   that is not there. */
static size_t after_member(const ss_scan *s, size_t from)
{
    bool is_element = begins_with(s, from, "</");

    for (size_t at = from; at < from + MEMBER_SEEN; at++) {
        size_t word = at + 1, sign;

        if (ss_is_any(ss_scan_at(s, at), "})]-") || (!is_element && ss_scan_has(s, word, "name")))
            break;
        if (!is_alnum_or(ss_scan_at(s, at), "/") && ss_scan_has(s, word, "value")) {
            sign = after_blanks(s, after_quote(s, word + 5));
            return ss_is_any(ss_scan_at(s, sign), is_element ? ">" : ":=")
                       ? after_blanks(s, sign + 1)
                       : from;
        }
    }
    return from;
}

/* Past 'default=' behind a name in quotes and a comma; FROM if that is not there. */
static size_t after_default(const ss_scan *s, size_t from)
{
    return ss_scan_has(s, from, "default=") && is_quoted(s, from + 8) ? from + 8 : from;
}

/* Past what stands between a name and its sign in a declaration: api_key[], cookies['sid'],
   local token <const>; AT if it is none. */
static size_t after_index(const ss_scan *s, const ss_named *n, size_t at)
{
    size_t end = at, blank = after_blanks(s, at);
    bool is_list = ss_scan_at(s, at) == '[';

    if (!is_list && (!n->is_code || ss_scan_at(s, blank) != '<'))
        return ss_scan_at(s, at) == ']' && n->begin && ss_scan_at(s, n->begin - 1) == '[' ? at + 1
                                                                                          : at;
    for (end = is_list ? at + 1 : blank + 1; end < at + INDEX_SEEN; end++) {
        uint32_t c = ss_scan_at(s, end);

        if (c == (is_list ? ']' : '>'))
            return end + 1;
        if (!is_alnum_or(c, "_-") && !(ss_is_quote(c) && c != n->quote))
            break;
    }
    return at;
}

/* Past the beginning of an element, which the name is in: <password>, <property name="password">;
   FROM if it is none. */
static size_t after_tag(const ss_scan *s, const ss_named *n, size_t from)
{
    size_t at = from;

    if (!n->is_quoted && (!n->begin || !ss_is_any(ss_scan_at(s, n->begin - 1), "<:")))
        return from;
    while (at < from + TAG_SEEN && !ends_line(s, at) && !ss_is_any(ss_scan_at(s, at), "<>"))
        at++;
    return ss_scan_at(s, at) == '>' && ss_scan_at(s, at - 1) != '/' ? at + 1 : from;
}

/* Past "provided:" and the like, which may stand before the value in a message; AT if none does. */
static size_t after_told(const ss_scan *s, size_t at)
{
    size_t end = plain_word_end(s, at);

    return ss_scan_at(s, end) == ':' && is_word_of(s, at, end, "provided given")
               ? after_spaces(s, end + 1)
               : at;
}

/* Read from the end of a name to where its value may begin. */
static void read_separator(const ss_scan *s, ss_named *n)
{
    size_t after = after_quote(s, n->end), blank, past;
    bool is_call = false;
    uint32_t before = n->begin > s->done ? ss_scan_at(s, n->begin - 1) : 0;

    n->is_quoted = after != n->end;
    n->quote = s->is_source ? s->in_quote : ss_is_quote(before) ? before : 0;
    if (n->is_quoted && ss_scan_at(s, n->end) == n->quote)
        n->quote = 0; /* that of the name, which ends here; the value has its own */
    n->is_code = s->is_source && !n->quote;
    if (n->is_quoted && ss_is_any(ss_scan_at(s, after), "])")) {
        is_call = ss_scan_at(s, after) == ')';
        after++;
    } else if (!n->is_quoted) {
        after = after_index(s, n, after);
    }
    n->at = blank = after_spaces(s, after);
    n->by = read_sign(s, n);
    if (n->by == SS_NOTHING || n->by == SS_COMMA) {
        if (is_value(s, n) && (past = after_member(s, after)) != after) {
            n->at = past;
            n->by = SS_EQUALS;
            return;
        }
        if (n->by == SS_NOTHING && (ss_scan_at(s, blank) == '>' || blank > n->end) &&
            (past = after_tag(s, n, after)) != after) {
            n->at = past;
            n->by = SS_TAG;
            return;
        }
    }
    n->at = after_spaces(s, n->at);
    if (n->by == SS_PARENTHESIS && n->is_code && ss_scan_has(s, n->begin, "set")) {
        past = n->at; /* set_password(user, "x") */
        while (past < n->at + MEMBER_SEEN && is_alnum_or(ss_scan_at(s, past), "_., "))
            past++;
        n->at = is_quoted(s, past) && ss_is_any(ss_scan_at(s, past - 1), ", ") ? past : n->at;
    }
    if (n->by == SS_COMMA && n->is_quoted && (past = after_default(s, n->at)) != n->at) {
        n->at = past;
        n->by = SS_EQUALS;
    }
    if (n->by == SS_NOTHING && !n->is_quoted && (past = after_told(s, n->at)) != n->at) {
        n->at = past;
        n->by = SS_COLON;
    }
    if (is_call && n->by != SS_EQUALS)
        n->by = SS_NOTHING;
    else if (n->by == SS_COMMA && !n->is_quoted && !n->is_code)
        n->by = SS_NOTHING;
    else if (n->by == SS_NOTHING && !n->is_quoted && blank > n->end)
        n->by = SS_BLANKS;
    if (n->by == SS_BLANKS && ss_scan_has(s, n->at, "by ") && is_quoted(s, n->at + 3))
        n->at += 3; /* IDENTIFIED BY 'x' */
}

/* Past the type in "password: str = "; in a text it has no blanks. */
static size_t after_type(const ss_scan *s, const ss_named *n, size_t at)
{
    const char *more = n->is_code ? "_-. \t|[]," : "_.|[],";
    size_t end = at, most = at + 64;

    while (end < most && is_alnum_or(ss_scan_at(s, end), more))
        end++;
    if (!n->is_code)
        return end > at && begins_with(s, end, " = ") ? end + 3 : at;
    return ss_scan_at(s, end) == '=' && ss_scan_at(s, end + 1) != '=' ? after_blanks(s, end + 1)
                                                                      : at;
}

/* Past "Bearer " and the like; "token = token or x" has no scheme. */
static size_t after_scheme(const ss_scan *s, const ss_named *n, size_t at)
{
    size_t end = plain_word_end(s, at);

    return ss_scan_at(s, end) == ' ' &&
                   is_word_of(s, at, end,
                              n->is->in_prose ? "bearer basic digest" : "bearer basic digest token")
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

/* ---- Literals --------------------------------------------------------------------------------*/

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

/* Past the literal at AT, and blanks. */
static size_t after_quoted(const ss_scan *s, size_t at)
{
    size_t end = literal_end(s, at + 1, ss_scan_at(s, at), false, false, true);

    return after_blanks(s, after_quote(s, end));
}

/* Where the next literal begins that is joined to the one that ends at END: 'a' 'b', "a" + "b",
   "a" .. "b"; 0: there is none. */
static size_t joined_at(const ss_scan *s, size_t end)
{
    size_t after = after_quote(s, end), at = after_blanks(s, after), next;
    size_t fold = after_blanks(s, after_any(s, at, "+.&"));
    bool is_folded = ends_line(s, fold) || (s->is_source && ss_scan_at(s, fold) == '\\');

    if (after == end)
        return 0;
    if (is_folded) { /* perhaps folded, as pprint does; the quoted name of a next value is none */
        at = after_any(s, fold, " \t\r\n\\");
        next = after_prefix(s, after_blanks(s, after_any(s, at, "+.&")));
        if (at > end + FOLD_SEEN || !is_quoted(s, next) ||
            ss_is_any(ss_scan_at(s, after_quoted(s, next)), ":="))
            return 0;
        return ss_scan_at(s, next) == ss_scan_at(s, end) ? next : 0;
    }
    next = after_blanks(s, after_any(s, at, "+.&"));
    if (next > at + 4 || next == after)
        return 0; /* 'a''b' is one literal with a quote in it, or two */
    at = after_prefix(s, next);
    return is_quoted(s, at) && ss_scan_at(s, at) == ss_scan_at(s, end) ? at : 0;
}

/* The literal whose first quote is at AT, and those joined to it. */
static bool read_quoted(const ss_scan *s, size_t at, const ss_named *n, ss_secret *secret)
{
    bool is_inner = ss_scan_at(s, at) == '\\', is_triple;
    uint32_t quote = ss_scan_at(s, at + is_inner);
    size_t begin = at + 1 + (size_t)is_inner, next;

    is_triple = ss_scan_at(s, begin) == quote && ss_scan_at(s, begin + 1) == quote;
    secret->begin = is_triple ? begin + 2 : begin;
    secret->end = literal_end(s, secret->begin, quote, is_inner, is_triple, s->is_source);
    if (s->is_source && ends_line(s, secret->end) &&
        ends_line(s, after_any(s, secret->begin, " \t)]},;:")))
        return false; /* it is the quote that ends a literal */
    if (secret->end == secret->begin)
        return false;
    while (!is_triple && (next = joined_at(s, secret->end))) {
        begin = next + 1 + (ss_scan_at(s, next) == '\\');
        secret->end = literal_end(s, begin, quote, is_inner, false, s->is_source);
    }
    secret->quote = s->is_source && !n->quote ? quote : n->quote;
    return true;
}

/* The text of an element, to the tag that ends it. */
static bool read_element(const ss_scan *s, size_t at, ss_secret *secret)
{
    size_t end = begins_with(s, at, "<![CDATA[") ? at + 9 : at;

    while (!ends_line(s, end) && !ss_is_any(ss_scan_at(s, end), "<>"))
        end++;
    if (ss_scan_at(s, end) == '>' && end > at && ss_scan_at(s, end - 1) == ']')
        end++;
    secret->begin = at;
    secret->end = end;
    return end > at && ss_scan_at(s, end) == '<' && ss_scan_at(s, end + 1) == '/';
}

/* ---- Lists and calls -------------------------------------------------------------------------*/

/* Where the bracket at AT, of which others may be in it, is closed; LINES: perhaps some lines further
   down.  The end of its line, if that is not found. */
static size_t bracket_end(const ss_scan *s, size_t at, bool lines, bool *has_literal)
{
    uint32_t open = ss_scan_at(s, at), close = open == '(' ? ')' : open + 2, quote = 0;
    size_t end = at, line_end = 0;
    unsigned depth = 0;

    do {
        uint32_t c = ss_scan_at(s, end++);

        if (quote) {
            end += c == '\\' && !ends_line(s, end);
            quote = c == quote ? 0 : quote;
        } else if (ss_is_quote(c) && !(c == '\'' && ss_is_alnum(ss_scan_at(s, end - 2)))) {
            *has_literal = true;
            quote = c;
        } else {
            depth += c == open;
            depth -= c == close;
        }
        if (depth && ends_line(s, end)) {
            line_end = line_end ? line_end : end;
            quote = 0;
            if (!lines || end >= s->text.length || end > at + LINES_SEEN)
                return line_end;
        }
    } while (depth && (*has_literal || !lines || end < at + LINES_SEEN));
    return end;
}

/* A list, a table or a tuple; in code only one with literals. */
static bool read_bracketed(const ss_scan *s, const ss_named *n, size_t at, ss_secret *secret)
{
    bool has_literal = ss_scan_at(s, at + 1) == '[' || ss_scan_at(s, at + 1) == '=';
    size_t quote = after_any(s, at + 1, " \t\r\n");

    while (n->is_code && !has_literal && quote < at + CODE_SEEN && !ends_line(s, quote))
        has_literal = ss_is_quote(ss_scan_at(s, quote++));
    if (n->is_code && !has_literal)
        return false;
    secret->end = bracket_end(s, at, true, &has_literal);
    secret->begin = at;
    return secret->end > at + 2;
}

/* The bracket of SecretStr('x') or dict(old='x') at AT; 0 if no such call is there. */
static size_t holder_bracket(const ss_scan *s, const ss_named *n, size_t at)
{
    size_t end = run_end(s, at, "_."), last = end;

    if (end == at || ss_scan_at(s, end) != '(' || !ss_is_letter(ss_scan_at(s, at)))
        return 0;
    while (last > at && ss_scan_at(s, last - 1) != '.')
        last--;
    if (ss_scan_has(s, last, "secret") ||
        is_word_of(s, last, end,
                   "dict str bytes bytearray list tuple set b64decode fromhex unhexlify"))
        return end;
    return !n->is_code && ss_scan_at(s, last) - 'A' < 26 ? end : 0;
}

static bool read_held(const ss_scan *s, const ss_named *n, size_t bracket, ss_secret *secret)
{
    bool has_literal = true;
    size_t at = bracket + 1;

    while (at < bracket + CODE_SEEN && !ends_line(s, at) && !ss_is_quote(ss_scan_at(s, at)))
        at++;
    if (!ss_is_quote(ss_scan_at(s, at)) || ss_is_no_value(s, n, at + 1) || ss_is_remark(s, at + 1))
        return false;
    secret->begin = n->at;
    secret->end = bracket_end(s, bracket, false, &has_literal);
    return true;
}

/* ---- Words -----------------------------------------------------------------------------------*/

/* The blank with which a header goes on behind the end of a line at AT: the next line is further in
   than MARGIN and is no other header; AT itself if the header ends there. */
static size_t after_fold(const ss_scan *s, size_t at, size_t margin)
{
    size_t next = at + 1 + (ss_scan_at(s, at) == '\r' && ss_scan_at(s, at + 1) == '\n');
    size_t inner = next, name;

    while (inner < next + 64 && ss_is_blank(ss_scan_at(s, inner)))
        inner++;
    name = inner;
    while (name < inner + 64 && ss_is_of_name(ss_scan_at(s, name)))
        name++;
    return inner <= next + margin || ends_line(s, inner) ||
                   (ss_scan_at(s, name) == ':' && ss_scan_at(s, name + 1) == ' ')
               ? at
               : next;
}

/* The blanks before the name, if nothing else stands before it on its line. */
static size_t margin_of(const ss_scan *s, const ss_named *n)
{
    size_t margin = 0;

    while (margin < n->begin && ss_is_blank(ss_scan_at(s, n->begin - 1 - margin)))
        margin++;
    return margin == n->begin || ends_line(s, n->begin - 1 - margin) ? margin : 0;
}

/* Where the line of a header ends, or the literal around it.  Quotes in it are its own. */
static size_t header_end(const ss_scan *s, const ss_named *n)
{
    bool is_inner = n->quote && n->begin > 1 && ss_scan_at(s, n->begin - 2) == '\\';
    size_t end = n->at, next = end, margin = margin_of(s, n);

    if (n->quote)
        return literal_end(s, n->at, n->quote, is_inner, false, true);
    for (; !ends_line(s, end) || (next = after_fold(s, end, margin)) != end; end++) {
        if (end >= s->text.length)
            break;
        end = ends_line(s, end) ? next : end;
    }
    return end;
}

/* Whether the name is a variable of a shell or of .env, whose value ends with a blank: at the
   beginning of a line, in capitals, with '=' behind it. */
static bool is_variable(const ss_scan *s, const ss_named *n)
{
    size_t at = n->begin;

    if (s->is_source || ss_scan_at(s, n->end) != '=' ||
        (at && !ends_line(s, at - 1) && (at < 7 || !ss_scan_has(s, at - 7, "export "))))
        return false;
    while (at < n->end && ss_scan_at(s, at) - 'a' >= 26)
        at++;
    return at == n->end;
}

/* Whether "NAME=" or "NAME:" begins at AT. */
static bool is_pair(const ss_scan *s, size_t at)
{
    size_t end = at;

    while (end < at + FORM_SEEN && is_alnum_or(ss_scan_at(s, end), "_-. []"))
        end++;
    return end > at && ss_is_any(ss_scan_at(s, end), "=:");
}

/* Whether a word goes on behind the C at AT, which often ends one: "a&b" is one, "a&b=" begins a
   second. */
static bool goes_on(const ss_scan *s, const ss_named *n, size_t at, uint32_t c)
{
    uint32_t next = ss_scan_at(s, at + 1);

    if (c == n->quote && (s->is_source || ss_is_quote(c)))
        return false;
    if (c == '\\')
        return next > ' ' && !ss_is_quote(next) && !ss_is_any(next, "nrt");
    if (!is_alnum_or(next, "!#$%*+/=?^_~@-"))
        return false;
    return (ss_is_any(c, ",;&") && !is_pair(s, at + 1)) ||
           ((ss_is_any(c, ")]}") || ss_is_quote(c)) && ss_is_alnum(next));
}

static bool ends_word(const ss_scan *s, const ss_named *n, size_t at)
{
    uint32_t c = ss_scan_at(s, at);

    if (n->is_percent && c == '%' && ss_scan_at(s, at + 1) == '2' && ss_scan_at(s, at + 2) == '6')
        return true;
    return c <= ' ' || ((ss_is_quote(c) || ss_is_any(c, ",;&)]}<>|\\")) && !goes_on(s, n, at, c));
}

static size_t word_end(const ss_scan *s, const ss_named *n)
{
    bool is_whole = is_variable(s, n);
    size_t at = n->at;

    while (!ends_line(s, at) && (is_whole ? ss_scan_at(s, at) > ' ' : !ends_word(s, n, at)))
        at++;
    return at;
}

/* Whether LEAST characters of base64 or the like are at BEGIN, which has not only small letters; up
   to END, if it is known. */
static bool is_encoded(const ss_scan *s, size_t begin, size_t end, unsigned least)
{
    bool is_mixed = false;
    size_t at = begin, most = end < begin + ENCODED_SEEN ? end : begin + ENCODED_SEEN;

    for (; at < most && is_alnum_or(ss_scan_at(s, at), "_-+/=%.:"); at++) {
        uint32_t c = ss_scan_at(s, at);

        is_mixed = is_mixed || (at > begin && ss_lower(c) != c) || ss_is_digit(c) || c == '=';
    }
    return is_mixed && at >= begin + least && (end == SIZE_MAX || at == most);
}

/* Whether what begins at AT can be the secret of N, which of some must be encoded. */
static bool may_be_of(const ss_scan *s, const ss_named *n, size_t begin, size_t end)
{
    return !n->is->fewest || is_encoded(s, begin, end, n->is->fewest);
}

static bool read_word(const ss_scan *s, const ss_named *n, ss_secret *secret)
{
    uint32_t first = ss_scan_at(s, n->at);

    if (n->is_code && !ss_is_digit(first))
        return false;
    if (s->is_source && (first == '%' || first == '$' || first == '{'))
        return false;
    if (!n->is->to_line_end && !n->is_code && ss_is_code(s, n))
        return false;
    if (!may_be_of(s, n, n->at, SIZE_MAX))
        return false;
    secret->begin = n->at;
    secret->end = n->is->to_line_end && n->by != SS_BLANKS ? header_end(s, n) : word_end(s, n);
    return secret->end > n->at && (!n->is_code || secret->end > n->at + 3);
}

/* ---- YAML ------------------------------------------------------------------------------------*/

/* Whether the value of a mapping, or of its members, begins at AT, on the line behind its name: one
   word, or "user: bob". */
static bool is_scalar(const ss_scan *s, const ss_named *n, size_t at)
{
    size_t end = at;

    if (n->is->in_prose || n->is->is_counted || n->is->to_line_end || is_quoted(s, at) ||
        ss_is_any(ss_scan_at(s, at), "[{(<^"))
        return false;
    while (ss_scan_at(s, end) > ' ' && end < at + ENCODED_SEEN)
        end++;
    return end > at + 3 &&
           (ss_scan_at(s, end - 1) == ':' ? ss_scan_at(s, end) == ' ' && !is_quoted(s, end + 1)
                                          : ends_line(s, end) && !ss_is_remark(s, at));
}

/* Past a tag or an anchor of YAML and the blanks behind it; AT if there is none. */
static size_t after_yaml_tag(const ss_scan *s, size_t at)
{
    size_t end = at + 1;

    if (!ss_is_any(ss_scan_at(s, at), "!&"))
        return at;
    while (end < at + TAG_SEEN && is_alnum_or(ss_scan_at(s, end), "!:/_-"))
        end++;
    return ss_scan_at(s, end) == ' ' ? after_blanks(s, end) : at;
}

/* One word behind a tag or an anchor of YAML, with it: !!str abc, &a abc. */
static bool read_tagged(const ss_scan *s, const ss_named *n, ss_secret *secret)
{
    size_t word = after_yaml_tag(s, n->at), end;

    if (word == n->at)
        return false;
    for (end = word; ss_scan_at(s, end) > ' ';)
        end++;
    secret->begin = n->at;
    secret->end = end;
    return end > word && ends_line(s, end) && !ss_is_any(ss_scan_at(s, word), "|>[{");
}

/* The block that follows "|" or ">", or the list that begins on the next line: the lines that are
   further in than the name, and items. */
static bool read_block(const ss_scan *s, const ss_named *n, ss_secret *secret)
{
    size_t first = n->at, end, margin = 0;
    bool is_list = ends_line(s, n->at);

    if (!is_list && !ss_is_any(ss_scan_at(s, first), "|>"))
        return false;
    if (!is_list)
        first = after_any(s, first + 1, "-+0123456789 \t");
    if (!ends_line(s, first))
        return false;
    while (margin < n->begin && ss_is_blank(ss_scan_at(s, n->begin - 1 - margin)))
        margin++;
    for (end = first; end < s->text.length;) {
        size_t line = after_any(s, end, "\n\r"), inner = after_blanks(s, line);
        bool is_item = is_list && begins_with(s, inner, "- ");

        if (ends_line(s, inner) || inner < line + margin || (inner == line + margin && !is_item) ||
            (end == first && is_list && !is_item && !is_scalar(s, n, inner)))
            break;
        if (end == first)
            secret->begin = inner + (is_item ? 2 : 0);
        for (end = inner; !ends_line(s, end);)
            end++;
    }
    secret->end = end;
    return end > first && !begins_with(s, secret->begin, "[redacted");
}

/* ---- Values ----------------------------------------------------------------------------------*/

/* Whether the password of a line in .netrc follows: "login bob password abc". */
static bool follows_login(const ss_scan *s, const ss_named *n)
{
    size_t at = n->begin, least = at > LOGIN_SEEN ? at - LOGIN_SEEN : 0;

    while (at > least && ss_is_any(ss_scan_at(s, at - 1), " \t\n\r"))
        at--;
    while (at > least && ss_scan_at(s, at - 1) > ' ')
        at--;
    while (at > least && ss_is_any(ss_scan_at(s, at - 1), " \t"))
        at--;
    return (at >= 5 && begins_with(s, at - 5, "login")) ||
           (at >= 4 && begins_with(s, at - 4, "USER") && begins_with(s, n->begin, "PASS ")) ||
           (at >= 7 && begins_with(s, at - 7, "account"));
}

/* Whether letters and a digit, as many as keys have, are in the literal that begins at AT. */
static bool has_digits(const ss_scan *s, size_t at)
{
    size_t end = at;
    bool is_digit = false;

    while (end < at + ENCODED_SEEN && is_alnum_or(ss_scan_at(s, end), "_-+/=.")) {
        is_digit = is_digit || (end > at && ss_is_digit(ss_scan_at(s, end)));
        end++;
    }
    return is_digit && end >= at + KEY_LEAST && ss_is_quote(ss_scan_at(s, end));
}

/* Whether a value without a sign before it is one: --token abc, Bearer abc, password "abc". */
static bool may_follow_blanks(const ss_scan *s, const ss_named *n)
{
    if (is_quoted(s, n->at))
        return (n->is_code && ss_scan_at(s, n->at) != '`') || ss_scan_at(s, n->begin) == '-' ||
               (!n->is->is_counted && (s->is_source || !n->is->in_prose)) ||
               has_digits(s, after_quote(s, n->at));
    if (ss_scan_has(s, n->begin, "bearer ") || n->is->fewest) {
        size_t end = n->at;

        while (end < n->at + 12 && !ends_word(s, n, end) &&
               (ss_scan_at(s, end) != '=' || !is_quoted(s, end + 1)))
            end++;
        return end == n->at + 12;
    }
    if (ss_scan_at(s, n->begin) == '-')
        return ss_scan_at(s, n->at) != '-' && n->end > n->begin + 3 && !ss_is_usage(s, n->at) &&
               !ss_is_prose(s, n);
    return follows_login(s, n);
}

/* Whether the name is a file and a line follows: "dir/token:12: in f", "<token:12>". */
static bool is_place(const ss_scan *s, const ss_named *n)
{
    size_t at = n->end + 1;

    if (!n->begin || !ss_is_any(ss_scan_at(s, n->begin - 1), "/<\t"))
        return false;
    while (at <= n->end + MOST_LINE_DIGITS && ss_is_digit(ss_scan_at(s, at)))
        at++;
    return at > n->end + 1 && ss_is_any(ss_scan_at(s, at), ":>") && ss_scan_at(s, n->end) == ':';
}

/* Past letters, '_' and '-', as a name without a number has; 'secret12' may be a password. */
static size_t plain_name_end(const ss_scan *s, size_t at)
{
    while (ss_is_letter(ss_scan_at(s, at)) || ss_is_any(ss_scan_at(s, at), "_-"))
        at++;
    return at;
}

/* Whether the call around a name and its value sets or compares: strcpy(password, "x"),
   setattr(a, "password", "x"). */
static bool is_setter(const ss_scan *s, const ss_named *n)
{
    size_t at = n->begin, least = at > MEMBER_SEEN ? at - MEMBER_SEEN : 0, end;

    while (at > least &&
           (is_alnum_or(ss_scan_at(s, at - 1), "_., ->") || ss_is_quote(ss_scan_at(s, at - 1))))
        at--;
    if (!at || ss_scan_at(s, at - 1) != '(')
        return false;
    for (end = --at; at > least && is_alnum_or(ss_scan_at(s, at - 1), "_");)
        at--;
    return is_word_of(s, at, end,
                      "strcpy strncpy strcat strcmp strncmp strcasecmp memcpy memcmp snprintf "
                      "compare_digest setattr set put add rawset setenv curl_easy_setopt");
}

/* Whether the pair around a quoted name and its value, ('password', 'x'), is no list of names. */
static bool is_pair_of_values(const ss_scan *s, const ss_named *n, const ss_secret *secret)
{
    size_t begin = n->begin, least = begin > MEMBER_SEEN ? begin - MEMBER_SEEN : 1;
    uint32_t before, after = ss_scan_at(s, after_quote(s, secret->end));

    if (ss_scan_at(s, begin) == '-')
        return true;
    while (begin > least && is_alnum_or(ss_scan_at(s, begin - 1), "_."))
        begin--; /* 'db.password' */
    before = begin > 1 ? ss_scan_at(s, begin - 2) : 0;
    if (before == '\\' || before == ' ' || ss_is_letter(before)) /* b'password', { "password" */
        before = begin > 2 ? ss_scan_at(s, begin - 3) : 0;
    if (after == ' ')
        after = ss_scan_at(s, after_quote(s, secret->end) + 1);
    return (before == '(' || (before == '[' && after == ']') || (before == '{' && after == '}') ||
            (n->is_code && after == ')' && is_setter(s, n))) &&
           !is_word_of(s, secret->begin, secret->end,
                       "email username user name login token secret") &&
           !(plain_name_end(s, secret->begin) == secret->end &&
             ss_secret_name_of(s->rules, &s->text, secret->begin, secret->end));
}

/* Whether the name in "name('x')" says that it asks for the secret, or 'x' is one of several. */
static bool is_question(const ss_scan *s, const ss_named *n, const ss_secret *secret)
{
    size_t end = plain_word_end(s, n->begin);

    return ss_scan_at(s, secret->begin) == '/' ||
           is_word_of(s, n->begin, end,
                      "get read load fetch find ask input prompt has is require") ||
           ss_scan_at(s, secret->end - 1) == ' ' ||
           (n->is->in_prose && ss_scan_at(s, after_quote(s, secret->end)) == ',');
}

/* What may be a value, by what stands before it and where. */
enum {
    A_LITERAL = 1,
    A_LIST = 2,
    A_WORD = 4,
    A_BLOCK = 8,    /* of YAML */
    NEXT_LINE = 16, /* perhaps on the next line */
    TYPED = 32,     /* behind a type */
    JUDGED = 64,    /* unless it is prose */
    HELD = 128      /* in a call: SecretStr('x') */
};
enum { PLAIN, QUOTED, IN_LITERAL, IN_CODE, PLACES };

static const uint8_t allowed[SS_SEPARATORS][PLACES] = {
    /* separator         PLAIN: in a text         QUOTED: there, behind a name in quotes
                         IN_LITERAL: of source    IN_CODE: of source, also behind such a name */
    [SS_BLANKS] = {A_LITERAL | A_WORD, 0, A_LITERAL | A_WORD, A_LITERAL},
    [SS_COLON] = {A_LITERAL | A_LIST | A_WORD | A_BLOCK | TYPED | JUDGED | HELD,
                  A_LITERAL | A_LIST | A_WORD | NEXT_LINE | JUDGED | HELD,
                  A_LITERAL | A_WORD | JUDGED,
                  A_LITERAL | A_LIST | A_WORD | NEXT_LINE | TYPED | HELD},
    [SS_EQUALS] = {A_LITERAL | A_LIST | A_WORD | HELD, A_LITERAL | A_LIST | A_WORD | HELD,
                   A_LITERAL | A_WORD, A_LITERAL | A_LIST | A_WORD | NEXT_LINE | HELD},
    [SS_COMMA] = {0, A_LITERAL, A_LITERAL, A_LITERAL},
    [SS_PARENTHESIS] = {A_LITERAL, A_LITERAL, A_LITERAL, A_LITERAL},
};

static unsigned place_of(const ss_scan *s, const ss_named *n)
{
    if (s->is_source)
        return n->is_code ? IN_CODE : IN_LITERAL;
    return n->is_quoted ? QUOTED : PLAIN;
}

/* Whether the literal SECRET of code is a type in quotes: token: "Token" = None. */
static bool is_annotation(const ss_scan *s, const ss_named *n, const ss_secret *secret)
{
    size_t at = secret->begin, after = after_blanks(s, after_quote(s, secret->end));

    if (!n->is_code || n->is_quoted || n->by != SS_COLON || ss_scan_at(s, at) - 'A' >= 26 ||
        !ss_is_any(ss_scan_at(s, after), "=)"))
        return false;
    while (at < secret->end &&
           (ss_is_letter(ss_scan_at(s, at)) || ss_is_any(ss_scan_at(s, at), "_.[], |")))
        at++;
    return at == secret->end;
}

/* Whether it has nothing but a sign, or the scheme before what the code adds: "Bearer ". */
static bool is_frame(const ss_scan *s, const ss_named *n, const ss_secret *secret)
{
    size_t inner = after_scheme(s, n, secret->begin);

    return inner >= secret->end || (inner > secret->begin && ss_is_no_value(s, n, inner)) ||
           (secret->end == secret->begin + 1 && !ss_is_alnum(ss_scan_at(s, secret->begin)));
}

/* Whether SECRET is the name of an object: secret "db" not found. */
static bool is_object_name(const ss_scan *s, const ss_secret *secret)
{
    size_t at = after_blanks(s, after_quote(s, secret->end));

    return is_word_of(s, at, plain_word_end(s, at),
                      "not already does in deleted created updated configured unchanged");
}

/* Behind the last literal of the call in which AT is, in the quote that ends it. */
static size_t call_end(const ss_scan *s, size_t at)
{
    uint32_t quote = ss_scan_at(s, at - 1);
    size_t end = at, last = at;

    for (; !ends_line(s, end) && (quote || ss_scan_at(s, end) != ')'); end++) {
        uint32_t c = ss_scan_at(s, end);

        if (quote) {
            last = end;
            quote = c == quote ? 0 : quote;
            end += c == '\\' && !ends_line(s, end + 1);
        } else if (ss_is_quote(c)) {
            quote = c;
        }
    }
    return last;
}

/* The literal at QUOTE; false if it says that there is no secret. */
static bool scan_literal(const ss_scan *s, const ss_named *n, size_t quote, ss_secret *secret)
{
    size_t inner = after_quote(s, quote), next;
    bool is_first;

    if (ss_scan_has(s, inner, "[redacted") || ss_is_no_value(s, n, inner) ||
        !read_quoted(s, quote, n, secret) || !may_be_of(s, n, secret->begin, secret->end) ||
        ss_is_remark(s, inner) || is_annotation(s, n, secret) || is_frame(s, n, secret))
        return false;
    if (n->by == SS_COMMA)
        return n->is_quoted ? is_pair_of_values(s, n, secret) : is_setter(s, n);
    if (n->by == SS_BLANKS && !n->is_code &&
        (is_object_name(s, secret) ||
         (n->is->to_line_end && find_text(s, secret->begin, secret->end, "=") == secret->end)))
        return false; /* also of a cookie: cookie "sid" has no path */
    if (n->by != SS_PARENTHESIS)
        return !n->is_compared || !ss_is_token(s, n, secret);
    if (is_question(s, n, secret))
        return false;
    next = after_blanks(s, after_any(s, after_quote(s, secret->end), ","));
    is_first = next > after_quote(s, secret->end) && is_quoted(s, after_prefix(s, next));
    if (is_first) /* set_password('service', 'bob', 'x') */
        secret->end = call_end(s, secret->begin);
    return is_first || !n->is->of_call;
}

/* The list at n->at; false if it has remarks. */
static bool scan_bracketed(const ss_scan *s, const ss_named *n, ss_secret *secret)
{
    size_t at = n->at, most = at + CODE_SEEN, next;

    for (;;) { /* the first literal that is no name */
        while (at < most && !ends_line(s, at) && !ss_is_quote(ss_scan_at(s, at)))
            at++;
        next = at + 1;
        while (at < most && next < most && is_alnum_or(ss_scan_at(s, next), "_-"))
            next++;
        if (at >= most || !is_quoted(s, next) || ss_scan_at(s, next + 1) != ':')
            break;
        if (ss_scan_at(s, n->at) == '{' && is_word_of(s, at + 1, next, "type") &&
            ss_is_type(s, after_quote(s, after_blanks(s, next + 2))))
            return false; /* of a schema */
        at = next + 2;
    }
    if (ss_is_quote(ss_scan_at(s, at)) ? ss_is_remark(s, at + 1) : n->is->fewest)
        return false;
    return read_bracketed(s, n, n->at, secret);
}

/* The literal of "x or 'y'", "x if z else 'y'" at n->at; n->at if there is none. */
static size_t otherwise_at(const ss_scan *s, const ss_named *n)
{
    static const char *const words[] = {" or ", " and ", " else ", " || ", " ?? "};

    for (size_t at = n->at; at < n->at + CODE_SEEN && !ends_line(s, at); at++) {
        if (ss_scan_at(s, at) == '=' && ss_is_any(ss_scan_at(s, at + 1), " '\""))
            break; /* of another name */
        for (size_t i = 0; ss_scan_at(s, at) == ' ' && i < SS_COUNT_OF(words); i++) {
            size_t literal = after_prefix(s, at + strlen(words[i]));

            if (begins_with(s, at, words[i]) && is_quoted(s, literal))
                return literal;
        }
    }
    return n->at;
}

/* The value of N, after its separator; false if there is no secret. */
static bool scan_value(const ss_scan *s, ss_named *n, ss_secret *secret)
{
    unsigned may = allowed[n->by][place_of(s, n)];
    size_t quote, bracket, past;

    if ((n->by == SS_BLANKS && !may_follow_blanks(s, n)) || is_place(s, n))
        return false;
    if (may & TYPED && !n->is_quoted)
        n->at = after_type(s, n, n->at);
    past = after_any(s, n->at, n->is_code ? " \t\r\n\\" : " \t\r\n");
    if (may & NEXT_LINE && (ends_line(s, n->at) || ss_scan_at(s, n->at) == '\\') &&
        ss_is_any(ss_scan_at(s, past), "\"'[{"))
        n->at = past;
    if (ss_scan_has(s, n->at, "[redacted") || (may & JUDGED && ss_is_prose(s, n)))
        return false;
    if (may & A_BLOCK && ss_is_any(ss_scan_at(s, past = after_yaml_tag(s, n->at)), "|>"))
        n->at = past; /* !vault | */
    if (may & A_BLOCK && (read_tagged(s, n, secret) || read_block(s, n, secret)))
        return true;
    if (ends_line(s, n->at) && !n->is->to_line_end)
        return false;
    quote = after_prefix(s, n->at);
    if (n->is_code && n->by == SS_EQUALS && !is_quoted(s, quote))
        quote = otherwise_at(s, n);
    if (n->quote && ss_scan_at(s, quote) == n->quote)
        return false; /* the literal that the name is in ends here */
    /* Of a header, a quote is a part. */
    if (may & A_LITERAL && is_quoted(s, quote) &&
        !(n->is->to_line_end && n->by == SS_COLON && !n->is_quoted && !s->is_source))
        return scan_literal(s, n, quote, secret);
    if (n->by != SS_BLANKS)
        n->at = after_scheme(s, n, n->at);
    if (ss_scan_has(s, n->at, "[redacted") || ss_is_no_value(s, n, n->at) ||
        (ss_scan_at(s, n->begin) == '-' && ss_is_usage(s, n->at)))
        return false;
    if (may & A_LIST && begins_with(s, n->at, "[]") &&
        ss_scan_at(s, past = plain_word_end(s, n->at + 2)) == '{')
        n->at = past; /* []string{"x"} */
    if (may & A_LIST && (n->is_quoted || !n->is->to_line_end) &&
        ss_is_any(ss_scan_at(s, n->at), "[{("))
        return scan_bracketed(s, n, secret);
    if (may & HELD && (bracket = holder_bracket(s, n, n->at)) && read_held(s, n, bracket, secret))
        return true;
    return may & A_WORD && !(s->is_source && ss_is_any(ss_scan_at(s, n->at), "[{(")) &&
           read_word(s, n, secret);
}

/* Whether a blank and a letter follow a word that is none of those which need no sign behind them. */
static bool is_plain_word(const ss_scan *s, const ss_named *n)
{
    uint32_t first = ss_lower(ss_scan_at(s, n->begin)), next = ss_scan_at(s, n->end + 1);

    return ss_scan_at(s, n->end) == ' ' && ss_is_alnum(next) && !ss_is_any(first, "-bp") &&
           !is_quoted(s, after_prefix(s, n->end + 1)) &&
           !(next == 'o' && ss_scan_has(s, n->end + 1, "or ")) &&
           !((next | 32) == 'b' && ss_scan_has(s, n->end + 1, "by ") && is_quoted(s, n->end + 4)) &&
           !(next == 'p' && ss_scan_has(s, n->end + 1, "provided:")) &&
           !(next == 'g' && ss_scan_has(s, n->end + 1, "given:")) &&
           (!n->begin || !ss_is_any(ss_scan_at(s, n->begin - 1), "<:"));
}

/* Where the name of N begins with the word before it, as "api key" does. */
static size_t with_word_before(const ss_scan *s, const ss_named *n)
{
    size_t at = n->begin - 1;

    if (!is_word_of(s, n->begin, n->end, "key keys phrase code") || n->begin < s->done + 4 ||
        ss_scan_at(s, at) != ' ')
        return n->begin;
    while (at > s->done && n->begin - at < WORD_MAX && ss_is_letter(ss_scan_at(s, at - 1)))
        at--;
    return is_word_of(s, at, n->begin - 1,
                      "api access secret private encryption signing auth account master shared "
                      "subscription pass seed recovery license")
               ? at
               : n->begin;
}

/* Whether N is a column of "INSERT INTO x (name, password) VALUES ('bob', 'abc')", of which the values
   are hidden together; with SQLAlchemy they stand behind "[parameters: ". */
static bool scan_columns(const ss_scan *s, const ss_named *n, ss_secret *secret)
{
    size_t at = n->end, most = at + COLUMNS_SEEN;
    bool has_literal = true;
    size_t past;

    while (at < most && is_alnum_or(ss_scan_at(s, at), "_, .\"`"))
        at++;
    if (ss_scan_at(s, at) != ')')
        return false;
    at = after_blanks(s, at + 1);
    if (!ss_scan_has(s, at, "values"))
        return false;
    at = after_blanks(s, at + 6);
    if (ss_scan_at(s, at) != '(')
        return false;
    past = after_any(s, at + 1, "?, %s$:0123456789");
    if (ss_scan_at(s, past) == ')') {
        past = after_any(s, past, ") ]\r\n");
        if (!ss_scan_has(s, past, "[parameters: ("))
            return false;
        at = past + 13;
    }
    secret->begin = at;
    for (most = at + CODE_SEEN; at < most && !ends_line(s, at); at++) {
        if (ss_is_quote(ss_scan_at(s, at))) {
            secret->end = bracket_end(s, secret->begin, false, &has_literal);
            return true;
        }
    }
    return false;
}

/* In source: whether several names are set at once, of which N is one: user, password = "bob", "x".
   Then the literals are hidden together. */
static bool scan_unpacked(const ss_scan *s, const ss_named *n, ss_secret *secret)
{
    size_t from = n->begin, at = n->end, end;
    bool is_list = false;

    for (; from && !ends_line(s, from - 1); from--) {
        if (n->begin - from > MEMBER_SEEN || !is_alnum_or(ss_scan_at(s, from - 1), "_., \t"))
            return false;
        is_list = is_list || ss_scan_at(s, from - 1) == ',';
    }
    for (; is_alnum_or(ss_scan_at(s, at), "_., ") && at < n->end + MEMBER_SEEN; at++)
        is_list = is_list || ss_scan_at(s, at) == ',';
    if (!is_list || ss_scan_at(s, at) != '=' || ss_scan_at(s, at + 1) == '=')
        return false;
    for (at++; !ends_line(s, at) && !ss_is_quote(ss_scan_at(s, at)); at++) {
        if (!is_alnum_or(ss_scan_at(s, at), "_., "))
            return false;
    }
    secret->begin = at + 1;
    end = call_end(s, at + 1);
    secret->end = end;
    secret->quote = ss_scan_at(s, end);
    return end > at + 1;
}

static bool scan_several(const ss_scan *s, const ss_named *n, ss_secret *secret)
{
    secret->kind = "values";
    secret->quote = s->in_quote;
    return n->is_code ? scan_unpacked(s, n, secret) : s->is_insert && scan_columns(s, n, secret);
}

/* A secret with a telling name at AT, for scan_next: password=..., "api_key": "..." */
bool ss_scan_named(const ss_scan *s, size_t at, ss_secret *secret)
{
    ss_named n = {.begin = at, .end = at};

    while (ss_is_of_name(ss_scan_at(s, n.end)))
        n.end++;
    if (is_plain_word(s, &n)) /* most words of a text are looked at no further */
        return false;
    read_separator(s, &n);
    if ((s->is_insert || (n.is_code && !n.is_quoted && (n.by == SS_COMMA || n.by == SS_EQUALS))) &&
        ss_secret_name_of(s->rules, &s->text, at, n.end) && scan_several(s, &n, secret))
        return true;
    if (n.by == SS_NOTHING ||
        ((n.by == SS_COMMA || n.by == SS_PARENTHESIS) && !is_quoted(s, after_prefix(s, n.at))))
        return false;
    if (n.by == SS_BLANKS && ss_scan_at(s, at) != '-' && !is_quoted(s, n.at) &&
        !ss_scan_has(s, at, "bearer") && !ss_scan_has(s, at, "basic") &&
        !ss_scan_has(s, at, "password ") && !begins_with(s, at, "PASS "))
        return false;
    if (n.by == SS_COLON || n.by == SS_EQUALS || n.by == SS_BLANKS)
        n.begin = with_word_before(s, &n);
    n.is = ss_secret_name_of(s->rules, &s->text, n.begin, n.end);
    if (!n.is || n.is->of_variable || (n.is->of_call && n.by != SS_PARENTHESIS) ||
        (at > 1 && begins_with(s, at - 2, "${")))
        return false;
    secret->kind = n.is->kind;
    secret->quote = n.quote;
    return n.by == SS_TAG ? read_element(s, n.at, secret) && !begins_with(s, n.at, "[redacted") &&
                                !ss_is_no_value(s, &n, n.at)
                          : scan_value(s, &n, secret);
}
