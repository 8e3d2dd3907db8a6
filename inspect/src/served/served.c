#include "served/served.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Questions and answers --------------------------------------------------------------------*/

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

/* SIZE bytes that follow a line; false if they do not come. */
static bool read_bytes(void *out, size_t size)
{
    return fread(out, 1, size, stdin) == size;
}

/* ---- What a debugger sends before it answers --------------------------------------------------*/

/* One line for each fact, the last is "go".  Each takes the rest of its line; false without
   memory. */

/* NUMBER NAME */
static bool read_thread(ssi_target *target, char *rest)
{
    ssi_thread *thread = ssi_target_add_thread(target, (int)strtol(rest, &rest, 10));

    if (thread && *rest == ' ')
        snprintf(thread->name, sizeof thread->name, "%.31s", rest + 1);
    return thread != NULL;
}

static ssi_thread *last_thread(const ssi_target *target)
{
    return target->thread_count ? &target->threads[target->thread_count - 1] : NULL;
}

/* Of the last thread, in DWARF's order. */
static bool read_registers(ssi_target *target, char *rest)
{
    ssi_thread *thread = last_thread(target);
    char *end = rest;

    for (int i = 0; thread && i < target->machine->registers; i++, rest = end) {
        thread->registers[i] = strtoull(rest, &end, 16);
        if (end == rest)
            return true;
    }
    if (thread)
        thread->has_registers = true;
    return true;
}

static bool read_own(ssi_target *target, char *rest)
{
    ssi_thread *thread = last_thread(target);

    if (thread)
        thread->own_id = (int)strtol(rest, NULL, 10);
    return true;
}

static bool read_why(ssi_target *target, char *rest)
{
    ssi_thread *thread = last_thread(target);

    if (thread)
        snprintf(thread->why, sizeof thread->why, "%.95s", rest);
    return true;
}

static const struct row {
    const char *word;
    bool (*read)(ssi_target *target, char *rest);
} rows[] = {
    {"mapping", ssi_target_add_line},
    {"thread", read_thread},
    {"registers", read_registers},
    {"why", read_why},
    {"own", read_own},
};

/* False without memory; a line that is not known is of a newer debugger's script. */
static bool read_fact(ssi_target *target, char *line)
{
    size_t word = strcspn(line, " ");
    char *rest = line[word] ? line + word + 1 : line + word;

    line[word] = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].word, line))
            return rows[i].read(target, rest);
    return true;
}

const char *ssi_served_read(ssi_served *served, ssi_target *target)
{
    char line[SSI_LINE];

    served->target = target;
    while (ssi_channel_line(line)) {
        if (!strcmp(line, "go")) {
            ssi_target_find_stacks(target);
            return NULL;
        }
        if (!read_fact(target, line))
            return "out of memory";
    }
    return "--served is for debuggers: it reads from one what a process consists of, up to \"go\"";
}

size_t ssi_served_fetch(void *unused, uint64_t address, void *out, size_t size)
{
    char line[SSI_LINE];
    size_t had;

    (void)unused;
    ssi_channel_ask("read", address, size);
    if (!ssi_channel_line(line))
        return 0;
    had = (size_t)strtoull(line, NULL, 10);
    return had && had <= size && read_bytes(out, had) ? had : 0;
}
