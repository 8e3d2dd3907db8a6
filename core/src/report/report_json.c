/* The report for programs, schema "stacksplice-error/1"; docs/reports.md describes it. */
#include "report/report.h"

#include "resolve/glue.h"
#include "report/json.h"
#include "resolve/room.h"

typedef struct json_report {
    const ss_report *r;
    ss_json j;
    uint32_t errors; /* so far */
    uint32_t level;  /* of groups in groups */
    ss_seen around;  /* the errors that this one is in, and those it is the cause of */
} json_report;

static void put_object(json_report *report, const ss_facts *facts, const char *relation);

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

/* The line that texts show below the frame: who reads the report later must not look for it. */
static void put_source(json_report *report, const stacksplice_frame *frame)
{
    char line[SS_SOURCE_LINE_MAX];
    size_t length = ss_report_source(report->r, frame, line);

    if (!length)
        return;
    ss_json_begin_string(&report->j, "source");
    ss_writer_utf8(report->r->w, line, length, SS_ESCAPE_JSON);
    ss_json_end_string(&report->j);
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
    if (frame->function && frame->function_offset)
        ss_json_unsigned(j, "function_offset", frame->function_offset);
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
    if (ss_glue_is(f))
        ss_json_bool(j, "glue", true);
    put_known(j, "reason", frame->reason);
    if (frame->asynchronous)
        ss_json_bool(j, "asynchronous", true);
    put_known(j, "interpreter", frame->interpreter);
    put_source(report, frame);
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
    ss_json_text(&report->j, "language", node->receiver);
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
    ss_text_write(ss_facts_description(facts), j->w, SS_ESCAPE_JSON);
    ss_json_end_string(j);
    ss_json_begin_string(j, "message");
    ss_text_write(ss_facts_message(facts), j->w, SS_ESCAPE_JSON);
    ss_json_end_string(j);
    ss_json_text(j, "type", facts->type);
    ss_json_text(j, "language", facts->language);
}

static int put_note(const char *text, size_t length, void *data)
{
    ss_json *j = data;

    ss_json_begin_string(j, NULL);
    ss_writer_utf8(j->w, text, length, SS_ESCAPE_JSON);
    ss_json_end_string(j);
    return j->w->failed;
}

static void put_notes(ss_json *j, const ss_facts *facts)
{
    ss_json_open(j, "notes", '[');
    if (ss_facts_has_chain(facts))
        (void)stacksplice_error_notes(facts->error, put_note, j);
    ss_json_close(j, ']');
}

/* The members of one error but the errors that belong to it. */
static void put_error(json_report *report, const ss_facts *facts)
{
    ss_json *j = &report->j;
    char fingerprint[33];

    put_texts(j, facts);
    put_notes(j, facts);
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

/* False when there is no more room in this report, or it is one that this is in. */
static bool may_put(const json_report *report, const ss_facts *facts)
{
    return report->errors < SS_REPORT_ERRORS_MAX && !ss_seen_has(&report->around, facts);
}

/* False when it is left out. */
static bool put_member(json_report *report, IUnknown *group, uint32_t index)
{
    IRestrictedErrorInfo *member = NULL;
    bool put = false;
    ss_facts facts;

    if (stacksplice_error_member(group, index, &member) != S_OK)
        return false;
    if (ss_facts_get((IUnknown *)(void *)member, &facts)) {
        put = may_put(report, &facts);
        if (put)
            put_object(report, &facts, NULL);
        ss_facts_release(&facts);
    }
    member->lpVtbl->Release(member);
    return put;
}

static bool may_nest(const json_report *report)
{
    return report->level <= SS_REPORT_LEVELS_MAX && ss_room_for_error();
}

static void put_members(json_report *report, const ss_facts *facts)
{
    uint32_t members = 0, left_out = 0;
    ss_json *j = &report->j;

    if (!ss_facts_has_chain(facts) ||
        stacksplice_error_group(facts->error, &members, &left_out) != S_OK) {
        ss_json_text(j, "exceptions", NULL);
    } else {
        ss_json_open(j, "exceptions", '[');
        report->level++;
        for (uint32_t i = 0; i < members && !j->w->failed; i++) {
            if (!may_nest(report) || !put_member(report, facts->error, i))
                left_out++;
        }
        report->level--;
        ss_json_close(j, ']');
    }
    ss_json_unsigned(j, "exceptions_left_out", left_out);
}

/* The errors behind the one of FACTS, which its own JSON object or list has been opened for. */
static void put_causes(json_report *report, const ss_facts *facts)
{
    stacksplice_relation relation = facts->view.relation;
    uint32_t left_out = facts->view.causes_left_out, before = report->around.count;
    IUnknown *next = ss_facts_has_chain(facts) ? ss_error_previous(facts->error) : NULL;
    const char *above = NULL;
    ss_facts cause;

    ss_json_open(&report->j, "transformed", '[');
    while (next && !report->r->w->failed && ss_facts_get(next, &cause)) {
        const char *name = relation == STACKSPLICE_RELATION_CONTEXT ? "context" : "cause";
        bool put = may_put(report, &cause);

        above = ss_seen_has(&report->around, &cause) ? name : NULL;
        if (put)
            put_object(report, &cause, name);
        else
            left_out = !above;
        (void)ss_seen_add(&report->around, &cause);
        if (put)
            left_out = cause.view.causes_left_out;
        relation = cause.view.relation;
        next = put ? ss_error_previous(next) : NULL;
        ss_facts_release(&cause);
    }
    ss_json_close(&report->j, ']');
    ss_json_unsigned(&report->j, "transformed_left_out", left_out);
    ss_json_text(&report->j, "transformed_above", above);
    report->around.count = before;
}

/* RELATION: what the error is to the one that stands before it among the causes; NULL: it is none.
 */
static void put_object(json_report *report, const ss_facts *facts, const char *relation)
{
    uint32_t before = report->around.count;

    report->errors++;
    (void)ss_seen_add(&report->around, facts);
    ss_json_open(&report->j, NULL, '{');
    if (relation)
        ss_json_text(&report->j, "relation", relation);
    put_error(report, facts);
    put_members(report, facts);
    if (!relation) /* else they are in the list that this one is in */
        put_causes(report, facts);
    ss_json_close(&report->j, '}');
    report->around.count = before;
}

void ss_report_json(const ss_report *r, const ss_facts *facts, bool alone)
{
    json_report report = {.r = r, .j = {r->w, false}, .errors = 1};
    ss_json *j = &report.j;

    (void)ss_seen_add(&report.around, facts);
    ss_json_open(j, NULL, '{');
    if (alone)
        ss_json_text(j, "schema", "stacksplice-error/1");
    put_error(&report, facts);
    put_members(&report, facts);
    put_causes(&report, facts);
    ss_json_close(j, '}');
    if (alone)
        ss_writer_text(r->w, "\n");
}
