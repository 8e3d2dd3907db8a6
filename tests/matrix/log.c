/* The log of calls: what a captured stack is compared with. */
#include "matrix.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_ENTRIES = 4000 };

static matrix_entry entries[MAX_ENTRIES];
static int count, borders[MATRIX_MAX_PATH];

void matrix_border(int i)
{
    borders[i] = count;
}

int matrix_border_of(int i)
{
    return borders[i];
}

void matrix_log_reset(void)
{
    count = 0;
}

int matrix_log_count(void)
{
    return count;
}

const matrix_entry *matrix_log_entry(int i)
{
    return &entries[i];
}

void matrix_log_cut(int to)
{
    count = to;
}

int matrix_log_thread(void)
{
    int i = count;

    while (i > 0 && entries[i - 1].what != 't')
        i--;
    return i;
}

void matrix_log_add(char what, const char *name, int line)
{
    if (count == MAX_ENTRIES)
        abort();
    entries[count].what = what;
    entries[count].line = line;
    (void)snprintf(entries[count].name, sizeof entries[count].name, "%s", name);
    count++;
}
