#include "report/json.h"

#include <string.h>

static void begin(ss_json *j, const char *key)
{
    if (j->comma)
        ss_writer_put(j->w, ",", 1);
    if (key) {
        ss_writer_put(j->w, "\"", 1);
        ss_writer_text(j->w, key);
        ss_writer_put(j->w, "\":", 2);
    }
    j->comma = true;
}

void ss_json_key(ss_json *j, const char *key)
{
    begin(j, key);
}

void ss_json_open(ss_json *j, const char *key, char bracket)
{
    begin(j, key);
    ss_writer_put(j->w, &bracket, 1);
    j->comma = false;
}

void ss_json_close(ss_json *j, char bracket)
{
    ss_writer_put(j->w, &bracket, 1);
    j->comma = true;
}

void ss_json_begin_string(ss_json *j, const char *key)
{
    begin(j, key);
    ss_writer_put(j->w, "\"", 1);
}

void ss_json_end_string(ss_json *j)
{
    ss_writer_put(j->w, "\"", 1);
}

void ss_json_text(ss_json *j, const char *key, const char *text)
{
    if (!text) {
        begin(j, key);
        ss_writer_text(j->w, "null");
        return;
    }
    ss_json_begin_string(j, key);
    ss_writer_utf8(j->w, text, strlen(text), SS_ESCAPE_JSON);
    ss_json_end_string(j);
}

void ss_json_unsigned(ss_json *j, const char *key, uint64_t value)
{
    begin(j, key);
    ss_writer_decimal(j->w, value);
}

void ss_json_signed(ss_json *j, const char *key, int64_t value)
{
    begin(j, key);
    if (value < 0)
        ss_writer_put(j->w, "-", 1);
    ss_writer_decimal(j->w, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void ss_json_bool(ss_json *j, const char *key, bool value)
{
    begin(j, key);
    ss_writer_text(j->w, value ? "true" : "false");
}

void ss_json_hex(ss_json *j, const char *key, uint64_t value, unsigned digits)
{
    ss_json_begin_string(j, key);
    ss_writer_put(j->w, "0x", 2);
    ss_writer_hex(j->w, value, digits);
    ss_json_end_string(j);
}
