/* The report of an error, for scripts. */
#include "binding.h"

#include <stdio.h>
#include <stdlib.h>

static int append(const char *text, size_t length, void *file)
{
    return fwrite(text, 1, length, file) != length;
}

/* A script chooses the names of its files, so its reports open none. */
tiny_value stacksplice_tiny_text(tiny *t, IUnknown *error)
{
    stacksplice_format_options options = {.size = sizeof options, .without_source = 1};
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    tiny_value result;

    if (file && error)
        (void)stacksplice_format(error, STACKSPLICE_FORMAT_TEXT, &options, append, file);
    if (file)
        (void)fclose(file);
    result = tiny_string(t, text ? text : "", length);
    free(text);
    return result;
}
