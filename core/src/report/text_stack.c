/* A stack for people: glue hidden and counted, repeats folded, in either order. */
#include "report/report.h"

#include "report/glue.h"
#include "splice/token.h"

typedef struct printer {
    const ss_report *r;
    unsigned indent;
    uint32_t hidden; /* glue frames so far */
    uintptr_t last;  /* the last element shown, 0: none */
    uint32_t equal;  /* how often it came in a row */
} printer;

/* What one element of the stack stands for. */
typedef struct contents {
    const printer *p;
    uint32_t frames;
    uint32_t shown;
    uint32_t wanted; /* print only this one; UINT32_MAX: none */
} contents;

static bool is_shown(const printer *p, const ss_frame *f)
{
    return p->r->all_frames || !ss_glue_is(f);
}

static int visit(const ss_frame *f, void *data)
{
    contents *c = data;

    if (is_shown(c->p, f)) {
        c->shown++;
        if (c->wanted == c->frames)
            ss_report_frame(c->p->r, f, c->p->indent);
    }
    c->frames++;
    return 0;
}

static contents look_at(const printer *p, uintptr_t element, uint32_t wanted)
{
    contents c = {p, 0, 0, wanted};

    ss_report_resolve(p->r, element, visit, &c);
    return c;
}

static void put_line(const printer *p, const char *before, uint64_t count, const char *after)
{
    for (unsigned i = 0; i < p->indent; i++)
        ss_writer_put(p->r->w, " ", 1);
    ss_writer_text(p->r->w, before);
    ss_writer_decimal(p->r->w, count);
    ss_writer_text(p->r->w, after);
}

static void end_repeats(printer *p)
{
    uint32_t more = p->equal > SS_REPORT_EQUAL_MAX ? p->equal - SS_REPORT_EQUAL_MAX : 0;

    if (more)
        put_line(p, "[Previous frame repeated ", more,
                 more == 1 ? " more time]\n" : " more times]\n");
    p->equal = 0;
}

static void print_element(printer *p, uintptr_t element)
{
    contents c = look_at(p, element, UINT32_MAX);
    uint32_t count = c.frames;

    p->hidden += c.frames - c.shown;
    if (!c.shown)
        return;
    if (element != p->last)
        end_repeats(p);
    p->last = element;
    if (++p->equal > SS_REPORT_EQUAL_MAX)
        return;
    for (uint32_t i = 0; i < count; i++)
        (void)look_at(p, element, p->r->order == STACKSPLICE_ORDER_NEWEST_LAST ? count - 1 - i : i);
}

static bool is_script(uintptr_t element)
{
    const stacksplice_token_info *info = ss_token_is(element) ? ss_token_info(element) : NULL;

    return info && info->kind == STACKSPLICE_FRAME_SCRIPT;
}

/* How much of a node's stack a brief report shows: to its third script frame, or to its last. */
static uint32_t brief_count(const uintptr_t *frames, uint32_t count)
{
    uint32_t scripts = 0, shown = 0;

    for (uint32_t i = 0; i < count && scripts < SS_REPORT_SCRIPTS_MAX; i++) {
        if (is_script(frames[i])) {
            scripts++;
            shown = i + 1;
        }
    }
    if (scripts)
        return shown;
    return count < SS_REPORT_NATIVE_MAX ? count : SS_REPORT_NATIVE_MAX;
}

static void put_rest(const printer *p, uint32_t rest, uint32_t left_out)
{
    if (left_out)
        put_line(p, "[gap: the stack was cut after ", rest,
                 rest == 1 ? " element]\n" : " elements]\n");
}

void ss_report_stack(const ss_report *r, const uintptr_t *frames, uint32_t count, uint32_t left_out,
                     unsigned indent, bool brief)
{
    printer p = {r, indent, 0, 0, 0};
    uint32_t shown = brief ? brief_count(frames, count) : count;
    bool last = r->order == STACKSPLICE_ORDER_NEWEST_LAST;

    if (last && shown == count)
        put_rest(&p, count, left_out);
    if (last && shown < count)
        put_line(&p, "... ", count - shown, " outer frames not shown\n");
    for (uint32_t i = 0; i < shown && !r->w->failed; i++)
        print_element(&p, frames[last ? shown - 1 - i : i]);
    end_repeats(&p);
    if (!last && shown == count)
        put_rest(&p, count, left_out);
    if (!last && shown < count)
        put_line(&p, "... ", count - shown, " outer frames not shown\n");
    if (p.hidden)
        put_line(&p, "... ", p.hidden,
                 p.hidden == 1 ? " glue frame hidden\n" : " glue frames hidden\n");
}
