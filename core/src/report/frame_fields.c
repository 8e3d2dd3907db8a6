/* The fields of a frame, and how visitors receive them. */
#include "report/visit.h"

#include <stddef.h>
#include <string.h>

/* ---- The table -------------------------------------------------------------------------------*/

#define FRAME(member) offsetof(stacksplice_document_frame, frame.member)

/* In the order of reports. */
const ss_field ss_frame_fields[SS_FRAME_FIELDS] = {
    {"kind", SS_FIELD_KIND, SS_RULE_NEEDED, FRAME(kind)},
    {"trust", SS_FIELD_TRUST, SS_RULE_ALWAYS, FRAME(trust)},
    {"language", SS_FIELD_TEXT, SS_RULE_NEEDED, FRAME(language)},
    {"function", SS_FIELD_TEXT, SS_RULE_IF_SET, FRAME(function)},
    {"function_offset", SS_FIELD_OFFSET, SS_RULE_WITH_FUNCTION, FRAME(function_offset)},
    {"file", SS_FIELD_TEXT, SS_RULE_IF_SET, FRAME(file)},
    {"line", SS_FIELD_COUNT, SS_RULE_IF_SET, FRAME(line)},
    {"end_line", SS_FIELD_COUNT, SS_RULE_IF_SET, FRAME(end_line)},
    {"column", SS_FIELD_COUNT, SS_RULE_IF_SET, FRAME(column)},
    {"end_column", SS_FIELD_COUNT, SS_RULE_IF_SET, FRAME(end_column)},
    {"module", SS_FIELD_TEXT, SS_RULE_IF_SET, FRAME(module)},
    {"module_offset", SS_FIELD_OFFSET, SS_RULE_WITH_MODULE, FRAME(module_offset)},
    {"build_id", SS_FIELD_TEXT, SS_RULE_IF_SET, FRAME(build_id)},
    {"inlined", SS_FIELD_FLAG, SS_RULE_OF_NATIVE, FRAME(inlined)},
    {"glue", SS_FIELD_FLAG, SS_RULE_IF_SET, offsetof(stacksplice_document_frame, glue)},
    {"reason", SS_FIELD_TEXT, SS_RULE_IF_SET, FRAME(reason)},
    {"asynchronous", SS_FIELD_FLAG, SS_RULE_IF_SET, FRAME(asynchronous)},
    {"interpreter", SS_FIELD_TEXT, SS_RULE_IF_SET, FRAME(interpreter)},
    {"calls", SS_FIELD_TEXT, SS_RULE_IF_SET, FRAME(calls)},
    {"source", SS_FIELD_STRING, SS_RULE_IF_SET, offsetof(stacksplice_document_frame, source)},
    {"source_column", SS_FIELD_COUNT, SS_RULE_IF_SET,
     offsetof(stacksplice_document_frame, source_column)},
    {"locals", SS_FIELD_LOCALS, SS_RULE_IF_SET, offsetof(stacksplice_document_frame, locals)},
    {"address", SS_FIELD_ADDRESS, SS_RULE_ALWAYS, FRAME(address)},
};

const char *const ss_kinds[3] = {"native", "script", "gap"};
const char *const ss_trusts[3] = {"exact", "inferred", "traceback"};

static bool names_one(uint32_t value, size_t count)
{
    return value >= 1 && value <= count;
}

static bool is_set(const ss_field *f, const void *at)
{
    switch (f->type) {
    case SS_FIELD_TEXT:
        return *(const char *const *)at != NULL;
    case SS_FIELD_STRING:
        return ((const stacksplice_document_text *)at)->length != 0;
    case SS_FIELD_COUNT:
        return *(const uint32_t *)at != 0;
    case SS_FIELD_OFFSET:
        return *(const uint64_t *)at != 0;
    case SS_FIELD_FLAG:
        return *(const int *)at != 0;
    case SS_FIELD_LOCALS:
        return ((const stacksplice_document_locals *)at)->count != 0;
    default:
        return true;
    }
}

static bool is_shown(const ss_field *f, const stacksplice_frame *frame, const void *at)
{
    switch (f->rule) {
    case SS_RULE_OF_NATIVE:
        return frame->kind == STACKSPLICE_FRAME_NATIVE;
    case SS_RULE_WITH_FUNCTION:
        return frame->function && is_set(f, at);
    case SS_RULE_WITH_MODULE:
        return frame->module != NULL;
    case SS_RULE_IF_SET:
        return is_set(f, at);
    default:
        return true;
    }
}

static void emit_field(ss_emit *e, const ss_field *f, const void *at)
{
    const stacksplice_document_text *line = at;

    switch (f->type) {
    case SS_FIELD_KIND:
        ss_emit_text(e, f->key, ss_kinds[*(const stacksplice_frame_kind *)at - 1]);
        break;
    case SS_FIELD_TRUST:
        ss_emit_text(e, f->key, ss_trusts[*(const stacksplice_trust *)at - 1]);
        break;
    case SS_FIELD_TEXT:
        ss_emit_text(e, f->key, *(const char *const *)at);
        break;
    case SS_FIELD_STRING:
        ss_emit_utf8(e, f->key, line->text, line->length);
        break;
    case SS_FIELD_COUNT:
        ss_emit_integer(e, f->key, *(const uint32_t *)at);
        break;
    case SS_FIELD_OFFSET:
        ss_emit_integer(e, f->key, (int64_t) * (const uint64_t *)at);
        break;
    case SS_FIELD_FLAG:
        ss_emit_boolean(e, f->key, *(const int *)at != 0);
        break;
    case SS_FIELD_ADDRESS:
        ss_emit_hex(e, f->key, *(const uintptr_t *)at, 1);
        break;
    default:
        ss_emit_locals(e, f->key, *(const stacksplice_document_locals *)at);
        break;
    }
}

void ss_emit_frame(ss_emit *e, const char *key, const stacksplice_document_frame *frame)
{
    ss_emit_begin(e, key, STACKSPLICE_OBJECT);
    for (size_t i = 0; i < SS_FRAME_FIELDS; i++) {
        const void *at = (const char *)frame + ss_frame_fields[i].at;

        if (is_shown(&ss_frame_fields[i], &frame->frame, at))
            emit_field(e, &ss_frame_fields[i], at);
    }
    ss_emit_end(e, STACKSPLICE_OBJECT);
}

stacksplice_hresult stacksplice_frame_visit(const stacksplice_frame *frame, const char *key,
                                            stacksplice_visitor *visitor)
{
    ss_emit e = {visitor, false};
    stacksplice_document_frame saved = {.glue = 0};

    if (!frame || !frame->language || !visitor)
        return E_POINTER;
    if (!ss_visitor_is_valid(visitor) || frame->size != sizeof *frame ||
        !names_one((uint32_t)frame->kind, SS_COUNT_OF(ss_kinds)) ||
        !names_one((uint32_t)frame->trust, SS_COUNT_OF(ss_trusts)))
        return E_INVALIDARG;
    saved.frame = *frame;
    saved.glue = stacksplice_frame_role(frame) == STACKSPLICE_ROLE_GLUE;
    ss_emit_frame(&e, key, &saved);
    return e.stopped ? S_FALSE : S_OK;
}
