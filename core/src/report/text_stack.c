/* A stack as text: glue hidden and counted, repeats folded, in either order. */
#include "report/report.h"

#include <stacksplice/script.h>

#include "resolve/glue.h"
#include "splice/sink.h"
#include "splice/token.h"

typedef struct printer {
    const ss_report *r;
    ss_shown_stack stack;
    unsigned indent;
    uint32_t hidden; /* glue frames so far */
    uint64_t last;   /* of the last element shown; 0: none */
    uint32_t equal;  /* how often it came in a row */
    bool is_line;    /* equal by file, line and function, as tracebacks of scripts compare */
    bool lineless;   /* showed a native frame of a module without a file */
    bool replaced;   /* and its file is another one by now */
    ss_folds folds;
} printer;

/* One element of the stack: one of an error object's, or the frames of a saved report for it. */
typedef struct element {
    uint32_t begin, end; /* in the stack */
} element;

/* The frames of one element. */
typedef struct contents {
    const printer *p;
    uint32_t outward; /* of the next element outward */
    uint32_t frames;
    uint32_t shown;
    bool lineless, replaced;
    uint32_t wanted;    /* print only this one; UINT32_MAX: none */
    bool all_shown;     /* it is known that none is hidden */
    uint32_t uncounted; /* of those that are not shown: gaps, inlined functions */
    bool start_up;      /* in the C library's start-up code */
    uint64_t place;     /* of a script frame in its own look, else 0 */
    stacksplice_told_locals locals;
} contents;

/* A native frame that a script frame called. */
typedef struct called {
    const printer *p;
    const ss_shown_frame *shown;
} called;

/* In a saved report, inlined frames and the function that contains them form one element. */
static element element_at(const ss_shown_stack *stack, uint32_t begin)
{
    element e = {begin, begin + 1};

    while (stack->frames && e.end < stack->count && stack->frames[e.end - 1].frame.inlined)
        e.end++;
    return e;
}

static element element_before(const ss_shown_stack *stack, uint32_t end)
{
    element e = {end - 1, end};

    while (stack->frames && e.begin && stack->frames[e.begin - 1].frame.inlined)
        e.begin--;
    return e;
}

static uintptr_t address_of(const ss_shown_stack *stack, element e)
{
    return stack->frames ? stack->frames[e.begin].frame.address : stack->elements[e.begin];
}

static int print_called(const ss_frame *caller, void *data)
{
    const called *of = data;

    ss_report_frame(of->p->r, of->shown, &caller->frame, of->p->indent);
    return 1;
}

static void print_frame(const contents *c, const ss_shown_frame *shown)
{
    const printer *p = c->p;
    const ss_shown_stack *stack = &p->stack;
    bool is_called = shown->frame->kind == STACKSPLICE_FRAME_NATIVE && !shown->frame->inlined &&
                     c->outward < stack->count;
    called of = {p, shown};

    if (is_called && !stack->frames && ss_token_is_script(stack->elements[c->outward]))
        ss_report_resolve(p->r, stack->elements[c->outward], print_called, &of);
    else
        ss_report_frame(p->r, shown,
                        is_called && stack->frames ? &stack->frames[c->outward].frame : NULL,
                        p->indent);
}

static void count_frame(contents *c, const ss_shown_frame *shown)
{
    bool counted;

    if (shown->frame->kind == STACKSPLICE_FRAME_SCRIPT &&
        ss_report_has_own_look(c->p->r, shown->frame))
        c->place = ss_report_place(shown->frame);
    if (ss_report_shows(c->p->r, shown->frame, shown->glue || c->start_up, &counted)) {
        c->shown++;
        if (c->wanted == c->frames)
            print_frame(c, shown);
    } else if (!counted || shown->frame->inlined) {
        c->uncounted++;
    }
    c->frames++;
}

static int visit(const ss_frame *f, void *data)
{
    contents *c = data;
    const ss_shown_frame shown = {&f->frame, !c->all_shown && ss_report_is_glue(c->p->r, f), NULL,
                                  c->locals};

    c->replaced |= !shown.glue && f->replaced;
    c->lineless |= !shown.glue && f->frame.kind == STACKSPLICE_FRAME_NATIVE && f->frame.module &&
                   !f->frame.file;
    count_frame(c, &shown);
    return 0;
}

static contents look_at(const printer *p, element e, uint32_t wanted, bool all_shown)
{
    contents c = {.p = p,
                  .outward = e.end,
                  .wanted = wanted,
                  .all_shown = all_shown,
                  .start_up = e.begin >= p->folds.start_up,
                  .locals = ss_locals_of(p->stack.locals, e.begin)};

    if (!p->stack.frames)
        ss_report_resolve_shown(p->r, p->stack.elements[e.begin], visit, &c);
    for (uint32_t i = e.begin; p->stack.frames && i < e.end; i++) {
        const stacksplice_told_frame *told = &p->stack.frames[i];
        const ss_shown_frame shown = {&told->frame, told->glue != 0, told, told->locals};

        count_frame(&c, &shown);
    }
    return c;
}

static void put_indent(const printer *p)
{
    for (unsigned i = 0; i < p->indent; i++)
        ss_writer_put(p->r->w, " ", 1);
}

static void put_line(const printer *p, const char *before, uint64_t count, const char *after)
{
    put_indent(p);
    ss_writer_text(p->r->w, before);
    ss_writer_decimal(p->r->w, count);
    ss_writer_text(p->r->w, after);
}

static void end_repeats(printer *p)
{
    uint32_t more = p->equal > SS_REPORT_EQUAL_MAX ? p->equal - SS_REPORT_EQUAL_MAX : 0;

    if (more)
        put_line(p, p->is_line ? "[Previous line repeated " : "[Previous frame repeated ", more,
                 more == 1 ? " more time]\n" : " more times]\n");
    p->equal = 0;
}

static void print_element(printer *p, element e)
{
    contents c = look_at(p, e, UINT32_MAX, false);
    uint64_t key = c.place ? c.place : address_of(&p->stack, e);
    uint32_t count = c.frames;

    p->hidden += c.frames - c.shown - c.uncounted;
    p->lineless |= c.lineless;
    p->replaced |= c.replaced;
    if (!c.shown)
        return;
    if (key != p->last)
        end_repeats(p);
    p->last = key;
    p->is_line = c.place != 0;
    if (++p->equal > SS_REPORT_EQUAL_MAX)
        return;
    for (uint32_t i = 0; i < count; i++)
        (void)look_at(p, e, p->r->order == STACKSPLICE_ORDER_NEWEST_LAST ? count - 1 - i : i,
                      c.shown == count);
}

/* How many frames the elements from BEGIN on stand for, including omitted ones. */
static uint64_t count_frames(const ss_shown_stack *stack, uint32_t begin)
{
    uint64_t count = 0;

    while (begin < stack->count) {
        element e = element_at(stack, begin);

        count += ss_left_out_count(address_of(stack, e));
        begin = e.end;
    }
    return count;
}

/* Write how many frames outside of those shown are of a program that called the user's code. */
static void put_shell(const printer *p)
{
    if (!p->folds.shell_is)
        return;
    put_line(p, "... ", count_frames(&p->stack, p->folds.shell), " frames of ");
    ss_writer_text(p->r->w, p->folds.shell_is);
    ss_writer_text(p->r->w, " hidden\n");
}

/* Say why lines are missing, if the machine and not a binary is the reason. */
static void put_missing(const printer *p)
{
    const char *reason = stacksplice_lines_missing();

    if (!reason)
        return;
    put_indent(p);
    ss_writer_text(p->r->w, "... no files and lines of C frames: ");
    ss_writer_text(p->r->w, reason);
    ss_writer_text(p->r->w, "\n");
}

static void put_replaced(const printer *p)
{
    ss_source *report = p->r->source;

    if (report && report->has_told_of_binaries)
        return;
    if (report)
        report->has_told_of_binaries = true;
    put_indent(p);
    ss_writer_text(p->r->w, "... no files and lines of C frames in binaries that were replaced on "
                            "disk since they were loaded\n");
}

/* Say why lines of source are missing, once in a report. */
static void put_refused(const printer *p)
{
    ss_source *source = p->r->source;
    const char *reason = source && !source->has_told ? ss_why_no_lines(source) : NULL;

    if (!reason)
        return;
    source->has_told = true;
    put_indent(p);
    ss_writer_text(p->r->w, "... ");
    ss_writer_text(p->r->w, reason);
    ss_writer_text(p->r->w, "\n");
}

bool ss_report_stack_shows(const ss_report *r, ss_shown_stack stack)
{
    const printer p = {.r = r, .stack = stack, .folds = ss_report_folds(r, stack)};

    for (uint32_t at = 0; at < p.folds.shell;) {
        element e = element_at(&stack, at);

        if (look_at(&p, e, UINT32_MAX, false).shown)
            return true;
        at = e.end;
    }
    return p.folds.shell_is != NULL;
}

void ss_report_stack(const ss_report *r, ss_shown_stack stack, unsigned indent)
{
    printer p = {.r = r, .stack = stack, .indent = indent, .folds = ss_report_folds(r, stack)};
    uint32_t end = p.folds.shell;
    bool last = r->order == STACKSPLICE_ORDER_NEWEST_LAST;
    element e = {0, 0};

    ss_report_dates(r, stack);
    if (last)
        put_shell(&p);
    for (uint32_t at = last ? end : 0; at != (last ? 0 : end) && !r->w->failed;) {
        e = last ? element_before(&stack, at) : element_at(&stack, at);
        print_element(&p, e);
        at = last ? e.begin : e.end;
    }
    end_repeats(&p);
    if (!last)
        put_shell(&p);
    if (p.hidden)
        put_line(&p, "... ", p.hidden,
                 p.hidden == 1 ? " glue frame hidden\n" : " glue frames hidden\n");
    if (p.lineless && !r->failfast)
        put_missing(&p);
    if (p.replaced)
        put_replaced(&p);
    put_refused(&p);
}
