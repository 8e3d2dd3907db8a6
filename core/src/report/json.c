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

/*
 * Whether programs compare the texts of this member.  They hold no secret, and what a hook, or one
 * that failed, put in their place would make the report unreadable, or group it with others.
 */
static bool is_identifier(const char *key)
{
    static const char *const keys[] = {"schema",
                                       "symbol",
                                       "language",
                                       "reference",
                                       "fingerprint",
                                       "kind",
                                       "trust",
                                       "build_id",
                                       "relation",
                                       "transformed_above",
                                       "platform",
                                       "level",
                                       "event_id",
                                       "debug_id",
                                       "code_id",
                                       "loose_fingerprint",
                                       "instruction_addr_adjustment"};

    for (size_t i = 0; key && i < SS_COUNT_OF(keys); i++) {
        if (!strcmp(key, keys[i]))
            return true;
    }
    return false;
}

static int begin(stacksplice_visitor *self, const char *key, stacksplice_container container)
{
    ss_json *j = (ss_json *)self;
    ss_writer *w = begin_value(self, key);

    ss_writer_put(w, container == STACKSPLICE_OBJECT ? "{" : "[", 1);
    j->comma = false;
    j->locals = key && (!strcmp(key, "locals") || !strcmp(key, "vars"));
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
    static const struct member {
        const char *key;
        stacksplice_text_kind kind;
    } members[] = {
        {"source", STACKSPLICE_TEXT_SOURCE}, {"context_line", STACKSPLICE_TEXT_SOURCE},
        {"file", STACKSPLICE_TEXT_PATH},     {"filename", STACKSPLICE_TEXT_PATH},
        {"abs_path", STACKSPLICE_TEXT_PATH}, {"module", STACKSPLICE_TEXT_PATH},
        {"package", STACKSPLICE_TEXT_PATH},  {"path", STACKSPLICE_TEXT_PATH},
        {"process", STACKSPLICE_TEXT_PATH},  {"cwd", STACKSPLICE_TEXT_PATH},
    };

    for (size_t i = 0; key && i < SS_COUNT_OF(members); i++) {
        if (!strcmp(key, members[i].key))
            return members[i].kind;
    }
    return STACKSPLICE_TEXT_MESSAGE;
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

void ss_emit_begin(ss_emit *e, const char *key, stacksplice_container container)
{
    e->stopped = e->stopped || e->visitor->begin(e->visitor, key, container);
}

void ss_emit_end(ss_emit *e, stacksplice_container container)
{
    e->stopped = e->stopped || e->visitor->end(e->visitor, container);
}

void ss_emit_boolean(ss_emit *e, const char *key, bool value)
{
    e->stopped = e->stopped || e->visitor->boolean(e->visitor, key, value);
}

void ss_emit_integer(ss_emit *e, const char *key, int64_t value)
{
    e->stopped = e->stopped || e->visitor->integer(e->visitor, key, value);
}

void ss_emit_hex(ss_emit *e, const char *key, uint64_t value, unsigned digits)
{
    e->stopped = e->stopped || e->visitor->hex(e->visitor, key, value, digits);
}

void ss_emit_utf8(ss_emit *e, const char *key, const char *text, size_t length)
{
    e->stopped = e->stopped || e->visitor->utf8(e->visitor, key, text, length);
}

void ss_emit_utf16(ss_emit *e, const char *key, const uint16_t *text, size_t length)
{
    e->stopped = e->stopped || e->visitor->utf16(e->visitor, key, text, length);
}

void ss_emit_text(ss_emit *e, const char *key, const char *text)
{
    if (text)
        ss_emit_utf8(e, key, text, strlen(text));
    else
        e->stopped = e->stopped || e->visitor->null(e->visitor, key);
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
