#include "base/texts.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROOM = 1 << 16,
    ALL = 256 << 20, /* bytes that are looked up, new or not */
    EACH = 32
};

typedef struct text {
    struct text *next;
    size_t length;
    char bytes[];
} text;

static text *table[ROOM];
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
    text **place, *t;

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
