/* The report for people of one error, without its causes; docs/reports.md describes it. */
#include "report/report.h"

#include <string.h>

static void put_code(ss_writer *w, HRESULT hr)
{
    ss_writer_text(w, "0x");
    ss_writer_hex(w, (uint32_t)hr, 8);
}

/* "ValueError: bad amount 'x' (0x80070057)" */
static void put_title(const ss_report *r, const ss_facts *facts)
{
    ss_writer *w = r->w;

    if (facts->type) {
        ss_writer_text(w, r->color ? "\033[1;35m" : "");
        ss_writer_utf8(w, facts->type, strlen(facts->type), SS_ESCAPE_LINE);
        ss_writer_text(w, r->color ? "\033[0m" : "");
        if (!facts->message || facts->message_length)
            ss_writer_text(w, ": ");
    }
    ss_writer_text(w, r->color ? "\033[35m" : "");
    if (!ss_facts_write_message(facts, w, SS_ESCAPE_TEXT) && !facts->type)
        ss_writer_text(w, "error");
    ss_writer_text(w, r->color ? "\033[0m" : "");
    ss_writer_text(w, " (");
    put_code(w, facts->view.hresult);
    ss_writer_text(w, ")\n");
}

/* "HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect." */
static void put_hresult(const ss_report *r, const ss_facts *facts)
{
    const char *symbol = ss_hresult_symbol(facts->view.hresult);

    if (!symbol && !ss_facts_has_own_message(facts))
        return; /* the title has said it all */
    ss_writer_text(r->w, "HRESULT ");
    put_code(r->w, facts->view.hresult);
    if (symbol) {
        ss_writer_text(r->w, " ");
        ss_writer_text(r->w, symbol);
    }
    ss_writer_text(r->w, ": ");
    (void)ss_facts_write_description(facts, r->w, SS_ESCAPE_LINE);
    ss_writer_text(r->w, "\n");
}

static int put_note(const char *text, size_t length, void *data)
{
    ss_writer *w = data;

    ss_writer_utf8(w, text, length, SS_ESCAPE_TEXT);
    ss_writer_text(w, "\n");
    return w->failed;
}

static void put_stack(const ss_report *r, const ss_facts *facts)
{
    bool last = r->order == STACKSPLICE_ORDER_NEWEST_LAST;
    const ss_error_view *view = &facts->view;

    if (last && facts->error && stacksplice_error_group(facts->error, NULL, NULL) == S_OK)
        ss_writer_text(r->w, "Exception Group ");
    ss_writer_text(r->w, last ? "Traceback for thread " : "Stack of thread ");
    ss_writer_decimal(r->w, view->thread_id);
    ss_writer_text(r->w, last ? " (most recent call last):\n" : " (most recent call first):\n");
    ss_report_stack(r, view->frames, view->frame_count, view->frames_left_out, 4, false);
}

typedef struct chain {
    const ss_report *r;
    uint32_t count;
} chain;

static bool put_node(const ss_error_view *node, void *data)
{
    chain *c = data;
    ss_writer *w = c->r->w;

    if (!c->count++)
        ss_writer_text(w, "Propagation:\n");
    ss_writer_text(w, "  ");
    ss_writer_decimal(w, c->count);
    ss_writer_text(w, ". received by ");
    ss_writer_utf8(w, node->receiver, strlen(node->receiver), SS_ESCAPE_LINE);
    ss_writer_text(w, " on thread ");
    ss_writer_decimal(w, node->thread_id);
    ss_writer_text(w, node->frame_count ? " at:\n" : "\n");
    ss_report_stack(c->r, node->frames, node->frame_count, node->frames_left_out, 8,
                    !c->r->all_frames);
    return !w->failed;
}

static void put_head(const ss_report *r, const ss_facts *facts)
{
    put_title(r, facts);
    if (ss_facts_has_chain(facts))
        (void)stacksplice_error_notes(facts->error, put_note, r->w);
    put_hresult(r, facts);
}

void ss_report_text_alone(const ss_report *r, const ss_facts *facts)
{
    chain c = {r, 0};

    if (r->order == STACKSPLICE_ORDER_NEWEST_LAST) {
        put_stack(r, facts);
        put_head(r, facts);
    } else {
        put_head(r, facts);
        put_stack(r, facts);
    }
    if (ss_facts_has_chain(facts))
        ss_error_each_node(facts->error, put_node, &c);
}
