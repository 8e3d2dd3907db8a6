/* The walk over one error, schema "stacksplice-error/1"; docs/reference/json.md describes it. */
#include "report/visit.h"

#include "splice/source.h"
#include "splice/unloaded.h"

#include <stddef.h>
#include <string.h>

/* ---- The fields of a frame -------------------------------------------------------------------*/

#define FRAME(member) offsetof(stacksplice_document_frame, frame.member)

/* In the order of reports. */
const ss_field ss_frame_fields[SS_FRAME_FIELDS] = {
    {"kind", SS_FIELD_KIND, SS_RULE_ALWAYS, FRAME(kind)},
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

static bool can_have(const stacksplice_frame *frame, ss_field_rule rule)
{
    switch (rule) {
    case SS_RULE_OF_NATIVE:
        return frame->kind == STACKSPLICE_FRAME_NATIVE;
    case SS_RULE_WITH_FUNCTION:
        return frame->function != NULL;
    case SS_RULE_WITH_MODULE:
        return frame->module != NULL;
    default:
        return true;
    }
}

/*
 * Whether a brief report leaves F out.  A frame without these is one of a script, was read or recorded, and has no
 * address by which somebody could look it up.
 */
static bool is_understood(const ss_field *f, const stacksplice_frame *frame)
{
    return (f->type == SS_FIELD_KIND && frame->kind == STACKSPLICE_FRAME_SCRIPT) ||
           (f->type == SS_FIELD_TRUST && frame->trust != STACKSPLICE_TRUST_INFERRED) ||
           (f->type == SS_FIELD_ADDRESS && !frame->address);
}

/* A number or a flag that is 0 is left out, unless it counts ALWAYS. */
static void emit_field(ss_emit *e, const ss_field *f, const void *at, bool always)
{
    const stacksplice_document_text *line = at;
    uint64_t number;
    uint32_t small;

    memcpy(&small, at, sizeof small); /* of all that are numbers but one */
    number = f->type == SS_FIELD_OFFSET ? *(const uint64_t *)at : small;
    switch (f->type) {
    case SS_FIELD_KIND:
        ss_emit_text(e, f->key, ss_kinds[number - 1]);
        break;
    case SS_FIELD_TRUST:
        ss_emit_text(e, f->key, ss_trusts[number - 1]);
        break;
    case SS_FIELD_TEXT:
        if (*(const char *const *)at)
            ss_emit_text(e, f->key, *(const char *const *)at);
        break;
    case SS_FIELD_STRING:
        if (line->length)
            ss_emit_utf8(e, f->key, line->text, line->length);
        break;
    case SS_FIELD_COUNT:
    case SS_FIELD_OFFSET:
        if (number || always)
            ss_emit_integer(e, f->key, (int64_t)number);
        break;
    case SS_FIELD_FLAG:
        if (number || always)
            ss_emit_boolean(e, f->key, number != 0);
        break;
    case SS_FIELD_ADDRESS:
        ss_emit_hex(e, f->key, *(const uintptr_t *)at, 1);
        break;
    default:
        ss_emit_locals(e, f->key, *(const stacksplice_document_locals *)at);
        break;
    }
}

static void emit_frame(ss_emit *e, const char *key, const stacksplice_document_frame *frame,
                       bool brief)
{
    ss_emit_begin(e, key, STACKSPLICE_OBJECT);
    for (const ss_field *f = ss_frame_fields; f < ss_frame_fields + SS_FRAME_FIELDS; f++) {
        bool always = f->rule == SS_RULE_OF_NATIVE || f->rule == SS_RULE_WITH_MODULE;

        if (can_have(&frame->frame, f->rule) && !(brief && is_understood(f, &frame->frame)))
            emit_field(e, f, (const char *)frame + f->at, always && !brief);
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
        (uint32_t)frame->kind - 1 >= SS_COUNT_OF(ss_kinds) || /* they begin at 1 */
        (uint32_t)frame->trust - 1 >= SS_COUNT_OF(ss_trusts))
        return E_INVALIDARG;
    saved.frame = *frame;
    saved.glue = stacksplice_frame_role(frame) == STACKSPLICE_ROLE_GLUE;
    emit_frame(&e, key, &saved, false);
    return e.stopped ? S_FALSE : S_OK;
}

/* ---- A stack ---------------------------------------------------------------------------------*/

/* Include the source line that texts show: a later reader of the report must not look for it. */
static void emit_shown(const ss_report *r, ss_emit *e, const ss_shown_frame *shown)
{
    char line[SS_SOURCE_LINE_MAX];
    stacksplice_document_frame frame = {*shown->frame, shown->glue, {line, 0}, 0, shown->locals};
    ss_text source = ss_report_source(r, shown, line, &frame.source_column);

    frame.source = (stacksplice_document_text){source.utf8, source.length};
    emit_frame(e, NULL, &frame, false);
}

static SS_NOINLINE void emit_element(const ss_report *r, ss_emit *e, const ss_shown_stack *stack,
                                     uint32_t at)
{
    ss_element found;

    ss_element_begin(&found, r, stack, at, false);
    for (uint32_t i = 0; i < found.count && !e->stopped; i++) {
        const ss_shown_frame shown = ss_element_at(&found, i);

        emit_shown(r, e, &shown);
    }
    ss_element_end(&found);
}

/* ---- A stack in brief -------------------------------------------------------------------------*/

typedef struct brief_stack {
    const ss_report *r;
    ss_emit *e;
    ss_shown_stack stack;
    uint32_t start_up; /* as in ss_folds */
    uint32_t hidden;   /* frames, so far */
    bool was_kept;     /* the element before */
    bool any;          /* a frame, and no gap, was kept */
} brief_stack;

/* A frame that nobody can look up later any better needs no place in its binary. */
static void emit_kept(const brief_stack *b, const ss_shown_frame *shown)
{
    stacksplice_document_frame kept = {.frame = *shown->frame, .glue = shown->glue};
    stacksplice_frame *f = &kept.frame;
    bool can_be_looked_up = f->kind == STACKSPLICE_FRAME_NATIVE && !(f->function && f->line);

    f->end_line = f->column = f->end_column = 0;
    if (!can_be_looked_up) {
        f->function_offset = f->module_offset = 0;
        f->build_id = NULL;
        f->address = 0;
    }
    if (!b->was_kept)
        f->calls = NULL; /* what it calls is not here */
    emit_frame(b->e, NULL, &kept, true);
}

/* Whether texts show a frame of E; all that it stands for go together, since some are inlined into others. */
static bool is_kept(const brief_stack *b, const ss_element *e)
{
    bool found = false;

    for (uint32_t i = 0; i < e->count && !found; i++) {
        const ss_shown_frame shown = ss_element_at(e, i);

        found = ss_report_shows(b->r, shown.frame, shown.glue || e->begin >= b->start_up);
    }
    return found;
}

/* Emit or count the frames of the element that AT is in; returns where the next one is. */
static SS_NOINLINE uint32_t emit_in_brief(brief_stack *b, uint32_t at)
{
    ss_element found;
    bool kept;

    ss_element_begin(&found, b->r, &b->stack, at, true);
    kept = is_kept(b, &found);
    for (uint32_t i = 0; kept && i < found.count && !b->e->stopped; i++) {
        const ss_shown_frame shown = ss_element_at(&found, i);

        emit_kept(b, &shown);
    }
    b->hidden += kept ? 0 : found.count;
    b->was_kept = kept;
    b->any |= kept && ss_element_at(&found, 0).frame->kind != STACKSPLICE_FRAME_GAP;
    ss_element_end(&found);
    return found.end;
}

/* The member "stack" alone.  FIRST: up to the first frame that texts show; returns how many it has hidden. */
static uint32_t emit_brief_stack(const ss_report *r, ss_emit *e, ss_shown_stack stack, bool first)
{
    brief_stack b = {.r = r,
                     .e = e,
                     .stack = stack,
                     .start_up = ss_report_folds(r, stack).start_up,
                     .was_kept = true};

    ss_emit_begin(e, "stack", STACKSPLICE_ARRAY);
    for (uint32_t at = 0; at < stack.count && !e->stopped && !(first && b.any);)
        at = emit_in_brief(&b, at);
    ss_emit_end(e, STACKSPLICE_ARRAY);
    return b.hidden;
}

/* ---- Stacks ----------------------------------------------------------------------------------*/

void ss_visit_stack(const ss_report *r, ss_emit *e, ss_shown_stack stack)
{
    ss_report_dates(r, stack);
    ss_emit_begin(e, "stack", STACKSPLICE_ARRAY);
    for (uint32_t i = 0; i < stack.count && !e->stopped; i++) {
        if (e->visitor->element)
            SS_EMIT(e, element, stack.elements[i]);
        else
            emit_element(r, e, &stack, i);
    }
    ss_emit_end(e, STACKSPLICE_ARRAY);
    ss_emit_integer(e, "frames_left_out", stack.left_out);
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
    ss_visit_stack(&r, &e,
                   (ss_shown_stack){.elements = frames,
                                    .count = count,
                                    .left_out = stacksplice_frames_left_out(frames, count)});
    ss_emit_end(&e, STACKSPLICE_OBJECT);
    return e.stopped ? S_FALSE : S_OK;
}

/* ---- Visit error -----------------------------------------------------------------------------*/

typedef struct walk {
    const ss_report *r;
    ss_emit *e;
    const char *schema; /* for the outermost error, until it is written; or NULL */
    bool brief;         /* what is empty, 0 or null is left out */
    bool is_alone;      /* there is no other error than the outermost */
    uint32_t parts;
    uint32_t errors; /* so far */
    uint32_t level;  /* of nested groups */
    ss_seen around;  /* the enclosing errors, and those it is the cause of */
} walk;

static void emit_error(walk *w, const char *key, const ss_facts *facts, const char *relation);

void ss_visit_text(ss_emit *e, const char *key, ss_text text)
{
    if (text.utf8)
        ss_emit_utf8(e, key, text.utf8, text.length);
    else
        ss_emit_utf16(e, key, text.utf16, text.length);
}

/* ---- What a brief report leaves out where there is nothing ------------------------------------*/

static void emit_count(walk *w, const char *key, uint32_t count)
{
    if (count || !w->brief)
        ss_emit_integer(w->e, key, count);
}

static void emit_text(walk *w, const char *key, const char *text)
{
    if (text || !w->brief)
        ss_emit_text(w->e, key, text);
}

/* ---- The error alone -------------------------------------------------------------------------*/

static void emit_details(walk *w, const ss_facts *facts)
{
    const char *symbol = ss_hresult_symbol(facts->view.hresult);
    ss_emit *e = w->e;

    ss_emit_hex(e, "hresult", (uint32_t)facts->view.hresult, 8);
    ss_emit_integer(e, "hresult_signed", facts->view.hresult);
    if (symbol)
        ss_emit_text(e, "symbol", symbol);
    ss_visit_text(e, "description", ss_facts_description(facts));
    ss_visit_text(e, "message", ss_facts_message(facts));
    emit_text(w, "type", facts->type);
    ss_emit_text(e, "language", facts->language);
}

static int emit_note(const char *text, size_t length, void *data)
{
    ss_emit *e = data;

    ss_emit_utf8(e, NULL, text, length);
    return e->stopped;
}

/* Stops at the first one. */
static int note_any(const char *text, size_t length, void *data)
{
    (void)text;
    (void)length;
    *(bool *)data = true;
    return 1;
}

void ss_visit_notes(ss_emit *e, const ss_facts *facts)
{
    ss_emit_begin(e, "notes", STACKSPLICE_ARRAY);
    ss_facts_each_note(facts, emit_note, e);
    ss_emit_end(e, STACKSPLICE_ARRAY);
}

static void emit_notes(walk *w, const ss_facts *facts)
{
    bool any = !w->brief;

    if (!any)
        ss_facts_each_note(facts, note_any, &any);
    if (any)
        ss_visit_notes(w->e, facts);
}

/* Emit the numbers that identify its thread and, among others, the error. */
static void emit_place(walk *w, const ss_facts *facts)
{
    WCHAR reference[SS_REFERENCE_UNITS];
    uint32_t length;

    ss_emit_integer(w->e, "thread_id", (int64_t)facts->view.thread_id);
    if (w->is_alone && w->brief)
        return;
    length = facts->error ? ss_error_reference(facts->error, reference) : 0;
    if (length)
        ss_emit_utf16(w->e, "reference", reference, length);
    else
        emit_text(w, "reference", facts->document ? facts->document->reference : NULL);
}

static bool emit_node(const char *receiver, uint64_t thread_id, ss_shown_stack stack, void *data)
{
    walk *w = data;

    ss_emit_begin(w->e, NULL, STACKSPLICE_OBJECT);
    ss_emit_text(w->e, "language", receiver);
    ss_emit_integer(w->e, "thread_id", (int64_t)thread_id);
    if (w->brief)
        (void)emit_brief_stack(w->r, w->e, stack, true);
    else
        ss_visit_stack(w->r, w->e, stack);
    ss_emit_end(w->e, STACKSPLICE_OBJECT);
    return !w->e->stopped;
}

static void emit_fingerprints(walk *w, const ss_facts *facts)
{
    const stacksplice_document *document = facts->document;
    char fingerprint[33];

    if (document) { /* the elements of which they were made are gone */
        emit_text(w, "fingerprint", document->fingerprint);
        emit_text(w, "loose_fingerprint", document->loose_fingerprint);
        return;
    }
    ss_report_fingerprint(w->r, facts, false, fingerprint);
    ss_emit_text(w->e, "fingerprint", fingerprint);
    if (w->r->failfast)
        return;
    ss_report_fingerprint(w->r, facts, true, fingerprint);
    ss_emit_text(w->e, "loose_fingerprint", fingerprint);
}

/* Whoever takes elements reads no variables. */
static void emit_stack(walk *w, const ss_facts *facts)
{
    ss_locals locals = {.count = 0};
    ss_shown_stack stack = ss_facts_stack(facts);

    if (w->brief) {
        uint32_t hidden = emit_brief_stack(w->r, w->e, stack, false);

        emit_count(w, "frames_left_out", stack.left_out);
        emit_count(w, "hidden_left_out", stack.hidden_left_out + hidden);
        return;
    }
    if (!w->e->visitor->element)
        stack = ss_report_stack_of(w->r, facts, &locals);
    ss_visit_stack(w->r, w->e, stack);
    ss_locals_end(&locals);
}

static void emit_alone(walk *w, const ss_facts *facts)
{
    if (w->parts & STACKSPLICE_READ_DETAILS)
        emit_details(w, facts);
    if (w->parts & STACKSPLICE_READ_NOTES)
        emit_notes(w, facts);
    if (w->parts & STACKSPLICE_READ_DETAILS)
        emit_place(w, facts);
    if (w->parts & STACKSPLICE_READ_FINGERPRINT)
        emit_fingerprints(w, facts);
    if (w->parts & STACKSPLICE_READ_STACK)
        emit_stack(w, facts);
    if (w->parts & STACKSPLICE_READ_PROPAGATION) {
        ss_emit_begin(w->e, "propagation", STACKSPLICE_ARRAY);
        ss_facts_each_node(facts, emit_node, w);
        ss_emit_end(w->e, STACKSPLICE_ARRAY);
    }
}

/* ---- Members ---------------------------------------------------------------------------------*/

/* False when the walk has no more room, or the error encloses itself. */
static bool may_emit(const walk *w, const ss_facts *facts)
{
    return w->errors < SS_REPORT_ERRORS_MAX && !ss_seen_has(&w->around, facts);
}

/* False when it is omitted. */
static bool emit_member(walk *w, const ss_facts *group, uint32_t index)
{
    ss_facts member;
    bool emitted = ss_facts_get_member(group, index, &member);

    if (emitted && w->e->visitor->error) {
        SS_EMIT(w->e, error, NULL, member.error);
    } else if (emitted) {
        emitted = w->level <= SS_REPORT_LEVELS_MAX && ss_stack_suffices_for_error() &&
                  may_emit(w, &member);
        if (emitted)
            emit_error(w, NULL, &member, NULL);
    }
    ss_facts_release(&member);
    return emitted;
}

static void emit_members(walk *w, const ss_facts *facts)
{
    uint32_t members = 0, left_out = 0;

    if (!ss_facts_group(facts, &members, &left_out)) {
        emit_text(w, "exceptions", NULL);
    } else {
        ss_emit_begin(w->e, "exceptions", STACKSPLICE_ARRAY);
        w->level++;
        for (uint32_t i = 0; i < members && !w->e->stopped; i++) {
            if (!emit_member(w, facts, i))
                left_out++;
        }
        w->level--;
        ss_emit_end(w->e, STACKSPLICE_ARRAY);
    }
    emit_count(w, "exceptions_left_out", left_out);
}

/* ---- Causes ----------------------------------------------------------------------------------*/

static const char *relation_name(stacksplice_relation relation)
{
    return relation == STACKSPLICE_RELATION_CONTEXT ? "context" : "cause";
}

/* Emit the causes of the error of FACTS, latest first, as one flat list; to who takes errors the first. */
static void emit_causes(walk *w, const ss_facts *facts)
{
    stacksplice_relation relation = facts->view.relation;
    uint32_t left_out = facts->view.causes_left_out, before = w->around.count;
    ss_subject last = {NULL, facts->document}, next = ss_facts_previous(facts);
    bool any = next.error || next.document || !w->brief;
    const char *above = NULL;
    ss_facts cause;

    if (w->e->visitor->error && next.error) {
        ss_emit_text(w->e, "relation", relation_name(relation));
        SS_EMIT(w->e, error, "cause", next.error);
    }
    if (w->e->visitor->error)
        return;
    if (any)
        ss_emit_begin(w->e, "transformed", STACKSPLICE_ARRAY);
    while (!w->e->stopped && ss_facts_of(next, &cause)) {
        const char *name = relation_name(relation);
        bool may = may_emit(w, &cause);

        above = ss_seen_has(&w->around, &cause) ? name : NULL;
        if (may)
            emit_error(w, NULL, &cause, name);
        (void)ss_seen_add(&w->around, &cause);
        left_out = may ? cause.view.causes_left_out : !above;
        relation = cause.view.relation;
        last = next;
        next = may ? ss_facts_previous(&cause) : (ss_subject){NULL, NULL};
        ss_facts_release(&cause);
    }
    if (any)
        ss_emit_end(w->e, STACKSPLICE_ARRAY);
    if (!above && last.document && last.document->cause_above)
        above = relation_name(relation);
    emit_count(w, "transformed_left_out", left_out);
    if (w->level) /* the last member of the outermost error says that the report is whole */
        emit_text(w, "transformed_above", above);
    else
        ss_emit_text(w->e, "transformed_above", above);
    w->around.count = before;
}

/* ---- An error and what belongs to it ---------------------------------------------------------*/

/*
 * RELATION: how it relates to the error before it in a list of causes, which also holds its own
 * causes; NULL: it is in no such list.
 */
static void emit_error(walk *w, const char *key, const ss_facts *facts, const char *relation)
{
    uint32_t before = w->around.count;

    w->errors++;
    (void)ss_seen_add(&w->around, facts);
    ss_emit_begin(w->e, key, STACKSPLICE_OBJECT);
    if (w->schema)
        ss_emit_text(w->e, "schema", w->schema);
    w->schema = NULL;
    if (relation)
        ss_emit_text(w->e, "relation", relation);
    emit_alone(w, facts);
    if (w->parts & STACKSPLICE_READ_MEMBERS)
        emit_members(w, facts);
    if (w->parts & STACKSPLICE_READ_CAUSES && !relation)
        emit_causes(w, facts);
    ss_emit_end(w->e, STACKSPLICE_OBJECT);
    w->around.count = before;
}

void ss_visit_error(const ss_report *r, ss_emit *e, const char *key, const ss_facts *facts,
                    const char *schema, uint32_t parts)
{
    walk w = {.r = r,
              .e = e,
              .schema = schema,
              .brief = r->brief_json,
              .parts = parts ? parts : UINT32_MAX};
    ss_subject previous = ss_facts_previous(facts);
    uint32_t members, left_out;

    w.is_alone =
        !previous.error && !previous.document && !ss_facts_group(facts, &members, &left_out);
    emit_error(&w, key, facts, NULL);
}

stacksplice_hresult stacksplice_error_visit(IUnknown *error,
                                            const stacksplice_read_options *options,
                                            stacksplice_visitor *visitor)
{
    ss_source source = SS_SOURCE_NONE;
    ss_report r = {.source = options && options->without_source ? NULL : &source};
    ss_emit e = {visitor, false};
    ss_facts facts;

    if (!error || !visitor)
        return E_POINTER;
    (void)ss_code_epoch();
    if (!ss_visitor_is_valid(visitor) || (options && options->size != sizeof *options) ||
        !ss_facts_get(error, &facts))
        return E_INVALIDARG;
    ss_visit_error(&r, &e, NULL, &facts, NULL, options ? options->parts : 0);
    ss_source_close(&source);
    ss_facts_release(&facts);
    return e.stopped ? S_FALSE : S_OK;
}

/* When the oldest code of FILE among the frames of VIEW was met; 0: none was. */
static int64_t met_of(const ss_error_view *view, const char *file)
{
    char room[SS_TOKEN_ROOM];
    stacksplice_token_info info;
    int64_t oldest = 0;

    for (uint32_t i = 0; i < view->frame_count; i++) {
        int64_t met = ss_token_met_at(view->frames[i]);

        if (!met || (oldest && met >= oldest))
            continue;
        (void)ss_token_read(view->frames[i], &info, room, sizeof room);
        if (info.kind == STACKSPLICE_FRAME_SCRIPT && info.file && !strcmp(info.file, file))
            oldest = met;
    }
    return oldest;
}

stacksplice_hresult stacksplice_error_source_reason(IUnknown *error, const char *file,
                                                    const char **reason)
{
    ss_source source = SS_SOURCE_NONE;
    ss_facts facts;

    if (!error || !file || !reason)
        return E_POINTER;
    if (!ss_facts_get(error, &facts))
        return E_INVALIDARG;
    source.newest = facts.view.taken_at;
    if (*file != '/' && ss_folder_has_changed())
        source.why = ss_source_moved;
    else if (ss_source_changed_at(&source, file) > ss_token_first_met_at())
        (void)ss_source_refuses(&source, file, met_of(&facts.view, file));
    else
        (void)ss_source_refuses(&source, file, 0); /* as it was when the first code was met */
    *reason = source.why;
    ss_source_close(&source);
    ss_facts_release(&facts);
    return S_OK;
}

stacksplice_hresult stacksplice_error_language(IUnknown *error, const char **language)
{
    const char *name = NULL;
    ss_facts facts;

    if (!error || !language)
        return E_POINTER;
    if (!ss_facts_get(error, &facts))
        return E_INVALIDARG;
    if (facts.view.exception)
        name = facts.view.exception->lpVtbl->GetLanguage(facts.view.exception);
    *language = name ? name : "native";
    ss_facts_release(&facts);
    return S_OK;
}
