#include "report/emit.h"

#include <string.h>

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

void ss_emit_locals(ss_emit *e, const char *key, stacksplice_told_locals locals)
{
    if (!locals.count)
        return;
    ss_emit_begin(e, key, STACKSPLICE_OBJECT);
    for (uint32_t i = 0; i < locals.count; i++)
        ss_emit_utf8(e, locals.all[i].name, locals.all[i].value.text, locals.all[i].value.length);
    ss_emit_end(e, STACKSPLICE_OBJECT);
}
