/* The report for programs, schema "stacksplice-error/1"; docs/reports.md describes it. */
#include "report/report.h"

#include "report/json.h"

typedef struct json_report {
    const ss_report *r;
    ss_json j;
} json_report;

static const char *kind_name(stacksplice_frame_kind kind)
{
    static const char *const kinds[] = {"native", "script", "gap"};

    return kinds[kind - STACKSPLICE_FRAME_NATIVE];
}

static const char *trust_name(stacksplice_trust trust)
{
    static const char *const trusts[] = {"exact", "inferred", "traceback"};

    return trusts[trust - STACKSPLICE_TRUST_EXACT];
}

static void put_known(ss_json *j, const char *key, const char *text)
{
    if (text)
        ss_json_text(j, key, text);
}

static void put_number(ss_json *j, const char *key, uint32_t value)
{
    if (value)
        ss_json_unsigned(j, key, value);
}

static int put_frame(const ss_frame *f, void *data)
{
    const stacksplice_frame *frame = &f->frame;
    json_report *report = data;
    ss_json *j = &report->j;

    ss_json_open(j, NULL, '{');
    ss_json_text(j, "kind", kind_name(frame->kind));
    ss_json_text(j, "trust", trust_name(frame->trust));
    ss_json_text(j, "language", frame->language);
    put_known(j, "function", frame->function);
    put_known(j, "file", frame->file);
    put_number(j, "line", frame->line);
    put_number(j, "end_line", frame->end_line);
    put_number(j, "column", frame->column);
    put_number(j, "end_column", frame->end_column);
    if (frame->module) {
        ss_json_text(j, "module", frame->module);
        ss_json_unsigned(j, "module_offset", frame->module_offset);
    }
    put_known(j, "build_id", frame->build_id);
    if (frame->kind == STACKSPLICE_FRAME_NATIVE)
        ss_json_bool(j, "inlined", frame->inlined);
    put_known(j, "reason", frame->reason);
    put_known(j, "interpreter", frame->interpreter);
    ss_json_hex(j, "address", frame->address, 1);
    ss_json_close(j, '}');
    return 0;
}

static void put_stack(json_report *report, const ss_error_view *view)
{
    ss_json_open(&report->j, "stack", '[');
    for (uint32_t i = 0; i < view->frame_count && !report->r->w->failed; i++)
        ss_report_resolve(report->r, view->frames[i], put_frame, report);
    ss_json_close(&report->j, ']');
    ss_json_unsigned(&report->j, "frames_left_out", view->frames_left_out);
}

static bool put_node(const ss_error_view *node, void *data)
{
    json_report *report = data;

    ss_json_open(&report->j, NULL, '{');
    ss_json_text(&report->j, "language", ss_stack_language(node->frames, node->frame_count));
    ss_json_unsigned(&report->j, "thread_id", node->thread_id);
    put_stack(report, node);
    ss_json_close(&report->j, '}');
    return !report->r->w->failed;
}

static void put_reference(ss_json *j, const WCHAR *reference)
{
    size_t length = 0;

    if (!*reference) {
        ss_json_text(j, "reference", NULL);
        return;
    }
    while (reference[length])
        length++;
    ss_json_begin_string(j, "reference");
    ss_writer_utf16(j->w, reference, length, SS_ESCAPE_JSON);
    ss_json_end_string(j);
}

static void put_texts(ss_json *j, const ss_facts *facts)
{
    ss_json_hex(j, "hresult", (uint32_t)facts->view.hresult, 8);
    ss_json_signed(j, "hresult_signed", facts->view.hresult);
    put_known(j, "symbol", ss_hresult_symbol(facts->view.hresult));
    ss_json_begin_string(j, "description");
    (void)ss_facts_write_description(facts, j->w, SS_ESCAPE_JSON);
    ss_json_end_string(j);
    ss_json_begin_string(j, "message");
    (void)ss_facts_write_message(facts, j->w, SS_ESCAPE_JSON);
    ss_json_end_string(j);
    ss_json_text(j, "type", facts->type);
    ss_json_text(j, "language", facts->language);
}

/* The members of one error but those it was made from. */
static void put_error(json_report *report, const ss_facts *facts)
{
    ss_json *j = &report->j;
    char fingerprint[33];

    put_texts(j, facts);
    ss_json_unsigned(j, "thread_id", facts->view.thread_id);
    put_reference(j, facts->view.reference);
    ss_report_fingerprint(report->r, facts, fingerprint);
    ss_json_text(j, "fingerprint", fingerprint);
    put_stack(report, &facts->view);
    ss_json_open(j, "propagation", '[');
    if (ss_facts_has_chain(facts))
        ss_error_each_node(facts->error, put_node, report);
    ss_json_close(j, ']');
}

static void put_causes(json_report *report, IUnknown *error)
{
    ss_causes causes;
    IUnknown *next;

    ss_causes_begin(&causes, error);
    while (!report->r->w->failed && (next = ss_causes_next(&causes)) != NULL) {
        ss_facts cause;

        if (!ss_facts_get(next, &cause))
            return;
        ss_json_open(&report->j, NULL, '{');
        put_error(report, &cause);
        ss_json_close(&report->j, '}');
        ss_facts_release(&cause);
    }
}

void ss_report_json(const ss_report *r, const ss_facts *facts, bool alone)
{
    json_report report = {r, {r->w, false}};
    ss_json *j = &report.j;

    ss_json_open(j, NULL, '{');
    if (alone)
        ss_json_text(j, "schema", "stacksplice-error/1");
    put_error(&report, facts);
    ss_json_open(j, "transformed", '[');
    if (ss_facts_has_chain(facts))
        put_causes(&report, facts->error);
    ss_json_close(j, ']');
    ss_json_close(j, '}');
    if (alone)
        ss_writer_text(r->w, "\n");
}
