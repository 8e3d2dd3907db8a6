#include "report/report.h"

#include <string.h>

static bool are_valid(const stacksplice_format_options *options)
{
    return options->size == sizeof *options && (options->order == STACKSPLICE_ORDER_NEWEST_FIRST ||
                                                options->order == STACKSPLICE_ORDER_NEWEST_LAST);
}

stacksplice_hresult stacksplice_format(IUnknown *error, stacksplice_format_kind kind,
                                       const stacksplice_format_options *options,
                                       stacksplice_write_callback write, void *data)
{
    ss_report report = {NULL, STACKSPLICE_ORDER_NEWEST_FIRST, false, false, false, NULL};
    ss_facts facts;
    ss_writer w;
    bool complete;

    if (!error || !write)
        return E_POINTER;
    if (kind != STACKSPLICE_FORMAT_TEXT && kind != STACKSPLICE_FORMAT_JSON)
        return E_INVALIDARG;
    if (options) {
        if (!are_valid(options))
            return E_INVALIDARG;
        report.order = options->order;
        report.all_frames = options->all_frames != 0;
        report.color = options->color != 0;
        report.alone = options->alone != 0;
    }
    if (!ss_facts_get(error, &facts))
        return E_INVALIDARG;
    ss_writer_init(&w, write, data);
    report.w = &w;
    if (kind == STACKSPLICE_FORMAT_TEXT)
        ss_report_text(&report, &facts);
    else
        ss_report_json(&report, &facts, true);
    complete = ss_writer_finish(&w);
    ss_facts_release(&facts);
    return complete ? S_OK : S_FALSE;
}

stacksplice_hresult stacksplice_fingerprint(IUnknown *error, char out[33])
{
    ss_report report = {NULL, STACKSPLICE_ORDER_NEWEST_FIRST, false, false, false, NULL};
    ss_facts facts;

    if (!error || !out)
        return E_POINTER;
    if (!ss_facts_get(error, &facts))
        return E_INVALIDARG;
    ss_report_fingerprint(&report, &facts, out);
    ss_facts_release(&facts);
    return S_OK;
}
