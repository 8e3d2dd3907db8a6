/*
 * Reports that are read back: what can be read is written without harm, in each order and for
 * Sentry.
 *
 * Input: the text.
 */
#include "input.h"
#include "utf8.h"

#include <stacksplice/read.h>
#include <stdlib.h>

static void check(const stacksplice_document *document, const stacksplice_format_options *options)
{
    utf8_output out = {0};

    ALWAYS(stacksplice_format_document(document, options, utf8_collect, &out) == S_OK);
    ALWAYS(utf8_is_harmless(&out, SS_ESCAPE_LINE, "\n\t"));
    free(out.bytes);
}

/* That FORMAT writes one line of JSON. */
static void check_line(const stacksplice_document *document,
                       stacksplice_hresult (*format)(const stacksplice_document *document,
                                                     const stacksplice_format_options *options,
                                                     stacksplice_write_callback write, void *data))
{
    utf8_output line = {0};

    ALWAYS(format(document, NULL, utf8_collect, &line) == S_OK);
    ALWAYS(line.size && line.bytes[--line.size] == '\n');
    ALWAYS(utf8_is_harmless(&line, SS_ESCAPE_JSON, ""));
    free(line.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const stacksplice_format_options all = {.size = sizeof all, .all_frames = 1};
    const stacksplice_format_options last = {.size = sizeof last,
                                             .order = STACKSPLICE_ORDER_NEWEST_LAST};
    const stacksplice_document *document = NULL;
    stacksplice_document_problem problem = {size + 1, ""};

    if (stacksplice_document_read((const char *)data, size, &document, &problem) != S_OK) {
        ALWAYS(!document && problem.position <= size && *problem.text);
        return 0;
    }
    check(document, &all);
    check(document, &last);
    check_line(document, stacksplice_format_document_for_sentry);
    check_line(document, stacksplice_format_document_as_brief_json);
    stacksplice_document_free(document);
    return 0;
}
