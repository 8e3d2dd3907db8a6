/* The fields of a frame, each in one row of a table, and the stacks that frames are in. */
#include "report/visit.h"

#include "resolve/glue.h"

#include <stddef.h>

/* ---- The table -------------------------------------------------------------------------------*/

typedef enum field_type { KIND, TRUST, TEXT, LINE, COUNT, OFFSET, FLAG, ADDRESS } field_type;

/* When there is something to say. */
typedef enum field_rule { IF_SET, ALWAYS, OF_NATIVE, WITH_FUNCTION, WITH_MODULE } field_rule;

#define FRAME(member) offsetof(stacksplice_told_frame, frame.member)

/* In the order in which reports have them. */
static const struct field {
    const char *key;
    field_type type;
    field_rule rule;
    size_t at; /* in stacksplice_told_frame */
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
    {"source", LINE, IF_SET, offsetof(stacksplice_told_frame, source)},
    {"address", ADDRESS, ALWAYS, FRAME(address)},
};

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

static const char *kind_name(stacksplice_frame_kind kind)
{
    static const char *const names[] = {"native", "script", "gap"};

    return names[kind - STACKSPLICE_FRAME_NATIVE];
}

static const char *trust_name(stacksplice_trust trust)
{
    static const char *const names[] = {"exact", "inferred", "traceback"};

    return names[trust - STACKSPLICE_TRUST_EXACT];
}

static void emit_field(ss_emit *e, const struct field *f, const void *at)
{
    const stacksplice_told_text *line = at;

    switch (f->type) {
    case KIND:
        ss_emit_text(e, f->key, kind_name(*(const stacksplice_frame_kind *)at));
        break;
    case TRUST:
        ss_emit_text(e, f->key, trust_name(*(const stacksplice_trust *)at));
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
    }
}

static void emit_frame(ss_emit *e, const char *key, const stacksplice_told_frame *frame)
{
    ss_emit_begin(e, key, STACKSPLICE_OBJECT);
    for (size_t i = 0; i < SS_COUNT_OF(fields); i++) {
        const void *at = (const char *)frame + fields[i].at;

        if (is_shown(&fields[i], &frame->frame, at))
            emit_field(e, &fields[i], at);
    }
    ss_emit_end(e, STACKSPLICE_OBJECT);
}

/* ---- Stacks ----------------------------------------------------------------------------------*/

typedef struct resolving {
    const ss_report *r;
    ss_emit *e;
} resolving;

/* With the line that texts show below the frame: who reads the report later must not look for it.
 */
static int emit_resolved(const ss_frame *f, void *data)
{
    const resolving *to = data;
    char line[SS_SOURCE_LINE_MAX];
    stacksplice_told_frame frame = {f->frame, ss_glue_is(f), {line, 0}};

    frame.source.length = ss_report_source(to->r, &f->frame, line);
    emit_frame(to->e, NULL, &frame);
    return to->e->stopped;
}

void ss_visit_stack(const ss_report *r, ss_emit *e, const uintptr_t *frames, uint32_t count,
                    uint32_t left_out)
{
    resolving to = {r, e};

    ss_emit_begin(e, "stack", STACKSPLICE_ARRAY);
    for (uint32_t i = 0; i < count && !e->stopped; i++) {
        if (e->visitor->element)
            e->stopped = e->visitor->element(e->visitor, frames[i]);
        else
            ss_report_resolve(r, frames[i], emit_resolved, &to);
    }
    ss_emit_end(e, STACKSPLICE_ARRAY);
    ss_emit_integer(e, "frames_left_out", left_out);
}

/* ---- For everybody ---------------------------------------------------------------------------*/

stacksplice_hresult stacksplice_frame_visit(const stacksplice_frame *frame, const char *key,
                                            stacksplice_visitor *visitor)
{
    ss_emit e = {visitor, false};
    stacksplice_told_frame told = {.glue = 0};

    if (!frame || !visitor)
        return E_POINTER;
    if (!ss_visitor_is_valid(visitor))
        return E_INVALIDARG;
    told.frame = *frame;
    told.glue = stacksplice_frame_role(frame) == STACKSPLICE_ROLE_GLUE;
    emit_frame(&e, key, &told);
    return e.stopped ? S_FALSE : S_OK;
}

stacksplice_hresult stacksplice_stack_visit(const uintptr_t *frames, uint32_t count,
                                            const char *key, stacksplice_visitor *visitor)
{
    const ss_report r = {.without_source = true};
    ss_emit e = {visitor, false};

    if (!visitor || (!frames && count))
        return E_POINTER;
    if (!ss_visitor_is_valid(visitor))
        return E_INVALIDARG;
    ss_emit_begin(&e, key, STACKSPLICE_OBJECT);
    ss_visit_stack(&r, &e, frames, count, stacksplice_frames_left_out(frames, count));
    ss_emit_end(&e, STACKSPLICE_OBJECT);
    return e.stopped ? S_FALSE : S_OK;
}
