#include "shared/value_text.h"

#include <stacksplice/redact.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { CLOSING = 8 }; /* bytes to leave for what closes a container */

void ss_value_text_init(ss_value_text *to, bool shows_secrets)
{
    to->shows_secrets = shows_secrets;
    to->depth = 0;
    to->length = 0;
}

void ss_value_put_bytes(ss_value_text *to, const char *bytes, size_t length)
{
    if (length > sizeof to->bytes - to->length)
        length = sizeof to->bytes - to->length;
    memcpy(to->bytes + to->length, bytes, length);
    to->length += length;
}

void ss_value_put(ss_value_text *to, const char *text)
{
    ss_value_put_bytes(to, text, strlen(text));
}

/* ---- Containers -------------------------------------------------------------------------------*/

void ss_value_begin(ss_value_text *to, const char *opening)
{
    ss_value_put(to, opening);
    to->open[to->depth].most = SS_VALUE_BYTES - CLOSING * (to->depth + 1);
    to->open[to->depth++].count = 0;
}

void ss_value_leave_out(ss_value_text *to)
{
    ss_value_put(to, ss_value_count(to) ? ", ..." : "...");
}

bool ss_value_item(ss_value_text *to)
{
    to->open[to->depth - 1].item = to->length;
    if (to->depth > SS_VALUE_DEPTH || ss_value_count(to) == SS_VALUE_ITEMS) {
        ss_value_leave_out(to);
        return false;
    }
    if (ss_value_count(to))
        ss_value_put(to, ", ");
    return true;
}

bool ss_value_fits(ss_value_text *to)
{
    if (to->length > to->open[to->depth - 1].most) {
        to->length = to->open[to->depth - 1].item;
        ss_value_leave_out(to);
        return false;
    }
    to->open[to->depth - 1].count++;
    return true;
}

unsigned ss_value_count(const ss_value_text *to)
{
    return to->open[to->depth - 1].count;
}

void ss_value_end(ss_value_text *to, const char *closing)
{
    to->depth--;
    ss_value_put(to, closing);
}

bool ss_value_secret(ss_value_text *to, const char *name, const char *quote)
{
    const char *secret = to->shows_secrets ? NULL : stacksplice_redact_name(name);

    if (!secret)
        return false;
    ss_value_put(to, quote);
    ss_value_put(to, "[redacted: ");
    ss_value_put(to, secret);
    ss_value_put(to, "]");
    ss_value_put(to, quote);
    return true;
}

/* ---- Texts ------------------------------------------------------------------------------------*/

size_t ss_value_character(const char *bytes, size_t length, uint32_t *c)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)bytes;
    size_t size = *at < 0xC0 ? 1 : *at < 0xE0 ? 2 : *at < 0xF0 ? 3 : 4;
    uint32_t found = size == 1 ? *at : *at & (0x7Fu >> size);

    *c = 0xFFFD;
    if (size > length || (size == 1 && *at >= 0x80) || *at >= 0xF8)
        return 1;
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return 1;
        found = found << 6 | (at[i] & 0x3F);
    }
    if (found < least[size] || found > 0x10FFFF)
        return 1;
    *c = found;
    return size;
}

typedef struct shown {
    ss_value_text *to;
    const ss_value_quoting *how;
    size_t left; /* of the limit */
    char quote;  /* 0: only look for those in the text */
    bool has_quote, has_other;
} shown;

static void put_character(shown *s, uint32_t c, const char *bytes, size_t size)
{
    char form[SS_VALUE_ESCAPED] = "\\n";
    size_t length;

    s->has_quote |= c == (unsigned char)s->how->quote;
    s->has_other |= c == (unsigned char)s->how->other;
    if (!s->quote)
        return;
    if (c == (unsigned char)s->quote || c == '\\' || c == '\n') {
        form[1] = c == '\n' ? 'n' : (char)c;
        length = 2;
    } else {
        length = s->how->escape(c, form);
    }
    ss_value_put_bytes(s->to, length ? form : bytes, length ? length : size);
}

/* A stacksplice_write_callback. */
static int put_characters(const char *bytes, size_t length, void *data)
{
    shown *s = data;

    for (size_t at = 0, size; at < length; at += size) {
        uint32_t c = (unsigned char)bytes[at];
        size_t counted;

        size = s->how->is_bytes ? 1 : ss_value_character(bytes + at, length - at, &c);
        counted = s->how->counts_bytes ? size : 1;
        if (counted > s->left) {
            s->left = 0;
            return 1;
        }
        s->left -= counted;
        put_character(s, c, bytes + at, size);
    }
    return 0;
}

/* Of a text that is cut, no other secret could be found in the report. */
static void put_text(shown *s, const char *bytes, size_t length, bool is_cut)
{
    s->left = SS_VALUE_UNITS;
    if (!is_cut || s->to->shows_secrets)
        (void)put_characters(bytes, length, s);
    else
        (void)stacksplice_redact_by_rules(bytes,
                                          length < SS_VALUE_SEARCHED ? length : SS_VALUE_SEARCHED,
                                          STACKSPLICE_TEXT_LOCAL, put_characters, s);
}

void ss_value_quoted(ss_value_text *to, const ss_value_quoting *how, const char *bytes,
                     size_t length, uint64_t size)
{
    shown s = {.to = to, .how = how};
    bool is_cut = size > SS_VALUE_UNITS;
    char quote[2] = {how->quote};

    if (is_cut && to->depth && to->length + SS_VALUE_UNITS > to->open[to->depth - 1].most) {
        to->length = sizeof to->bytes; /* its item does not fit, so do not search it for secrets */
        return;
    }
    if (how->quote != how->other)
        put_text(&s, bytes, length, is_cut);
    if (s.has_quote && !s.has_other)
        *quote = how->other;
    s.quote = *quote;
    ss_value_put(to, how->before);
    ss_value_put(to, quote);
    put_text(&s, bytes, length, is_cut);
    ss_value_put(to, quote);
    ss_value_put(to, is_cut ? "..." : "");
}

/* ---- Lua --------------------------------------------------------------------------------------*/

static size_t escape_of_lua(uint32_t c, char out[SS_VALUE_ESCAPED])
{
    return c < 32 || c == 127 ? (size_t)snprintf(out, SS_VALUE_ESCAPED, "\\%03u", c) : 0;
}

const ss_value_quoting ss_value_of_lua = {
    .before = "", .quote = '"', .other = '"', .counts_bytes = true, .escape = escape_of_lua};

/* 14 digits, and at least one of them behind a point or in an exponent. */
void ss_value_lua_float(ss_value_text *to, double value)
{
    char text[32];

    snprintf(text, sizeof text, "%.14g", value);
    ss_value_put(to, text);
    if (!text[strspn(text, "-0123456789")])
        ss_value_put(to, ".0");
}

bool ss_value_is_lua_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c >= 0x80 || (!isalnum(c) && c != '_'))
            return false;
    }
    return length && !isdigit((unsigned char)*text);
}

/* ---- Python -----------------------------------------------------------------------------------*/

size_t ss_value_python_escape(uint32_t c, char out[SS_VALUE_ESCAPED])
{
    if (c == '\t' || c == '\r')
        return (size_t)snprintf(out, SS_VALUE_ESCAPED, "\\%c", c == '\t' ? 't' : 'r');
    if (c >= 32 && c < 127)
        return 0;
    return (size_t)snprintf(out, SS_VALUE_ESCAPED,
                            c < 0x100     ? "\\x%02x"
                            : c < 0x10000 ? "\\u%04x"
                                          : "\\U%08x",
                            c);
}

const ss_value_quoting ss_value_of_python_bytes = {
    .before = "b", .quote = '\'', .other = '"', .is_bytes = true, .escape = ss_value_python_escape};
