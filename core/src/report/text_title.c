/* What an error says, as text: its type and message, its notes, and its HRESULT. */
#include "report/color.h"

#include "resolve/glue.h"

#include <string.h>

/* Write further lines of an error's text so that none can pose as a line of the report. */
static void put_further_lines(const ss_report *r, ss_redacted *rest, const char *color)
{
    while (!ss_redacted_is_done(rest) && !r->w->failed) {
        ss_writer_text(r->w, ss_redacted_line_is_done(rest) ? "|" : "| ");
        ss_color_begin(r, color);
        ss_redacted_line(rest, r->w, SS_ESCAPE_TABS);
        ss_color_end(r, color);
        ss_writer_text(r->w, "\n");
    }
}

static const char *exception_language(const ss_facts *facts)
{
    const char *language =
        facts->exception ? facts->exception->lpVtbl->GetLanguage(facts->exception) : NULL;

    return language ? language : facts->language;
}

/* The type of an exception; NULL if there is none, or only that of a value that was thrown. */
static const char *exception_type(const ss_facts *facts)
{
    const stacksplice_glue *known = facts->type ? ss_glue_of(exception_language(facts)) : NULL;

    return known && ss_glue_matches(facts->type, known->values) ? NULL : facts->type;
}

/* The type in the title: a language may hold another one's error as an exception of its own. */
static const char *title_type(const ss_facts *facts)
{
    bool is_held = facts->told && facts->told->error && facts->told->type;

    return is_held ? facts->told->type : exception_type(facts);
}

/* "ValueError: bad amount 'x'" */
static void put_title(const ss_report *r, const ss_facts *facts)
{
    const char *type = title_type(facts);
    ss_writer *w = r->w;
    ss_redacted rest;
    bool any;

    ss_redacted_begin(&rest, ss_facts_message(facts), STACKSPLICE_TEXT_MESSAGE,
                      r->failfast != NULL);
    any = !ss_redacted_is_done(&rest);
    if (type) {
        ss_color_begin(r, SS_COLOR_TYPE);
        ss_report_put(r, type, STACKSPLICE_TEXT_MESSAGE);
        ss_color_end(r, SS_COLOR_TYPE);
        ss_writer_text(w, any ? ": " : "");
    }
    ss_color_begin(r, SS_COLOR_PLACE);
    if (any)
        ss_redacted_line(&rest, w, SS_ESCAPE_TABS);
    else if (!type)
        ss_writer_text(w, "error");
    ss_color_end(r, SS_COLOR_PLACE);
    ss_writer_text(w, "\n");
    put_further_lines(r, &rest, SS_COLOR_PLACE);
    ss_redacted_end(&rest);
}

/* "note: while loading rates.csv" */
static int put_note(const char *text, size_t length, void *data)
{
    const ss_report *r = data;
    ss_redacted rest;

    ss_redacted_begin(&rest, (ss_text){text, NULL, length}, STACKSPLICE_TEXT_MESSAGE,
                      r->failfast != NULL);
    ss_writer_text(r->w, "note: ");
    ss_redacted_line(&rest, r->w, SS_ESCAPE_TABS);
    ss_writer_text(r->w, "\n");
    put_further_lines(r, &rest, SS_COLOR_NONE);
    ss_redacted_end(&rest);
    return r->w->failed;
}

/* ---- The HRESULT -----------------------------------------------------------------------------*/

/* Whether a type of ours carries the HRESULT that native code gave: stacksplice.HResultError. */
static bool is_carrier(const char *type)
{
    static const char own[] = "stacksplice";

    return !strncmp(type, own, sizeof own - 1) && strchr(".:", type[sizeof own - 1]);
}

/* Whether a value that was thrown has this HRESULT because it has none of its own. */
static bool is_default(HRESULT hr)
{
    return hr == E_FAIL || hr == E_OUTOFMEMORY || hr == E_UNEXPECTED ||
           (uint32_t)hr == 0x80020101u; /* SCRIPT_E_REPORTED */
}

/* Where the type of a script's exception determines the HRESULT, it tells a reader nothing. */
static bool is_told(const ss_report *r, const ss_facts *facts)
{
    if (r->all_frames || !facts->type)
        return true;
    return exception_type(facts) ? is_carrier(facts->type) : !is_default(facts->view.hresult);
}

/* "HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect." */
void ss_report_hresult(const ss_report *r, const ss_facts *facts)
{
    const char *symbol = ss_hresult_symbol(facts->view.hresult);

    if (!is_told(r, facts))
        return;
    ss_writer_text(r->w, "HRESULT 0x");
    ss_writer_hex(r->w, (uint32_t)facts->view.hresult, 8);
    if (symbol) {
        ss_writer_text(r->w, " ");
        ss_writer_text(r->w, symbol);
    }
    if (ss_facts_has_own_message(facts)) {
        ss_writer_text(r->w, ": ");
        ss_redact(ss_facts_description(facts), STACKSPLICE_TEXT_MESSAGE, r->failfast != NULL, r->w,
                  SS_ESCAPE_LINE);
    }
    ss_writer_text(r->w, "\n");
}

void ss_report_title(const ss_report *r, const ss_facts *facts)
{
    put_title(r, facts);
    ss_facts_each_note(facts, put_note, (void *)(uintptr_t)r);
    ss_report_hresult(r, facts);
}
