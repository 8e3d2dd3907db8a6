#include "report_fixture.h"
#include "error_double.h"
#include "frames.h"

#include <stdlib.h>

static void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "fixture: %s\n", what);
        abort();
    }
}

/* ---- The language exception ------------------------------------------------------------------*/

static void end_exception(error_double *x)
{
    free(x);
}

static error_double *make_exception(const fixture_error *contents)
{
    error_double *x = malloc(sizeof *x);

    require(x != NULL, "memory");
    error_double_init(x, contents->type || contents->language);
    x->ended = end_exception;
    x->language = contents->language ? contents->language : "python";
    x->type = contents->type;
    x->message = contents->message;
    x->message_length = contents->message_length;
    x->has_stack = 1;
    x->frames = contents->frames;
    x->frame_count = contents->frame_count;
    x->cause = contents->cause;
    return x;
}

static void drop_exception(error_double *x)
{
    IUnknown *unknown = error_double_unknown(x);

    unknown->lpVtbl->Release(unknown);
}

/* ---- Errors ----------------------------------------------------------------------------------*/

IRestrictedErrorInfo *fixture_originate(const fixture_error *contents)
{
    error_double *x = make_exception(contents);
    IRestrictedErrorInfo *error = NULL, *taken = NULL;

    require(stacksplice_originate(contents->hr, contents->message, contents->message_length,
                                  error_double_unknown(x), &error) == S_OK,
            "originate");
    drop_exception(x);
    require(GetRestrictedErrorInfo(&taken) == S_OK && taken == error, "take");
    taken->lpVtbl->Release(taken);
    return error;
}

void fixture_propagate(IRestrictedErrorInfo *error, const char *language, const uintptr_t *frames,
                       uint32_t count)
{
    const fixture_error contents = {.language = language, .frames = frames, .frame_count = count};
    error_double *x = make_exception(&contents);
    ILanguageExceptionErrorInfo2 *info;
    void *out = NULL;

    require(error->lpVtbl->QueryInterface(error, &IID_ILanguageExceptionErrorInfo2, &out) == S_OK,
            "ILanguageExceptionErrorInfo2");
    info = out;
    require(info->lpVtbl->CapturePropagationContext(info, error_double_unknown(x)) == S_OK,
            "CapturePropagationContext");
    info->lpVtbl->Release(info);
    drop_exception(x);
}

uintptr_t fixture_script(const char *language, const char *function, const char *file,
                         uint32_t line)
{
    const stacksplice_token_info info = {SCRIPT_TOKEN, .language = language, .function = function,
                                         .file = file, .line = line};
    uintptr_t token = 0;

    require(stacksplice_intern(&info, &token) == S_OK, "intern");
    return token;
}

uintptr_t fixture_gap(const char *reason)
{
    const stacksplice_token_info info = {GAP_TOKEN, .language = "python", .reason = reason};
    uintptr_t token = 0;

    require(stacksplice_intern(&info, &token) == S_OK, "intern");
    return token;
}

typedef struct written {
    size_t length;
    char text[1 << 20];
} written;

static int keep(const char *text, size_t length, void *data)
{
    written *w = data;

    require(length < sizeof w->text - w->length, "report too long");
    memcpy(w->text + w->length, text, length);
    w->length += length;
    return 0;
}

/* For test_schema.py: append a JSON report to the file that the environment names. */
static void show_validator(const written *w)
{
    const char *path = getenv("STACKSPLICE_TEST_JSON");
    FILE *file = path ? fopen(path, "a") : NULL;

    require(!path || file, "the file for JSON");
    if (file) {
        fwrite(w->text, 1, w->length, file);
        require(fclose(file) == 0, "writing JSON");
    }
}

const char *fixture_format(IUnknown *error, stacksplice_format_kind kind,
                           const stacksplice_format_options *options)
{
    static written results[4];
    static unsigned next;
    written *w = &results[next++ % 4];

    w->length = 0;
    require(stacksplice_format(error, kind, options, keep, w) == S_OK, "format");
    w->text[w->length] = 0;
    if (kind == STACKSPLICE_FORMAT_JSON)
        show_validator(w);
    return w->text;
}
