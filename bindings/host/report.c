/* What becomes of an error at the end of its road: a text for people, a record in a JSON file. */
#include "host.h"

#include <stacksplice/source.h> /* IScriptException */

#include <string.h>

int write_file(const char *text, size_t length, void *data)
{
    return fwrite(text, 1, length, data) != length;
}

/* A string of JSON; bytes above 127 are UTF-8 already. */
static void write_json_string(FILE *file, const char *text)
{
    putc('"', file);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c < 0x20)
            fprintf(file, "\\u%04x", c);
        else
            fprintf(file, c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    putc('"', file);
}

/* Who made the error: "python ValueError", "lua table", or "native" when C code did. */
static void describe_origin(IRestrictedErrorInfo *error, char *out, size_t size)
{
    ILanguageExceptionErrorInfo *info = NULL;
    IUnknown *unknown = NULL;
    IScriptException *exception = NULL;

    snprintf(out, size, "native");
    if (FAILED(
            error->lpVtbl->QueryInterface(error, &IID_ILanguageExceptionErrorInfo, (void **)&info)))
        return;
    if (SUCCEEDED(info->lpVtbl->GetLanguageException(info, &unknown)) && unknown) {
        if (SUCCEEDED(unknown->lpVtbl->QueryInterface(unknown, &stacksplice_IID_IScriptException,
                                                      (void **)&exception))) {
            const char *type = exception->lpVtbl->GetTypeName(exception);

            snprintf(out, size, "%s %s", exception->lpVtbl->GetLanguage(exception),
                     type ? type : "");
            exception->lpVtbl->Release(exception);
        }
        unknown->lpVtbl->Release(unknown);
    }
    info->lpVtbl->Release(info);
}

static void count_kind(report *r, HRESULT hr, const char *origin)
{
    char what[sizeof r->kinds[0].what];
    unsigned i = 0;

    snprintf(what, sizeof what, "0x%08X %s", (unsigned)hr, origin);
    while (i < r->kind_count && strcmp(r->kinds[i].what, what) != 0)
        i++;
    if (i == sizeof r->kinds / sizeof *r->kinds)
        return; /* more kinds than the summary has room for */
    if (i == r->kind_count) {
        memcpy(r->kinds[i].what, what, sizeof what);
        r->kind_count++;
    }
    r->kinds[i].count++;
}

void report_error(report *r, HRESULT hr, const char *order, const char *customer)
{
    stacksplice_format_options options = {.size = sizeof options, .color = r->color};
    IRestrictedErrorInfo *error = NULL;
    char origin[60];

    r->failed++;
    printf("\n---- order %s of %s could not be priced ----\n", order, customer);
    if (GetRestrictedErrorInfo(&error) != S_OK) { /* takes it: the slot is empty now */
        printf("HRESULT 0x%08X, and no more is known\n", (unsigned)hr);
        count_kind(r, hr, "without a report");
        return;
    }
    describe_origin(error, origin, sizeof origin);
    count_kind(r, hr, origin);
    stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, &options, write_file, stdout);
    if (r->json) {
        fputs(r->failed > 1 ? ",\n{\"order\": " : "{\"order\": ", r->json);
        write_json_string(r->json, order);
        fputs(", \"origin\": ", r->json);
        write_json_string(r->json, origin);
        fputs(", \"error\": ", r->json);
        stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_JSON, NULL, write_file, r->json);
        putc('}', r->json);
    }
    error->lpVtbl->Release(error);
}

bool report_open(report *r, const char *json_path)
{
    if (!json_path)
        return true;
    r->json = fopen(json_path, "w");
    if (!r->json)
        return false;
    fputs("[\n", r->json);
    return true;
}

bool report_close(report *r)
{
    bool written;

    if (!r->json)
        return true;
    fputs("\n]\n", r->json);
    written = !ferror(r->json);
    written = fclose(r->json) == 0 && written;
    r->json = NULL;
    return written;
}
