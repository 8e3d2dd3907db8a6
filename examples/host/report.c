/* The final handling of an error: a text for people, a record in a JSON file. */
#include "host.h"

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

static void count(report *r, HRESULT hr)
{
    unsigned i = 0;

    while (i < r->kind_count && r->kinds[i].hr != hr)
        i++;
    if (i == sizeof r->kinds / sizeof *r->kinds)
        return; /* more kinds than the summary has room for */
    if (i == r->kind_count)
        r->kinds[r->kind_count++].hr = hr;
    r->kinds[i].count++;
}

/* For stacksplice_format: the first line, which says what the error is; DATA is a FILE. */
static int write_first_line(const char *text, size_t length, void *data)
{
    const char *end = memchr(text, '\n', length);

    return write_file(text, end ? (size_t)(end - text) : length, data) || end;
}

static void print_error(const report *r, IRestrictedErrorInfo *error, const char *order,
                        const char *customer)
{
    stacksplice_format_options options = {
        .size = sizeof options, .color = r->color, .shorten = r->terminal};

    if (r->failed > r->whole) {
        printf("order %s of %s: ", order, customer);
        stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, write_first_line,
                           stdout);
        putchar('\n');
        return;
    }
    printf("\n---- order %s of %s could not be priced ----\n", order, customer);
    stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, &options, write_file, stdout);
    if (r->failed == r->whole)
        puts("\n---- the other failed orders, one line each ----");
}

void report_error(report *r, HRESULT hr, const char *order, const char *customer)
{
    IRestrictedErrorInfo *error = NULL;

    r->failed++;
    count(r, hr);
    if (GetRestrictedErrorInfo(&error) != S_OK) { /* takes the error: the slot is empty now */
        printf("order %s of %s: HRESULT 0x%08X, and no more is known\n", order, customer,
               (unsigned)hr);
        return;
    }
    print_error(r, error, order, customer);
    fputs(r->written++ ? ",\n{\"order\": " : "{\"order\": ", r->json);
    write_json_string(r->json, order);
    fputs(", \"error\": ", r->json);
    stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_JSON, NULL, write_file, r->json);
    putc('}', r->json);
    error->lpVtbl->Release(error);
}

bool report_open(report *r, const char *json_path)
{
    r->json = fopen(json_path, "w");
    if (!r->json)
        return false;
    fputs("[\n", r->json);
    return true;
}

bool report_close(report *r)
{
    bool written;

    fputs("\n]\n", r->json);
    written = !ferror(r->json);
    written = fclose(r->json) == 0 && written;
    r->json = NULL;
    return written;
}
