#include "report/visit.h"
#include "splice/unloaded.h"

#include <string.h>

/* False, with *REPORT unchanged, if OPTIONS are invalid; NULL means all 0. */
static bool take_options(const stacksplice_format_options *options, ss_report *report)
{
    if (!options)
        return true;
    if (options->size != sizeof *options || (options->order != STACKSPLICE_ORDER_NEWEST_FIRST &&
                                             options->order != STACKSPLICE_ORDER_NEWEST_LAST))
        return false;
    report->order = options->order;
    report->all_frames = options->all_frames != 0;
    report->color = options->color != 0;
    report->shorten = options->shorten != 0;
    report->alone = options->alone != 0;
    if (options->without_source)
        report->source = NULL;
    report->look = options->look;
    report->look_data = options->look_data;
    return true;
}

static void write_json(const ss_report *report, const ss_facts *facts, stacksplice_format_kind kind)
{
    ss_json json;
    ss_emit e = {&json.visitor, false};

    ss_json_init(&json, report->w, false);
    if (kind == STACKSPLICE_FORMAT_SENTRY)
        ss_sentry_event(report, &e, facts);
    else
        ss_visit_error(report, &e, NULL, facts, SS_SCHEMA_ERROR, 0);
    ss_writer_text(report->w, "\n");
}

static stacksplice_hresult write_report(ss_subject subject, stacksplice_format_kind kind,
                                        const stacksplice_format_options *options,
                                        stacksplice_write_callback write, void *data)
{
    ss_writer w;
    ss_source source = SS_SOURCE_NONE;
    ss_report report = {.w = &w, .source = &source, .bare = kind == STACKSPLICE_FORMAT_STACK};
    ss_facts facts;
    bool complete;

    (void)ss_code_epoch();
    if (kind < STACKSPLICE_FORMAT_TEXT || kind > STACKSPLICE_FORMAT_BRIEF_JSON ||
        !take_options(options, &report) || !ss_facts_of(subject, &facts))
        return E_INVALIDARG;
    ss_writer_init(&w, write, data);
    if (kind == STACKSPLICE_FORMAT_BRIEF_JSON) {
        report.brief_json = true;
        report.all_frames = false;
        report.source = NULL;
    }
    if (kind == STACKSPLICE_FORMAT_TEXT)
        ss_report_text(&report, &facts);
    else if (kind == STACKSPLICE_FORMAT_STACK)
        ss_report_bare(&report, &facts);
    else
        write_json(&report, &facts, kind);
    complete = ss_writer_finish(&w);
    ss_source_close(&source);
    ss_facts_release(&facts);
    return complete ? S_OK : S_FALSE;
}

stacksplice_hresult stacksplice_format(IUnknown *error, stacksplice_format_kind kind,
                                       const stacksplice_format_options *options,
                                       stacksplice_write_callback write, void *data)
{
    if (!error || !write)
        return E_POINTER;
    return write_report((ss_subject){error, NULL}, kind, options, write, data);
}

static stacksplice_hresult write_document(const stacksplice_document *document,
                                          stacksplice_format_kind kind,
                                          const stacksplice_format_options *options,
                                          stacksplice_write_callback write, void *data)
{
    if (!document || !write)
        return E_POINTER;
    if (document->size != sizeof *document)
        return E_INVALIDARG;
    return write_report((ss_subject){NULL, document}, kind, options, write, data);
}

stacksplice_hresult stacksplice_format_document(const stacksplice_document *document,
                                                const stacksplice_format_options *options,
                                                stacksplice_write_callback write, void *data)
{
    return write_document(document, STACKSPLICE_FORMAT_TEXT, options, write, data);
}

stacksplice_hresult stacksplice_format_document_for_sentry(
    const stacksplice_document *document, const stacksplice_format_options *options,
    stacksplice_write_callback write, void *data)
{
    return write_document(document, STACKSPLICE_FORMAT_SENTRY, options, write, data);
}

stacksplice_hresult stacksplice_format_document_as_brief_json(
    const stacksplice_document *document, const stacksplice_format_options *options,
    stacksplice_write_callback write, void *data)
{
    return write_document(document, STACKSPLICE_FORMAT_BRIEF_JSON, options, write, data);
}

stacksplice_hresult stacksplice_document_folds(const stacksplice_document *document,
                                               stacksplice_fold_callback fold, void *data)
{
    const ss_report brief = {.order = STACKSPLICE_ORDER_NEWEST_FIRST};
    ss_folds folds;

    if (!document || !fold)
        return E_POINTER;
    if (document->size != sizeof *document)
        return E_INVALIDARG;
    folds = ss_report_folds(&brief, ss_document_stack(&document->stack));
    for (uint32_t i = 0; i < folds.count; i++) {
        char text[SS_FOLD_TEXT_MAX];
        const ss_fold *at = &folds.all[i];

        if (fold(at->begin, at->end, ss_fold_text(&folds, at, text), data))
            return S_FALSE;
    }
    for (uint32_t i = 0; i < document->stack.count; i++) {
        const stacksplice_frame *frame = &document->stack.frames[i].frame;

        if (frame->kind == STACKSPLICE_FRAME_SCRIPT && !ss_report_shows(&brief, frame, false) &&
            !ss_fold_of(&folds, i) && fold(i, i + 1, "", data))
            return S_FALSE;
    }
    return S_OK;
}

stacksplice_hresult stacksplice_fingerprint(IUnknown *error, char out[33])
{
    ss_report report = {.order = STACKSPLICE_ORDER_NEWEST_FIRST};
    ss_facts facts;

    if (!error || !out)
        return E_POINTER;
    (void)ss_code_epoch();
    if (!ss_facts_get(error, &facts))
        return E_INVALIDARG;
    ss_report_fingerprint(&report, &facts, false, out);
    ss_facts_release(&facts);
    return S_OK;
}
