/*
 * Reports of hostile errors: every text in an error, its frames and its notes is the input's.
 *
 * Input: an HRESULT and what the error has, then the texts.
 */
#include "input.h"
#include "utf8.h"

#include "report_fixture.h"
#include <stacksplice/stacksplice.h>

enum { TEXT_MAX = 300 };

typedef struct texts {
    char *type, *language, *message, *function, *file, *reason, *note;
    size_t message_length, note_length;
} texts;

static texts take_texts(input *in)
{
    size_t ignored;
    texts t;

    t.type = input_text(in, TEXT_MAX, &ignored);
    t.language = input_text(in, 20, &ignored);
    t.message = input_text(in, TEXT_MAX, &t.message_length);
    t.function = input_text(in, TEXT_MAX, &ignored);
    t.file = input_text(in, TEXT_MAX, &ignored);
    t.reason = input_text(in, TEXT_MAX, &ignored);
    t.note = input_text(in, TEXT_MAX, &t.note_length);
    return t;
}

static void free_texts(texts *t)
{
    free(t->type);
    free(t->language);
    free(t->message);
    free(t->function);
    free(t->file);
    free(t->reason);
    free(t->note);
}

static void check_format(IRestrictedErrorInfo *error, stacksplice_format_kind kind)
{
    utf8_output out = {0};

    ALWAYS(stacksplice_format((IUnknown *)error, kind, NULL, utf8_collect, &out) == S_OK);
    /* One line of JSON may end in a line feed. */
    if (kind != STACKSPLICE_FORMAT_TEXT && out.size && out.bytes[out.size - 1] == '\n')
        out.size--;
    ALWAYS(out.size &&
           (kind == STACKSPLICE_FORMAT_TEXT ? utf8_is_harmless(&out, SS_ESCAPE_LINE, "\n\t")
                                            : utf8_is_harmless(&out, SS_ESCAPE_JSON, "")));
    free(out.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    uint32_t hr = input_u32(&in) | 0x80000000u, shape = input_u32(&in);
    texts t = take_texts(&in);
    uintptr_t frames[] = {fixture_script("lua", t.function, t.file, shape >> 8),
                          fixture_gap(*t.reason ? t.reason : "unknown"),
                          (uintptr_t)LLVMFuzzerTestOneInput + 4,
                          fixture_script("python", t.file, t.function, 7)};
    fixture_error contents = {.hr = (HRESULT)hr,
                              .type = shape & 1 ? t.type : NULL,
                              .language = shape & 2 ? t.language : NULL,
                              .message = t.message,
                              .message_length = t.message_length,
                              .frames = frames,
                              .frame_count = 4};
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    char fingerprint[33];

    (void)stacksplice_add_note((IUnknown *)error, t.note, t.note_length);
    if (shape & 4)
        fixture_propagate(error, shape & 8 ? t.language : NULL, frames, 4);
    check_format(error, STACKSPLICE_FORMAT_TEXT);
    check_format(error, STACKSPLICE_FORMAT_JSON);
    check_format(error, STACKSPLICE_FORMAT_SENTRY);
    check_format(error, STACKSPLICE_FORMAT_BRIEF_JSON);
    ALWAYS(stacksplice_fingerprint((IUnknown *)error, fingerprint) == S_OK);
    (void)error->lpVtbl->Release(error);
    free_texts(&t);
    return 0;
}
