/* What looks like the value of a secret and is none: prose, code, placeholders, types, counts. */
#include "redact/scan.h"

enum {
    REMARK_SEEN = 160,     /* of a literal, to find out whether it is a sentence */
    PLACEHOLDER_SEEN = 48, /* to its closing bracket */
    CALL_SEEN = 128,       /* to the closing bracket of a call */
    COUNT_DIGITS = 3,
    LEXEME_MAX = 24 /* of a name of a piece of a language: RPAREN */
};

static bool ends_word_here(const ss_scan *s, size_t at)
{
    uint32_t c = ss_scan_at(s, at);

    return ends_line(s, at) || c == ' ' || ss_is_quote(c) || ss_is_any(c, ",;&)]}<>|\\.\t:?!%");
}

/* Past an identifier with dots; AT if there is none. */
static size_t identifier_end(const ss_scan *s, size_t at)
{
    return ss_is_letter(ss_scan_at(s, at)) || ss_scan_at(s, at) == '_' ? run_end(s, at, "_.") : at;
}

/* ---- Placeholders ----------------------------------------------------------------------------*/

/* Past what has only letters, digits and characters of MORE between brackets, the first of which is
   at AT; AT if it has anything else. */
static size_t bracketed_end(const ss_scan *s, size_t at, uint32_t close, const char *more)
{
    size_t end = at + 1;

    while (end < at + PLACEHOLDER_SEEN && is_alnum_or(ss_scan_at(s, end), more))
        end++;
    return ss_scan_at(s, end) == close && end > at + 1 ? end + 1 : at;
}

/* Past a word in brackets that says that something was left out: [hidden]. */
static size_t omission_end(const ss_scan *s, size_t at, uint32_t close)
{
    size_t begin = ss_scan_has(s, at + 1, "not ") ? at + 5 : at + 1;
    size_t end = plain_word_end(s, begin);

    return ss_scan_at(s, end) == close &&
                   is_word_of(s, begin, end,
                              "hidden filtered redacted removed masked secret omitted elided "
                              "scrubbed sanitized unset empty none null nil missing set")
               ? end + 1
               : at;
}

/* Past a run of one character of ANY, of three or more. */
static size_t mask_end(const ss_scan *s, size_t at, const char *any)
{
    uint32_t c = ss_scan_at(s, at);
    size_t end = at;

    while (c && ss_is_any(c, any) && ss_scan_at(s, end) == c)
        end++;
    return end >= at + 3 ? end : at;
}

/* Past "${NAME}", "${{ name }}", "$(name)", "$NAME" or "$1"; AT if it is none. */
static size_t variable_end(const ss_scan *s, size_t at)
{
    size_t name = at + 1, end = name, past;

    switch (ss_scan_at(s, name)) {
    case '{':
        name += ss_scan_at(s, name + 1) == '{';
        past = bracketed_end(s, name, '}', "_.:-? ");
        return past > name ? past + (name > at + 1 && ss_scan_at(s, past) == '}') : at;
    case '(':
        past = bracketed_end(s, name, ')', "_.-/ ");
        return past > name ? past : at;
    default:
        end = after_any(s, name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        return end > name ? end : at;
    }
}

/* Past "%(name)s", "%{name}" or "%s"; AT if it is none. */
static size_t directive_end(const ss_scan *s, size_t at)
{
    uint32_t next = ss_scan_at(s, at + 1);
    size_t past;

    if (next != '(' && next != '{')
        return ss_is_any(next, "sdrvqp") ? at + 2 : at;
    past = bracketed_end(s, at + 1, next == '(' ? ')' : '}', "_");
    return past == at + 1 ? at : past + (next == '(');
}

/* Past what stands for a value that is not there, also "{{ name }}", "<name>", ":name", "?", "***";
   AT if it is none. */
static size_t placeholder_end(const ss_scan *s, size_t at)
{
    size_t inner = at, past;

    switch (ss_scan_at(s, at)) {
    case '$':
        return variable_end(s, at);
    case '%':
        return directive_end(s, at);
    case '{':
        if (ss_scan_at(s, at + 1) == '}')
            return at + 2;
        inner += ss_scan_at(s, at + 1) == '{';
        past = bracketed_end(s, inner, '}', inner > at ? "_.-| ()" : "_.!:[]");
        return past == inner ? at : past + (inner > at);
    case '<':
        return bracketed_end(s, at, '>', " _-/");
    case '[':
        return omission_end(s, at, ']');
    case '.':
        return mask_end(s, at, ".");
    case '(':
        return omission_end(s, at, ')');
    case ':':
        past = identifier_end(s, at + 1);
        return past > at + 1 ? past : at;
    case '?':
    case '~':
        return at + 1;
    default:
        return mask_end(s, at, "*xX");
    }
}

/* Whether WORD, at the place of a value that ends at END, is the own name of N, perhaps that of a
   member: self.password, PASSWORD. */
static bool is_own_name(const ss_scan *s, const ss_named *n, size_t at)
{
    size_t end = run_end(s, at, "_.-"), last = end, name = n->end, word = end;

    while (end > at && ss_scan_at(s, end - 1) == '.')
        word = --end;
    for (; last > at && ss_scan_at(s, last - 1) != '.';)
        last--;
    while (word > last && name > n->begin &&
           (ss_lower(ss_scan_at(s, word - 1)) == ss_lower(ss_scan_at(s, name - 1)) ||
            (ss_scan_at(s, word - 1) == '_' && ss_scan_at(s, name - 1) == '-'))) {
        word--;
        name--;
    }
    return end > at && word == last && ends_word_here(s, end) &&
           (name == n->begin || ss_is_any(ss_scan_at(s, name - 1), "_-"));
}

/* Whether a small number follows: "pass=3", "pass: 4/5", "token: 5 unexpected". */
static bool is_count(const ss_scan *s, const ss_named *n)
{
    size_t end = n->at;

    while (end <= n->at + COUNT_DIGITS && ss_is_digit(ss_scan_at(s, end)))
        end++;
    return n->is->is_counted && end > n->at && end <= n->at + COUNT_DIGITS &&
           !is_alnum_or(ss_scan_at(s, end), "_-.:+") &&
           (!n->is->in_prose || ss_scan_at(s, n->at - 1) == ' ');
}

bool ss_is_no_value(const ss_scan *s, const ss_named *n, size_t at)
{
    size_t end = at, past = placeholder_end(s, at);

    if (past > at && (ends_word_here(s, past) || ends_line(s, past)) && ss_scan_at(s, past) != '.')
        return true;
    while (end < at + WORD_MAX && ss_is_of_name(ss_scan_at(s, end)))
        end++;
    if (is_word_of(
            s, at, end,
            "none null nil true false undefined yes no missing expired invalid required wrong "
            "incorrect unset empty disabled enabled"))
        return !n->is->to_line_end || ends_line(s, end) || ss_is_quote(ss_scan_at(s, end)) ||
               ss_scan_at(s, end) == ' ';
    if (is_word_of(s, at, end, "table function userdata thread") && ss_scan_has(s, end, ": 0x"))
        return true; /* what scripts show of an object */
    return at == n->at && is_count(s, n);
}

/* Whether the word from AT to END is what usages have in place of an option's value: TEXT, {1,2}. */
bool ss_is_usage(const ss_scan *s, size_t at)
{
    size_t end = plain_word_end(s, at);

    if (ss_scan_at(s, at) == '{')
        return true;
    return ss_scan_at(s, at) - 'A' < 26 && ends_word_here(s, end) &&
           is_word_of(s, at, end,
                      "text integer float string str int value path file filename directory uuid "
                      "password passwd pass passphrase pwd token secret key name word choice");
}

/* ---- Code ------------------------------------------------------------------------------------*/

/* Whether the bracket at AT closes on its line. */
static bool closes(const ss_scan *s, size_t at)
{
    size_t most = at + CALL_SEEN;

    while (at < most && !ends_line(s, at) && ss_scan_at(s, at) != ')')
        at++;
    return ss_scan_at(s, at) == ')';
}

/* Whether the name of a piece of a language is at AT, behind a name that is no variable of a shell:
   "token=RPAREN". */
static bool is_lexeme_name(const ss_scan *s, const ss_named *n)
{
    size_t end = n->at;

    while (ss_scan_at(s, end) - 'A' < 26 || ss_scan_at(s, end) == '_')
        end++;
    return n->is->in_prose && end > n->at + 1 && end <= n->at + LEXEME_MAX &&
           ends_word_here(s, end) && ss_scan_at(s, n->end - 1) - 'a' < 26 && n->end == n->begin + 5;
}

static bool has_digit(const ss_scan *s, size_t at, size_t end)
{
    while (at < end && !ss_is_digit(ss_scan_at(s, at)))
        at++;
    return at < end;
}

bool ss_is_token(const ss_scan *s, const ss_named *n, const ss_secret *secret)
{
    return n->is->in_prose && n->end == n->begin + 5 && secret->end < secret->begin + 8 &&
           !has_digit(s, secret->begin, secret->end);
}

/* Whether it has members of members and no digit: form.password.data. */
static bool is_chain(const ss_scan *s, size_t at, size_t end)
{
    unsigned dots = 0;

    if (!ends_word_here(s, end) || has_digit(s, at, end) || ss_scan_at(s, end - 1) == '.')
        return false;
    for (; at < end; at++)
        dots += ss_scan_at(s, at) == '.';
    return dots > 1;
}

bool ss_is_code(const ss_scan *s, const ss_named *n)
{
    size_t end = identifier_end(s, n->at);

    if (is_own_name(s, n, ss_scan_at(s, n->at) == '$' ? n->at + 1 : n->at) || is_lexeme_name(s, n))
        return true;
    if (end == n->at)
        return false;
    if (n->is_compared && ends_word_here(s, end) && !has_digit(s, n->at, end))
        return true;
    if (is_chain(s, n->at, end) ||
        (begins_with(s, end, "->") && ss_is_letter(ss_scan_at(s, end + 2))))
        return true;
    if (ss_scan_at(s, end) == '[') {
        size_t index = run_end(s, end + 1, "_.:-+");

        return ss_is_quote(ss_scan_at(s, end + 1)) ||
               (index > end + 1 && ss_scan_at(s, index) == ']' && ends_word_here(s, index + 1));
    }
    if (ss_scan_at(s, end) == ':' && ss_is_letter(ss_scan_at(s, end + 1)))
        end = identifier_end(s, end + 1); /* a method: lexer:next() */
    if (ss_scan_at(s, end) == '(')
        return closes(s, end);
    if (ss_scan_at(s, end) == ' ' && ss_scan_at(s, end + 1) > ' ')
        return is_word_of(s, n->at, end, "await not lambda yield new return raise function") ||
               ss_scan_has(s, end, " or ") || ss_scan_has(s, end, " and ") ||
               (ss_scan_has(s, end, " if ") && n->by == SS_EQUALS);
    return n->by == SS_EQUALS && is_word_of(s, n->at, end, "yield") && ends_word_here(s, end);
}

/* ---- Prose -----------------------------------------------------------------------------------*/

static const char types[] =
    "string str text int integer number bool boolean bytes optional any object identifier "
    "secretstr annotated";

bool ss_is_type(const ss_scan *s, size_t at)
{
    size_t end = plain_word_end(s, at);

    return ends_word_here(s, end) && is_word_of(s, at, end, types);
}

/* Whether a sentence about the value begins at AT: "must have 8 letters", "is required". */
static bool is_sentence(const ss_scan *s, size_t at)
{
    static const char begins[] =
        "must should may can cannot can't is isn't are has have needs need does doesn't was this "
        "value field please not too at expected input string invalid required missing requires "
        "check rejected failed expired changed reset refused denied wrong incorrect weak "
        "optional file unset closed signature authentication for the ensure between max maximum "
        "min minimum line length size syntax format type types only either ok okay unchanged "
        "revoked updated created deleted removed stored saved loaded set found unsupported "
        "unauthorized malformed mismatch mismatched empty blank none never already no see use "
        "using run try make provide provided enter specify choose add give given supply contains "
        "contain consists allowed forbidden disabled enabled unavailable available used unused "
        "unknown unrecognized undefined unexpected ignored skipped skipping unable could would "
        "if when while because since after before until in on of from by with without as and or "
        "but all both each every some one two it its they there these those that which who will "
        "shall did do been being be got getting reading parsing decoding error errors warning "
        "bad illegal null nil true false long short similar common identical equal same "
        "different matches match more less fewer exactly characters digits letters bytes raise "
        "pass interrupted timeout timed blocked pending valid printed off parameter path open "
        "post get break permission access validation verification insufficient good success "
        "succeeded successful";
    size_t end = plain_word_end(s, at);

    if (ss_scan_at(s, end) == ':' && is_word_of(s, at, end, begins))
        return ss_scan_at(s, end + 1) == ' ';
    return is_word_of(s, at, end, begins) &&
           (ends_line(s, end) || ss_is_any(ss_scan_at(s, end), ",.") ||
            (ss_scan_at(s, end) == ' ' && ss_scan_at(s, end + 1) > ' '));
}

/* Whether a number of few digits and a word stand at AT: "3 attempts left", "8-64 characters". */
static bool is_amount(const ss_scan *s, size_t at)
{
    size_t end = after_any(s, at, ".-"), digits = 0;

    for (; ss_is_digit(ss_scan_at(s, end)) || ss_is_any(ss_scan_at(s, end), ".-"); end++) {
        digits = ss_is_digit(ss_scan_at(s, end)) ? digits + 1 : 0;
        if (digits > COUNT_DIGITS)
            return false;
    }
    return ss_is_digit(ss_scan_at(s, at)) && ss_scan_at(s, end) == ' ' &&
           ss_is_letter(ss_scan_at(s, end + 1));
}

/* Whether a word and another one stand at AT, in letters. */
static bool are_words(const ss_scan *s, size_t at)
{
    size_t end = plain_word_end(s, at);

    return ss_is_letter(ss_scan_at(s, at)) && ss_scan_at(s, end) == ' ' &&
           ss_is_letter(ss_scan_at(s, end + 1));
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

/* Whether a header's value at AT is prose: none of a cookie has no '=', and a scheme of
   authorization is known. */
static bool is_header_prose(const ss_scan *s, const ss_named *n)
{
    size_t end = n->at;

    if (!strcmp(n->is->kind, "cookie")) {
        while (end < n->at + 64 && ss_scan_at(s, end) > ' ' && ss_scan_at(s, end) != '=')
            end++;
        return ss_scan_at(s, end) == ' ' && are_words(s, n->at + (end - n->at > WORD_MAX));
    }
    end = plain_word_end(s, n->at);
    return are_words(s, n->at) && ss_lower(ss_scan_at(s, n->at)) == ss_scan_at(s, n->at) &&
           !is_word_of(s, n->at, end,
                       "bearer basic digest token negotiate ntlm apikey hmac key signature aws");
}

bool ss_is_prose(const ss_scan *s, const ss_named *n)
{
    static const char judged[] =
        "invalid wrong bad illegal unknown incorrect weak stray malformed unrecognized "
        "unterminated at near found got undefined unsupported first next of";
    static const char acts[] =
        "read reading load loading fetch fetching get getting obtain obtaining decrypt decrypting "
        "encrypt store storing parse parsing decode decoding verify verifying hash hashing "
        "validate "
        "validating delete deleting rotate rotating create creating generate generating request "
        "requesting set setting write writing open opening find finding";
    size_t begin = n->begin, end;

    if (ss_scan_at(s, n->at - 1) != ' ')
        return false;
    end = plain_word_end(s, n->at);
    if (is_sentence(s, n->at) || is_amount(s, n->at) || (n->is->in_prose && are_words(s, n->at)) ||
        (n->is->to_line_end && is_header_prose(s, n)))
        return true;
    if (ss_is_type(s, n->at) ||
        (ends_word_here(s, end) && (is_word_of(s, n->at, end, "include omit eof unknown") ||
                                    is_word_of(s, n->at, n->at + 11, "same-origin"))))
        return true;
    if (!n->is->to_line_end && are_words(s, n->at) &&
        (ss_secret_name_of(s->rules, &s->text, n->at, end) ||
         is_word_of(s, end + 1, plain_word_end(s, end + 1), "must should cannot may fields")))
        return true; /* "password: Passwords must ...", "passwd: password unchanged" */
    if (!n->is->to_line_end && end > n->at && begins_with(s, end, ": "))
        return true; /* of an error that wraps another: "hash password: bcrypt: ..." */
    word_before(s, &begin, &end);
    if (is_word_of(s, begin, end, acts) && ends_word_here(s, plain_word_end(s, n->at)) &&
        ss_is_letter(ss_scan_at(s, n->at)))
        return true;
    return is_word_of(s, begin, end, "unexpected expected missing no such without") ||
           (is_word_of(s, begin, end, judged) &&
            (n->is->in_prose || n->is->to_line_end ? is_lexeme(s, n->at) : are_words(s, n->at)));
}

/* Of validators: "This field may not be blank."  Of three words or more one is theirs; of fewer all
   but one are, or belong to any sentence. */
bool ss_is_remark(const ss_scan *s, size_t begin)
{
    static const char theirs[] =
        "field required valid invalid must blank least characters match short long common similar "
        "empty null incorrect wrong expected missing provided cannot can't length shorter longer "
        "minimum maximum min max type unknown allowed unallowed expired revoked";
    static const char others[] =
        "is are be of to not too the this that a an may should at has have for with than in or and "
        "value values string integer number boolean list dict float data was been no";
    size_t at = begin, most = begin + REMARK_SEEN, end = begin;
    unsigned words = 0, known = 0, filling = 0;

    while (at < most && ss_is_letter(ss_scan_at(s, at))) {
        end = plain_word_end(s, at);
        words++;
        known += is_word_of(s, at, end, theirs);
        filling += is_word_of(s, at, end, others);
        for (at = end; at < most && ss_is_any(ss_scan_at(s, at), " ,.0123456789()_");)
            at++;
        if (ss_is_letter(ss_scan_at(s, end)))
            break;
    }
    if (words < 3)
        return known && known + filling == words && is_quoted(s, at);
    return known > 1 || (known && (ss_scan_at(s, at - 1) == '.' || known + filling + 1 >= words));
}
