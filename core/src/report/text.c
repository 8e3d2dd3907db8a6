/* The text report of one error, without its causes; docs/reports.md describes it. */
#include "report/report.h"

#include <stacksplice/script.h>

#include <string.h>

static void put_code(ss_writer *w, HRESULT hr)
{
    ss_writer_text(w, "0x");
    ss_writer_hex(w, (uint32_t)hr, 8);
}

/* Write further lines of an error's text so that none can pose as a line of the report. */
static void put_further_lines(const ss_report *r, ss_text rest, const char *color)
{
    ss_text line;

    while (ss_text_next_line(&rest, &line) && !r->w->failed) {
        ss_writer_text(r->w, line.length ? "| " : "|");
        ss_writer_text(r->w, r->color ? color : "");
        ss_text_write(line, r->w, SS_ESCAPE_TABS);
        ss_writer_text(r->w, r->color && *color ? "\033[0m\n" : "\n");
    }
}

/* "ValueError: bad amount 'x' (0x80070057)"; the code ends the first line of a longer message. */
static void put_title(const ss_report *r, const ss_facts *facts)
{
    ss_text rest = ss_facts_message(facts), line = rest;
    bool any = ss_text_next_line(&rest, &line);
    ss_writer *w = r->w;

    if (facts->type) {
        ss_writer_text(w, r->color ? "\033[1;35m" : "");
        ss_writer_utf8(w, facts->type, strlen(facts->type), SS_ESCAPE_LINE);
        ss_writer_text(w, r->color ? "\033[0m" : "");
        ss_writer_text(w, any ? ": " : "");
    }
    ss_writer_text(w, r->color ? "\033[35m" : "");
    if (any)
        ss_text_write(line, w, SS_ESCAPE_TABS);
    else if (!facts->type)
        ss_writer_text(w, "error");
    ss_writer_text(w, r->color ? "\033[0m" : "");
    ss_writer_text(w, " (");
    put_code(w, facts->view.hresult);
    ss_writer_text(w, ")\n");
    put_further_lines(r, rest, "\033[35m");
}

/* "HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect." */
static void put_hresult(const ss_report *r, const ss_facts *facts)
{
    const char *symbol = ss_hresult_symbol(facts->view.hresult);

    if (!symbol && !ss_facts_has_own_message(facts))
        return; /* the title already has it */
    ss_writer_text(r->w, "HRESULT ");
    put_code(r->w, facts->view.hresult);
    if (symbol) {
        ss_writer_text(r->w, " ");
        ss_writer_text(r->w, symbol);
    }
    ss_writer_text(r->w, ": ");
    ss_text_write(ss_facts_description(facts), r->w, SS_ESCAPE_LINE);
    ss_writer_text(r->w, "\n");
}

/* "note: while loading rates.csv" */
static int put_note(const char *text, size_t length, void *data)
{
    const ss_report *r = data;
    ss_text rest = {text, NULL, length}, line = {"", NULL, 0};

    (void)ss_text_next_line(&rest, &line);
    ss_writer_text(r->w, "note: ");
    ss_text_write(line, r->w, SS_ESCAPE_TABS);
    ss_writer_text(r->w, "\n");
    put_further_lines(r, rest, "");
    return r->w->failed;
}

static void put_stack(const ss_report *r, const ss_facts *facts)
{
    bool last = r->order == STACKSPLICE_ORDER_NEWEST_LAST;
    const char *place = facts->told && !facts->error ? facts->told->place : NULL;
    uint32_t members, left_out;

    if (last && ss_facts_group(facts, &members, &left_out))
        ss_writer_text(r->w, "Exception Group ");
    ss_writer_text(r->w, last ? "Traceback for thread " : "Stack of thread ");
    ss_writer_decimal(r->w, facts->view.thread_id);
    if (place) {
        ss_writer_text(r->w, " ");
        ss_writer_utf8(r->w, place, strlen(place), SS_ESCAPE_LINE);
    }
    ss_writer_text(r->w, last ? " (most recent call last):\n" : " (most recent call first):\n");
    ss_report_stack(r, ss_facts_stack(facts), 4, false);
}

typedef struct chain {
    const ss_report *r;
    uint32_t count;
} chain;

static bool put_node(const char *receiver, uint64_t thread_id, ss_shown_stack stack, void *data)
{
    chain *c = data;
    ss_writer *w = c->r->w;

    if (!c->count++)
        ss_writer_text(w, "Propagation:\n");
    ss_writer_text(w, "  ");
    ss_writer_decimal(w, c->count);
    ss_writer_text(w, ". received by ");
    ss_writer_utf8(w, receiver, strlen(receiver), SS_ESCAPE_LINE);
    ss_writer_text(w, " on thread ");
    ss_writer_decimal(w, thread_id);
    ss_writer_text(w, stack.count ? " at:\n" : "\n");
    ss_report_stack(c->r, stack, 8, !c->r->all_frames);
    return !w->failed;
}

static void put_head(const ss_report *r, const ss_facts *facts)
{
    put_title(r, facts);
    ss_facts_each_note(facts, put_note, (void *)(uintptr_t)r);
    put_hresult(r, facts);
}

/* Write lines that a caller has formatted. */
static void put_lines(const ss_report *r, stacksplice_told_text text)
{
    ss_text rest = {text.text, NULL, text.length}, line;

    while (text.text && ss_text_next_line(&rest, &line)) {
        ss_text_write(line, r->w, SS_ESCAPE_TABS);
        ss_writer_text(r->w, "\n");
    }
}

static void put_told(const ss_report *r, const ss_facts *facts)
{
    chain c = {r, 0};

    if (r->order == STACKSPLICE_ORDER_NEWEST_LAST) {
        put_stack(r, facts);
        put_head(r, facts);
    } else {
        put_head(r, facts);
        put_stack(r, facts);
    }
    ss_facts_each_node(facts, put_node, &c);
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
