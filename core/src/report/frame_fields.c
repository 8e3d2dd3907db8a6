/*
 * The fields of a frame, one row of a table each: how visitors receive them, and how to read them
 * from a saved report.
 */
#include "report/visit.h"

#include <stddef.h>
#include <string.h>

/* ---- The table -------------------------------------------------------------------------------*/

typedef enum field_type {
    KIND,
    TRUST,
    TEXT,
    LINE,
    COUNT,
    OFFSET,
    FLAG,
    ADDRESS,
    LOCALS
} field_type;

/* When to report a field. */
typedef enum field_rule { IF_SET, ALWAYS, OF_NATIVE, WITH_FUNCTION, WITH_MODULE } field_rule;

#define FRAME(member) offsetof(stacksplice_told_frame, frame.member)

/* In the order of reports. */
static const struct field {
    const char *key;
    field_type type;
    field_rule rule;
    size_t at; /* offset in stacksplice_told_frame */
} fields[] = {
    {"kind", KIND, ALWAYS, FRAME(kind)},
    {"trust", TRUST, ALWAYS, FRAME(trust)},
    {"language", TEXT, ALWAYS, FRAME(language)},
    {"function", TEXT, IF_SET, FRAME(function)},
    {"function_offset", OFFSET, WITH_FUNCTION, FRAME(function_offset)},
    {"file", TEXT, IF_SET, FRAME(file)},
    {"line", COUNT, IF_SET, FRAME(line)},
    {"end_line", COUNT, IF_SET, FRAME(end_line)},
    {"column", COUNT, IF_SET, FRAME(column)},
    {"end_column", COUNT, IF_SET, FRAME(end_column)},
    {"module", TEXT, IF_SET, FRAME(module)},
    {"module_offset", OFFSET, WITH_MODULE, FRAME(module_offset)},
    {"build_id", TEXT, IF_SET, FRAME(build_id)},
    {"inlined", FLAG, OF_NATIVE, FRAME(inlined)},
    {"glue", FLAG, IF_SET, offsetof(stacksplice_told_frame, glue)},
    {"reason", TEXT, IF_SET, FRAME(reason)},
    {"asynchronous", FLAG, IF_SET, FRAME(asynchronous)},
    {"interpreter", TEXT, IF_SET, FRAME(interpreter)},
    {"calls", TEXT, IF_SET, FRAME(calls)},
    {"source", LINE, IF_SET, offsetof(stacksplice_told_frame, source)},
    {"source_column", COUNT, IF_SET, offsetof(stacksplice_told_frame, source_column)},
    {"locals", LOCALS, IF_SET, offsetof(stacksplice_told_frame, locals)},
    {"address", ADDRESS, ALWAYS, FRAME(address)},
};

/* Their values start at 1. */
static const char *const kinds[] = {"native", "script", "gap"};
static const char *const trusts[] = {"exact", "inferred", "traceback"};

static bool names_one(uint32_t value, size_t count)
{
    return value >= 1 && value <= count;
}

/* ---- Out -------------------------------------------------------------------------------------*/

static bool is_set(const struct field *f, const void *at)
{
    switch (f->type) {
    case TEXT:
        return *(const char *const *)at != NULL;
    case LINE:
        return ((const stacksplice_told_text *)at)->length != 0;
    case COUNT:
        return *(const uint32_t *)at != 0;
    case OFFSET:
        return *(const uint64_t *)at != 0;
    case FLAG:
        return *(const int *)at != 0;
    case LOCALS:
        return ((const stacksplice_told_locals *)at)->count != 0;
    default:
        return true;
    }
}

static bool is_shown(const struct field *f, const stacksplice_frame *frame, const void *at)
{
    switch (f->rule) {
    case OF_NATIVE:
        return frame->kind == STACKSPLICE_FRAME_NATIVE;
    case WITH_FUNCTION:
        return frame->function && is_set(f, at);
    case WITH_MODULE:
        return frame->module != NULL;
    case IF_SET:
        return is_set(f, at);
    default:
        return true;
    }
}

static void emit_field(ss_emit *e, const struct field *f, const void *at)
{
    const stacksplice_told_text *line = at;

    switch (f->type) {
    case KIND:
        ss_emit_text(e, f->key, kinds[*(const stacksplice_frame_kind *)at - 1]);
        break;
    case TRUST:
        ss_emit_text(e, f->key, trusts[*(const stacksplice_trust *)at - 1]);
        break;
    case TEXT:
        ss_emit_text(e, f->key, *(const char *const *)at);
        break;
    case LINE:
        ss_emit_utf8(e, f->key, line->text, line->length);
        break;
    case COUNT:
        ss_emit_integer(e, f->key, *(const uint32_t *)at);
        break;
    case OFFSET:
        ss_emit_integer(e, f->key, (int64_t) * (const uint64_t *)at);
        break;
    case FLAG:
        ss_emit_boolean(e, f->key, *(const int *)at != 0);
        break;
    case ADDRESS:
        ss_emit_hex(e, f->key, *(const uintptr_t *)at, 1);
        break;
    case LOCALS:
        ss_emit_locals(e, f->key, *(const stacksplice_told_locals *)at);
        break;
    }
}

void ss_emit_frame(ss_emit *e, const char *key, const stacksplice_told_frame *frame)
{
    ss_emit_begin(e, key, STACKSPLICE_OBJECT);
    for (size_t i = 0; i < SS_COUNT_OF(fields); i++) {
        const void *at = (const char *)frame + fields[i].at;

        if (is_shown(&fields[i], &frame->frame, at))
            emit_field(e, &fields[i], at);
    }
    ss_emit_end(e, STACKSPLICE_OBJECT);
}

stacksplice_hresult stacksplice_frame_visit(const stacksplice_frame *frame, const char *key,
                                            stacksplice_visitor *visitor)
{
    ss_emit e = {visitor, false};
    stacksplice_told_frame told = {.glue = 0};

    if (!frame || !frame->language || !visitor)
        return E_POINTER;
    if (!ss_visitor_is_valid(visitor) || frame->size != sizeof *frame ||
        !names_one((uint32_t)frame->kind, SS_COUNT_OF(kinds)) ||
        !names_one((uint32_t)frame->trust, SS_COUNT_OF(trusts)))
        return E_INVALIDARG;
    told.frame = *frame;
    told.glue = stacksplice_frame_role(frame) == STACKSPLICE_ROLE_GLUE;
    ss_emit_frame(&e, key, &told);
    return e.stopped ? S_FALSE : S_OK;
}

/* ---- In --------------------------------------------------------------------------------------*/

/* The position of the text KEY in NAMES, from 1 on; FALLBACK when it is none of them. */
static int read_name(stacksplice_fields *from, const char *key, const char *const names[3],
                     unsigned fallback, unsigned *out)
{
    stacksplice_told_text text = {NULL, 0};
    int failed = from->text(from, key, &text);

    *out = fallback;
    for (unsigned i = 0; !failed && text.text && i < 3; i++) {
        if (!strcmp(text.text, names[i]))
            *out = i + 1;
    }
    return failed;
}

static int read_number(stacksplice_fields *from, const struct field *f, void *at)
{
    static const uint64_t most[] = {
        [COUNT] = UINT32_MAX, [OFFSET] = UINT64_MAX, [ADDRESS] = UINTPTR_MAX};
    uint64_t number = 0;
    int failed = from->number(from, f->key, most[f->type], &number);

    if (f->type == COUNT)
        *(uint32_t *)at = (uint32_t)number;
    else if (f->type == OFFSET)
        *(uint64_t *)at = number;
    else
        *(uintptr_t *)at = (uintptr_t)number;
    return failed;
}

static int read_field(stacksplice_fields *from, const struct field *f, void *at)
{
    stacksplice_told_text text = {NULL, 0};
    unsigned number;
    int failed;

    switch (f->type) {
    case KIND:
        failed = read_name(from, f->key, kinds, STACKSPLICE_FRAME_SCRIPT, &number);
        *(stacksplice_frame_kind *)at = (stacksplice_frame_kind)number;
        return failed;
    case TRUST:
        failed = read_name(from, f->key, trusts, STACKSPLICE_TRUST_EXACT, &number);
        *(stacksplice_trust *)at = (stacksplice_trust)number;
        return failed;
    case TEXT:
        failed = from->text(from, f->key, &text);
        *(const char **)at = text.text;
        return failed;
    case LINE:
        return from->text(from, f->key, at);
    case FLAG:
        return from->truth(from, f->key, at);
    case LOCALS:
        return from->locals(from, f->key, at);
    default:
        return read_number(from, f, at);
    }
}

int stacksplice_frame_read(stacksplice_fields *from, stacksplice_told_frame *out)
{
    *out = (stacksplice_told_frame){.frame = {.size = sizeof out->frame}};
    for (size_t i = 0; i < SS_COUNT_OF(fields); i++) {
        int failed = read_field(from, &fields[i], (char *)out + fields[i].at);

        if (failed)
            return failed;
    }
    if (!out->frame.language)
        out->frame.language = "";
    return 0;
}
