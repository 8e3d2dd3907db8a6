/*
 * What a host in C does at its next start: it reads the file that its last run left when it crashed, and
 * makes the event for Sentry, which it then sends.  Here the event goes to standard output.
 */
#include <stacksplice/read.h>
#include <stdio.h>
#include <stdlib.h>

static int put(const char *text, size_t length, void *data)
{
    return fwrite(text, 1, length, data) != length;
}

/* The contents of a file, from malloc; NULL if it cannot be read. */
static char *contents(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long size;

    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0) {
        rewind(file);
        text = malloc((size_t)size + 1);
        *length = text ? fread(text, 1, (size_t)size, file) : 0;
    }
    (void)fclose(file);
    return text;
}

int main(int count, char **arguments)
{
    const stacksplice_document *crash = NULL;
    stacksplice_document_problem problem = {0, "no file"};
    stacksplice_hresult hr = -1;
    size_t length;
    char *text = count > 1 ? contents(arguments[1], &length) : NULL;

    if (text)
        hr = stacksplice_document_read(text, length, &crash, &problem);
    if (hr >= 0)
        hr = stacksplice_format_document_for_sentry(crash, NULL, put, stdout);
    else
        (void)fprintf(stderr, "%s at byte %zu\n", problem.text, problem.position);
    stacksplice_document_free(crash);
    free(text);
    return hr != 0;
}
