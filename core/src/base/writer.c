#include "base/writer.h"

#include "base/utf.h"

#include <string.h>

void ss_writer_init(ss_writer *w, stacksplice_write_callback write, void *data)
{
    w->write = write;
    w->data = data;
    w->failed = false;
    w->flushes = 0;
    w->used = 0;
    ss_writer_margin(w, 0, '|');
}

int ss_writer_keep(const char *bytes, size_t length, void *kept)
{
    ss_kept_text *k = kept;
    size_t left = k->size - 1 - k->used, part = length < left ? length : left;

    memcpy(k->to + k->used, bytes, part);
    k->used += part;
    k->to[k->used] = 0;
    return part < length;
}

void ss_writer_margin(ss_writer *w, uint32_t depth, char first)
{
    w->margin = depth;
    w->margin_char = first;
    w->line_begun = false;
}

static void flush(ss_writer *w)
{
    if (w->used && !w->failed && w->write(w->buffer, w->used, w->data))
        w->failed = true;
    w->flushes++;
    w->used = 0;
}

void ss_writer_make_room(ss_writer *w)
{
    if (w->used > sizeof w->buffer / 2)
        flush(w);
}

bool ss_writer_finish(ss_writer *w)
{
    flush(w);
    return !w->failed;
}

static void put_raw(ss_writer *w, const char *bytes, size_t length)
{
    while (length && !w->failed) {
        size_t left = sizeof w->buffer - w->used;
        size_t part = length < left ? length : left;

        memcpy(w->buffer + w->used, bytes, part);
        w->used += part;
        bytes += part;
        length -= part;
        if (w->used == sizeof w->buffer)
            flush(w);
    }
}

static void begin_line(ss_writer *w, bool is_empty)
{
    for (uint32_t i = 0; i < w->margin; i++)
        put_raw(w, "  ", 2);
    put_raw(w, &w->margin_char, 1);
    if (!is_empty)
        put_raw(w, " ", 1);
    w->margin_char = '|';
    w->line_begun = true;
}

void ss_writer_put(ss_writer *w, const char *bytes, size_t length)
{
    if (length && !w->margin && length < sizeof w->buffer - w->used) {
        memcpy(w->buffer + w->used, bytes, length);
        w->used += length;
        return;
    }
    while (w->margin && length) {
        const char *end = memchr(bytes, '\n', length);
        size_t part = end ? (size_t)(end - bytes) + 1 : length;

        if (!w->line_begun)
            begin_line(w, *bytes == '\n');
        put_raw(w, bytes, part);
        w->line_begun = !end;
        bytes += part;
        length -= part;
    }
    put_raw(w, bytes, length);
}

void ss_writer_text(ss_writer *w, const char *text)
{
    ss_writer_put(w, text, strlen(text));
}

void ss_writer_blanks(ss_writer *w, size_t count)
{
    static const char blanks[] = "                ";
    const size_t most = sizeof blanks - 1;

    for (; count > most; count -= most)
        ss_writer_put(w, blanks, most);
    ss_writer_put(w, blanks, count);
}

static void put_number(ss_writer *w, uint64_t value, unsigned base, unsigned digits)
{
    char text[20];
    size_t at = sizeof text;

    do {
        text[--at] = "0123456789abcdef"[value % base];
        value /= base;
    } while (at && (value || sizeof text - at < digits));
    ss_writer_put(w, text + at, sizeof text - at);
}

void ss_writer_decimal(ss_writer *w, uint64_t value)
{
    put_number(w, value, 10, 1);
}

void ss_writer_hex(ss_writer *w, uint64_t value, unsigned digits)
{
    put_number(w, value, 16, digits);
}

static void put_encoded(ss_writer *w, uint32_t c)
{
    char out[4];

    ss_writer_put(w, out, ss_utf8_put(c, out));
}

static void put_json_escape(ss_writer *w, uint32_t c)
{
    static const char letters[] = "\b\f\n\r\t\"\\";
    const char *letter = c ? memchr(letters, (int)c, sizeof letters - 1) : NULL;

    if (letter) {
        ss_writer_put(w, "\\", 1);
        ss_writer_put(w, &"bfnrt\"\\"[letter - letters], 1);
    } else {
        ss_writer_text(w, "\\u");
        ss_writer_hex(w, c, 4);
    }
}

static bool is_control(uint32_t c)
{
    /* The second range holds the one-character forms of terminal control sequences. */
    return c < 0x20 || (c >= 0x7F && c < 0xA0);
}

/*
 * Characters that make a text look like another one: line separators, and all that change
 * direction.
 */
static bool is_deceptive(uint32_t c)
{
    return c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x2069);
}

static void put_character(ss_writer *w, uint32_t c, ss_escape escape)
{
    if (escape == SS_ESCAPE_JSON) {
        if (is_control(c) || is_deceptive(c) || c == '"' || c == '\\')
            put_json_escape(w, c);
        else
            put_encoded(w, c);
    } else if (escape != SS_ESCAPE_NOTHING &&
               ((is_control(c) && !(escape == SS_ESCAPE_TABS && c == '\t')) || is_deceptive(c))) {
        ss_writer_text(w, c < 0x100 ? "\\x" : "\\u");
        ss_writer_hex(w, c, c < 0x100 ? 2 : 4);
    } else {
        put_encoded(w, c);
    }
}

void ss_writer_utf8(ss_writer *w, const char *bytes, size_t length, ss_escape escape)
{
    for (size_t at = 0; at < length && !w->failed;) {
        size_t begin = at; /* of what is written as it is in every escape */
        uint32_t c;

        while (at < length && bytes[at] >= ' ' && bytes[at] <= '~' && bytes[at] != '"' &&
               bytes[at] != '\\')
            at++;
        ss_writer_put(w, bytes + begin, at - begin);
        if (at == length)
            break;
        c = ss_utf8_next(bytes, length, &at);
        put_character(w, c >= 0xD800 && c < 0xE000 ? SS_REPLACEMENT : c, escape);
    }
}

void ss_writer_utf16(ss_writer *w, const uint16_t *units, size_t length, ss_escape escape)
{
    for (size_t at = 0; at < length && !w->failed;)
        put_character(w, ss_utf16_next(units, length, &at), escape);
}
