#include "report/json.h"

#include <inttypes.h>
#include <stdio.h>

/* The length of the UTF-8 character at TEXT, which ends in a NUL; 0 if it is damaged. */
static unsigned character(const unsigned char *text)
{
    unsigned length = text[0] < 0x80   ? 1
                      : text[0] < 0xC2 ? 0
                      : text[0] < 0xE0 ? 2
                      : text[0] < 0xF0 ? 3
                                       : 4;

    if (text[0] > 0xF4 || (text[0] == 0xE0 && text[1] < 0xA0) ||
        (text[0] == 0xED && text[1] > 0x9F) || (text[0] == 0xF0 && text[1] < 0x90) ||
        (text[0] == 0xF4 && text[1] > 0x8F))
        return 0;
    for (unsigned i = 1; i < length; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

void ssi_put_text(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    putchar('"');
    while (*at) {
        unsigned length = character(at);

        if (*at == '"' || *at == '\\')
            printf("\\%c", *at);
        else if (*at < 0x20 || *at == 0x7F)
            printf("\\u%04x", *at);
        else if (!length)
            fputs("\\ufffd", stdout);
        else
            fwrite(at, 1, length, stdout);
        at += length ? length : 1;
    }
    putchar('"');
}

void ssi_put_member(const char *name, const char *text)
{
    if (!text)
        return;
    printf(",\"%s\":", name);
    ssi_put_text(text);
}

void ssi_put_number(const char *name, uint64_t number)
{
    if (number)
        printf(",\"%s\":%" PRIu64, name, number);
}
