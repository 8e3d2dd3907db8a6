#include "served/channel.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool ssi_channel_line(char line[SSI_LINE])
{
    size_t length;

    if (!fgets(line, SSI_LINE, stdin))
        return false;
    length = strcspn(line, "\n");
    if (!line[length] && !feof(stdin)) /* the rest of a line that is too long */
        for (int c = getchar(); c != '\n' && c != EOF;)
            c = getchar();
    line[length] = '\0';
    return true;
}

void ssi_channel_ask(const char *what, uint64_t address, size_t size)
{
    printf("\n?%s %" PRIu64 " %zu\n", what, address, size);
    fflush(stdout);
}

bool ssi_channel_bytes(void *out, size_t size)
{
    return fread(out, 1, size, stdin) == size;
}
