#include "base/base.h"

#include "shared/utf8.h"
#include "shared/value_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Texts ------------------------------------------------------------------------------------*/

enum {
    ROOM = 1 << 16,
    ALL = 256 << 20, /* bytes that are looked up, new or not */
    EACH = 32
};

typedef struct kept_text {
    struct kept_text *next;
    size_t length;
    char bytes[];
} kept_text;

static kept_text *table[ROOM];
static size_t spent;

static size_t hash_of(const char *bytes, size_t length)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 16777619u;
    return hash % ROOM;
}

const char *ssi_text(const char *bytes, size_t length)
{
    kept_text **place, *t;

    if (length > ALL || spent > ALL - length)
        return NULL;
    spent += length + EACH;
    place = &table[hash_of(bytes, length)];
    for (t = *place; t; t = t->next)
        if (t->length == length && !memcmp(t->bytes, bytes, length))
            return t->bytes;
    t = malloc(sizeof *t + length + 1);
    if (!t)
        return NULL;
    memcpy(t->bytes, bytes, length);
    t->bytes[length] = '\0';
    t->length = length;
    t->next = *place;
    *place = t;
    return t->bytes;
}

const char *ssi_text_format(const char *format, ...)
{
    char line[512];
    va_list values;
    int length;

    va_start(values, format);
    length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    if (length < 0)
        return NULL;
    return ssi_text(line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

/* ---- JSON -------------------------------------------------------------------------------------*/

/* Room for LENGTH more bytes; NULL without memory. */
static char *extend(ssi_written *to, size_t length)
{
    size_t room = to->room ? to->room : 256;
    char *larger;

    while (room - to->length < length)
        room *= 2;
    if (room != to->room) {
        larger = to->failed ? NULL : realloc(to->bytes, room);
        to->failed |= !larger;
        if (!larger)
            return NULL;
        to->bytes = larger;
        to->room = room;
    }
    to->length += length;
    return to->bytes + to->length - length;
}

void ssi_write_bytes(ssi_written *to, const char *bytes, size_t length)
{
    char *place = extend(to, length);

    if (place)
        memcpy(place, bytes, length);
}

void ssi_write(ssi_written *to, const char *text)
{
    ssi_write_bytes(to, text, strlen(text));
}

void ssi_write_format(ssi_written *to, const char *format, ...)
{
    char line[128];
    va_list values;

    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    ssi_write(to, line);
}

static void write_character(ssi_written *to, uint32_t character)
{
    char bytes[4];

    if (to->length < to->room && character >= 0x20 && character < 0x7F && character != '"' &&
        character != '\\')
        to->bytes[to->length++] = (char)character; /* nearly always */
    else if (character == '"' || character == '\\')
        ssi_write_bytes(to, character == '"' ? "\\\"" : "\\\\", 2);
    else if (character < 0x20 || character == 0x7F ||
             (character >= 0xD800 && character < 0xE000)) /* a str may have half of a pair */
        ssi_write_format(to, "\\u%04x", (unsigned)character);
    else
        ssi_write_bytes(to, bytes, sspy_put_utf8(character, bytes));
}

static void write_text(ssi_written *to, const char *bytes, size_t length, bool with_halves)
{
    uint32_t c;

    ssi_write(to, "\"");
    for (size_t at = 0; at < length;) {
        at += ss_value_character(bytes + at, length - at, &c);
        write_character(to, c >= 0xD800 && c < 0xE000 && !with_halves ? 0xFFFD : c);
    }
    ssi_write(to, "\"");
}

void ssi_write_text(ssi_written *to, const char *bytes, size_t length)
{
    write_text(to, bytes, length, false);
}

void ssi_write_characters(ssi_written *to, const char *bytes, size_t length)
{
    write_text(to, bytes, length, true);
}

void ssi_write_member(ssi_written *to, const char *name, const char *text)
{
    if (!text)
        return;
    ssi_write_format(to, ",\"%s\":", name);
    ssi_write_text(to, text, strlen(text));
}

void ssi_write_number(ssi_written *to, const char *name, uint64_t number)
{
    if (number)
        ssi_write_format(to, ",\"%s\":%" PRIu64, name, number);
}

void ssi_write_out(ssi_written *to)
{
    fwrite(to->bytes, 1, to->length, stdout);
    to->length = 0;
}
