#include "report/visit.h"

#include "redact/redact.h"

#include <string.h>

/* Write what precedes each value: a comma and its key, where needed. */
static ss_writer *begin_value(stacksplice_visitor *self, const char *key)
{
    ss_json *j = (ss_json *)self;

    if (j->comma)
        ss_writer_put(j->w, ",", 1);
    if (key) {
        ss_writer_put(j->w, "\"", 1);
        if (j->locals)
            ss_writer_utf8(j->w, key, strlen(key), SS_ESCAPE_JSON);
        else
            ss_writer_text(j->w, key);
        ss_writer_put(j->w, "\":", 2);
    }
    j->comma = true;
    return j->w;
}

/* Whether KEY is one of KEYS, which have a blank before and behind each. */
static bool is_one_of(const char *key, const char *keys)
{
    size_t length = key ? strlen(key) : 0;

    for (; length && (keys = strchr(keys, ' ')) != NULL; keys++) {
        if (keys[1] == *key && !strncmp(keys + 1, key, length) && keys[length + 1] == ' ')
            return true;
    }
    return false;
}

/*
 * Whether programs compare the texts of this member.  They hold no secret, and what a hook, or one
 * that failed, put in their place would make the report unreadable, or group it with others.
 */
static bool is_identifier(const char *key)
{
    return is_one_of(key,
                     " schema symbol language reference fingerprint loose_fingerprint kind trust "
                     "build_id relation transformed_above platform level event_id debug_id "
                     "code_id instruction_addr_adjustment ");
}

static int begin(stacksplice_visitor *self, const char *key, stacksplice_container container)
{
    ss_json *j = (ss_json *)self;
    ss_writer *w = begin_value(self, key);

    ss_writer_put(w, container == STACKSPLICE_OBJECT ? "{" : "[", 1);
    j->comma = false;
    j->locals = is_one_of(key, " locals vars ");
    j->identifiers = container == STACKSPLICE_ARRAY && is_identifier(key);
    return w->failed;
}

static int end(stacksplice_visitor *self, stacksplice_container container)
{
    ss_json *j = (ss_json *)self;

    ss_writer_put(j->w, container == STACKSPLICE_OBJECT ? "}" : "]", 1);
    j->comma = true;
    j->locals = false;
    j->identifiers = false;
    return j->w->failed;
}

static int null(stacksplice_visitor *self, const char *key)
{
    ss_writer *w = begin_value(self, key);

    ss_writer_text(w, "null");
    return w->failed;
}

static int boolean(stacksplice_visitor *self, const char *key, int value)
{
    ss_writer *w = begin_value(self, key);

    ss_writer_text(w, value ? "true" : "false");
    return w->failed;
}

static int integer(stacksplice_visitor *self, const char *key, int64_t value)
{
    ss_writer *w = begin_value(self, key);

    if (value < 0)
        ss_writer_put(w, "-", 1);
    ss_writer_decimal(w, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
    return w->failed;
}

static int hex(stacksplice_visitor *self, const char *key, uint64_t value, unsigned digits)
{
    ss_writer *w = begin_value(self, key);

    ss_writer_text(w, "\"0x");
    ss_writer_hex(w, value, digits);
    ss_writer_text(w, "\"");
    return w->failed;
}

/* What the text of a member is. */
static stacksplice_text_kind kind_of(const char *key)
{
    if (is_one_of(key, " source context_line "))
        return STACKSPLICE_TEXT_SOURCE;
    return is_one_of(key, " file filename abs_path module package path process cwd ")
               ? STACKSPLICE_TEXT_PATH
               : STACKSPLICE_TEXT_MESSAGE;
}

static int put_text(stacksplice_visitor *self, const char *key, ss_text text)
{
    const ss_json *j = (const ss_json *)self;
    ss_writer *w = begin_value(self, key);

    ss_writer_text(w, "\"");
    if (j->locals)
        ss_redact_local(key, text, j->failfast, w, SS_ESCAPE_JSON);
    else if (key ? is_identifier(key) : j->identifiers)
        ss_text_write(text, w, SS_ESCAPE_JSON);
    else
        ss_redact(text, kind_of(key), j->failfast, w, SS_ESCAPE_JSON);
    ss_writer_text(w, "\"");
    return w->failed;
}

static int utf8(stacksplice_visitor *self, const char *key, const char *text, size_t length)
{
    return put_text(self, key, (ss_text){text, NULL, length});
}

static int utf16(stacksplice_visitor *self, const char *key, const uint16_t *text, size_t length)
{
    return put_text(self, key, (ss_text){NULL, text, length});
}

void ss_json_init(ss_json *json, ss_writer *w, bool failfast)
{
    *json = (ss_json){.visitor = {.size = sizeof json->visitor,
                                  .begin = begin,
                                  .end = end,
                                  .null = null,
                                  .boolean = boolean,
                                  .integer = integer,
                                  .hex = hex,
                                  .utf8 = utf8,
                                  .utf16 = utf16},
                      .w = w,
                      .failfast = failfast};
}

/* ---- Emit ------------------------------------------------------------------------------------*/

void ss_emit_text(ss_emit *e, const char *key, const char *text)
{
    if (text)
        ss_emit_utf8(e, key, text, strlen(text));
    else
        SS_EMIT(e, null, key);
}

void ss_emit_locals(ss_emit *e, const char *key, stacksplice_document_locals locals)
{
    if (!locals.count)
        return;
    ss_emit_begin(e, key, STACKSPLICE_OBJECT);
    for (uint32_t i = 0; i < locals.count; i++)
        ss_emit_utf8(e, locals.all[i].name, locals.all[i].value.text, locals.all[i].value.length);
    ss_emit_end(e, STACKSPLICE_OBJECT);
}
