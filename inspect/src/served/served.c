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

/* What a debugger sends before it answers: one line for each fact, the last is "go". */

typedef struct reader {
    ssi_served *served;
    ssi_target *target;
} reader;

/* Each takes the rest of its line; false without memory. */

static bool read_process(reader *r, char *rest)
{
    r->target->process = (int)strtol(rest, NULL, 10);
    return true;
}

/* Its number in the headers of ELF files. */
static bool read_machine(reader *r, char *rest)
{
    const ssi_machine *machine = ssi_machine_find((unsigned)strtoul(rest, NULL, 10));

    if (machine)
        r->target->machine = machine;
    return true;
}

static bool keep(char **out, const char *text)
{
    free(*out);
    *out = strdup(text);
    return *out != NULL;
}

static bool read_executable(reader *r, char *rest)
{
    return keep(&r->target->executable, rest);
}

static bool read_program(reader *r, char *rest)
{
    return keep(&r->served->executable, rest);
}

static bool read_core(reader *r, char *rest)
{
    return keep(&r->served->core, rest);
}

static bool read_root(reader *r, char *rest)
{
    snprintf(r->target->root, sizeof r->target->root, "%s", rest);
    return true;
}

/* A line of /proc/PID/maps; a debugger sends them by address. */
static bool read_mapping(reader *r, char *rest)
{
    return ssi_target_add_line(r->target, rest);
}

/* NUMBER NAME */
static bool read_thread(reader *r, char *rest)
{
    ssi_thread *thread = ssi_target_add_thread(r->target, (int)strtol(rest, &rest, 10));

    if (thread && *rest == ' ')
        snprintf(thread->name, sizeof thread->name, "%.31s", rest + 1);
    return thread != NULL;
}

static ssi_thread *last_thread(const reader *r)
{
    return r->target->thread_count ? &r->target->threads[r->target->thread_count - 1] : NULL;
}

/* Of the last thread, in DWARF's order. */
static bool read_registers(reader *r, char *rest)
{
    ssi_thread *thread = last_thread(r);
    char *end = rest;

    for (int i = 0; thread && i < r->target->machine->registers; i++, rest = end) {
        thread->registers[i] = strtoull(rest, &end, 16);
        if (end == rest)
            return true;
    }
    if (thread)
        thread->has_registers = true;
    return true;
}

static bool read_own(reader *r, char *rest)
{
    ssi_thread *thread = last_thread(r);

    if (thread)
        thread->own_id = (int)strtol(rest, NULL, 10);
    return true;
}

static bool read_why(reader *r, char *rest)
{
    ssi_thread *thread = last_thread(r);

    if (thread)
        snprintf(thread->why, sizeof thread->why, "%.95s", rest);
    return true;
}

static const struct row {
    const char *word;
    bool (*read)(reader *r, char *rest);
} rows[] = {
    {"process", read_process}, {"machine", read_machine}, {"executable", read_executable},
    {"core", read_core},       {"program", read_program}, {"root", read_root},
    {"mapping", read_mapping}, {"thread", read_thread},   {"registers", read_registers},
    {"why", read_why},         {"own", read_own},
};

/* False without memory; a line that is not known is of a newer debugger's script. */
static bool read_fact(reader *r, char *line)
{
    size_t word = strcspn(line, " ");
    char *rest = line[word] ? line + word + 1 : line + word;

    line[word] = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].word, line))
            return rows[i].read(r, rest);
    return true;
}

const char *ssi_served_read(ssi_served *served, ssi_target *target)
{
    reader r = {served, target};
    char line[SSI_LINE];

    served->target = target;
    while (ssi_channel_line(line)) {
        if (!strcmp(line, "go")) {
            ssi_target_find_stacks(target);
            return NULL;
        }
        if (!read_fact(&r, line))
            return "out of memory";
    }
    return "--served is for debuggers: it reads from one what a process consists of, up to \"go\"";
}

void ssi_served_free(ssi_served *served)
{
    free(served->core);
    free(served->executable);
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
