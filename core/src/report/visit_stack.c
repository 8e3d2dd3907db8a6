/* Passes stacks to visitors, frame by frame. */
#include "report/visit.h"

#include "resolve/glue.h"

typedef struct resolving {
    const ss_report *r;
    ss_emit *e;
    stacksplice_told_locals locals; /* of the element */
} resolving;

/* Include the source line that texts show: a later reader of the report must not look for it. */
static int emit_resolved(const ss_frame *f, void *data)
{
    const resolving *to = data;
    char line[SS_SOURCE_LINE_MAX];
    stacksplice_told_frame frame = {
        f->frame, ss_report_is_glue(to->r, f), {line, 0}, 0, to->locals};

    frame.source.length = ss_report_source(to->r, &f->frame, line, &frame.source_column);
    ss_emit_frame(to->e, NULL, &frame);
    return to->e->stopped;
}

void ss_visit_stack(const ss_report *r, ss_emit *e, ss_shown_stack stack, uint32_t left_out)
{
    resolving to = {.r = r, .e = e};

    ss_report_dates(r, stack);
    ss_emit_begin(e, "stack", STACKSPLICE_ARRAY);
    for (uint32_t i = 0; i < stack.count && !e->stopped; i++) {
        to.locals = ss_locals_of(stack.locals, i);
        if (e->visitor->element)
            e->stopped = e->visitor->element(e->visitor, stack.elements[i]);
        else
            ss_report_resolve(r, stack.elements[i], emit_resolved, &to);
    }
    ss_emit_end(e, STACKSPLICE_ARRAY);
    ss_emit_integer(e, "frames_left_out", left_out);
}

stacksplice_hresult stacksplice_stack_visit(const uintptr_t *frames, uint32_t count,
                                            const char *key, stacksplice_visitor *visitor)
{
    const ss_report r = {.source = NULL};
    ss_emit e = {visitor, false};

    if (!visitor || (!frames && count))
        return E_POINTER;
    if (!ss_visitor_is_valid(visitor))
        return E_INVALIDARG;
    ss_emit_begin(&e, key, STACKSPLICE_OBJECT);
    ss_visit_stack(&r, &e, (ss_shown_stack){frames, NULL, count, NULL, 0},
                   stacksplice_frames_left_out(frames, count));
    ss_emit_end(&e, STACKSPLICE_OBJECT);
    return e.stopped ? S_FALSE : S_OK;
}
