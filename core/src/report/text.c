/* The text report of one error, without its causes; docs/reports.md describes it. */
#include "report/report.h"

#include <stacksplice/script.h>

#include <string.h>

static void put_place(const ss_report *r, const char *place)
{
    if (!place)
        return;
    ss_writer_text(r->w, " ");
    ss_report_put(r, place, STACKSPLICE_TEXT_MESSAGE);
}

static void put_stack(const ss_report *r, const ss_facts *facts)
{
    const char *place = facts->told && !facts->error ? facts->told->place : NULL;
    ss_locals locals;

    if (!ss_facts_stack(facts).count)
        return;
    ss_writer_text(r->w, "Stack of thread ");
    ss_writer_decimal(r->w, facts->view.thread_id);
    put_place(r, place);
    ss_writer_text(r->w, " (most recent call first):\n");
    ss_report_stack(r, ss_report_stack_of(r, facts, &locals), 4);
    ss_locals_end(&locals);
}

/* As scripts' tracebacks are, which have no header without a frame. */
static void put_traceback(const ss_report *r, const ss_facts *facts)
{
    const char *place = facts->told && !facts->error ? facts->told->place : NULL;
    uint32_t members, left_out;
    ss_locals locals;

    if (!ss_report_stack_shows(r, ss_facts_stack(facts)))
        return;
    if (ss_facts_group(facts, &members, &left_out))
        ss_writer_text(r->w, "Exception Group ");
    ss_writer_text(r->w, "Traceback");
    if (r->all_frames) {
        ss_writer_text(r->w, " for thread ");
        ss_writer_decimal(r->w, facts->view.thread_id);
    }
    put_place(r, place);
    ss_writer_text(r->w, " (most recent call last):\n");
    ss_report_stack(r, ss_report_stack_of(r, facts, &locals), 2);
    ss_locals_end(&locals);
}

/* ---- Propagation -----------------------------------------------------------------------------*/

typedef struct chain {
    const ss_report *r;
    uint64_t thread_id; /* of the error */
    uint32_t count;
} chain;

/* Brief: one line, "1. received by NAME at convert (bridge.c:73)". */
static bool put_node(const char *receiver, uint64_t thread_id, ss_shown_stack stack, void *data)
{
    chain *c = data;
    ss_writer *w = c->r->w;
    bool whole = c->r->all_frames;

    if (!c->count++)
        ss_writer_text(w, "Propagation:\n");
    ss_writer_text(w, "  ");
    ss_writer_decimal(w, c->count);
    ss_writer_text(w, ". received by ");
    ss_writer_utf8(w, receiver, strlen(receiver), SS_ESCAPE_LINE);
    if (!whole)
        ss_report_where(c->r, stack);
    if (whole || thread_id != c->thread_id) {
        ss_writer_text(w, " on thread ");
        ss_writer_decimal(w, thread_id);
    }
    ss_writer_text(w, whole && stack.count ? " at:\n" : "\n");
    if (whole)
        ss_report_stack(c->r, stack, 8);
    return !w->failed;
}

static void put_nodes(const ss_report *r, const ss_facts *facts)
{
    chain c = {r, facts->view.thread_id, 0};

    ss_facts_each_node(facts, put_node, &c);
}

void ss_report_bare(const ss_report *r, const ss_facts *facts)
{
    ss_report bare = *r;
    ss_locals locals;

    bare.bare = true;
    ss_report_stack(&bare, ss_report_stack_of(r, facts, &locals), 2);
    ss_locals_end(&locals);
    put_nodes(r, facts);
    ss_report_hresult(r, facts);
}

/* ---- The error -------------------------------------------------------------------------------*/

/* Write lines that a caller has formatted. */
static void put_lines(const ss_report *r, stacksplice_told_text text)
{
    const ss_text all = {text.text ? text.text : "", NULL, text.text ? text.length : 0};
    ss_redacted rest;

    ss_redacted_begin(&rest, all, STACKSPLICE_TEXT_MESSAGE, r->failfast != NULL);
    while (!ss_redacted_is_done(&rest)) {
        ss_redacted_line(&rest, r->w, SS_ESCAPE_TABS);
        ss_writer_text(r->w, "\n");
    }
    ss_redacted_end(&rest);
}

static void put_told(const ss_report *r, const ss_facts *facts)
{
    if (r->order == STACKSPLICE_ORDER_NEWEST_LAST) {
        put_traceback(r, facts);
        put_nodes(r, facts);
        ss_report_title(r, facts);
    } else {
        ss_report_title(r, facts);
        put_stack(r, facts);
        put_nodes(r, facts);
    }
}

void ss_report_text_alone(const ss_report *r, const ss_facts *facts)
{
    const stacksplice_told *told = facts->told;

    if (told && told->text.text)
        put_lines(r, told->text);
    else
        put_told(r, facts);
    if (told)
        put_lines(r, told->passed);
}
