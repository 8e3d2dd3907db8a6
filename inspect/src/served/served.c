#include "served/served.h"

#include <stacksplice/debugger.h>
#include <stacksplice/read.h>
#include <stacksplice/source.h>

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Questions and answers --------------------------------------------------------------------*/

/*
 * The pipes to the debugger that serves a target.  What the program asks is a line on standard
 * output that begins with "?"; the answer comes on standard input.  The document that the program
 * writes has no such line: its lines begin with punctuation of JSON.
 */

enum { LINE = 8192 };

/* The next line from the debugger without its end; false if no more comes. */
static bool next_line(char line[LINE])
{
    size_t length;

    if (!fgets(line, LINE, stdin))
        return false;
    length = strcspn(line, "\n");
    if (!line[length] && !feof(stdin)) /* the rest of a line that is too long */
        for (int c = getchar(); c != '\n' && c != EOF;)
            c = getchar();
    line[length] = '\0';
    return true;
}

/* Ask "?WHAT ADDRESS SIZE". */
static void ask(const char *what, uint64_t address, size_t size)
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

/* NUMBER, that by which the process knows it, NAME */
static bool read_thread(ssi_target *target, char *rest)
{
    ssi_thread *thread = ssi_target_add_thread(target, (int)strtol(rest, &rest, 10));

    if (!thread)
        return false;
    thread->own_id = (int)strtol(rest, &rest, 10);
    if (*rest == ' ')
        snprintf(thread->name, sizeof thread->name, "%.31s", rest + 1);
    return true;
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
    char line[LINE];

    served->target = target;
    while (next_line(line)) {
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
    char line[LINE];
    size_t had;

    (void)unused;
    ask("read", address, size);
    if (!next_line(line))
        return 0;
    had = (size_t)strtoull(line, NULL, 10);
    return had && had <= size && read_bytes(out, had) ? had : 0;
}

/* ---- The library ------------------------------------------------------------------------------*/

/*
 * What people read of a frame.  The debugger names native code, and where it knows no name, the
 * core's library looks in the binary.  That library also says what is glue and how a line looks, as
 * for all reports.
 */

static __typeof__(&stacksplice_format_frame) format_frame;
static __typeof__(&stacksplice_format_document) format_document;
static __typeof__(&stacksplice_frame_role) frame_role;
static __typeof__(&stacksplice_resolve_file) resolve_file;
static __typeof__(&stacksplice_document_read) document_read;
static __typeof__(&stacksplice_document_free) document_free;
static __typeof__(&stacksplice_document_folds) document_folds;

const char *ssi_served_load(void)
{
    void *library = dlopen("libstacksplice.so.0", RTLD_LAZY | RTLD_LOCAL);

    static const struct {
        void *to;
        const char *name;
    } functions[] = {{&format_frame, "stacksplice_format_frame"},
                     {&format_document, "stacksplice_format_document"},
                     {&frame_role, "stacksplice_frame_role"},
                     {&resolve_file, "stacksplice_resolve_file"},
                     {&document_read, "stacksplice_document_read"},
                     {&document_free, "stacksplice_document_free"},
                     {&document_folds, "stacksplice_document_folds"}};

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = library ? dlsym(library, functions[i].name) : NULL;

        if (!function)
            return "libstacksplice.so.0 is not beside stacksplice-inspect: install stacksplice "
                   "anew";
        memcpy(functions[i].to, &function, sizeof function);
    }
    return NULL;
}

typedef struct line_text {
    char bytes[2048];
    size_t length;
} line_text;

static int append(const char *bytes, size_t length, void *data)
{
    line_text *line = data;
    size_t room = sizeof line->bytes - line->length;

    if (length > room)
        length = room;
    memcpy(line->bytes + line->length, bytes, length);
    line->length += length;
    return 0;
}

static void put(ssi_frames *out, ssi_frame frame)
{
    line_text line = {.length = 0};

    frame.known.size = sizeof frame.known;
    if (!frame.known.trust)
        frame.known.trust = STACKSPLICE_TRUST_EXACT;
    frame.glue = frame_role(&frame.known) == STACKSPLICE_ROLE_GLUE;
    if (!FAILED(format_frame(&frame.known, append, &line)))
        frame.text = ssi_text(line.bytes, line.length);
    (void)ssi_frames_add(out, &frame);
}

/* Cuts TEXT at its next tab; what was before it, NULL if that is empty. */
static const char *cut(char **text)
{
    char *field = *text;
    size_t length = strcspn(field, "\t");

    *text = field[length] ? field + length + 1 : field + length;
    return length ? ssi_text(field, length) : NULL;
}

/* ---- Native frames ----------------------------------------------------------------------------*/

/* The answer has a line FUNCTION, FILE, LINE for each function, the innermost inlined one first,
   and ends with an empty one.  False if there is no name in it: then OUT has nothing. */
static bool put_asked(ssi_frames *out, ssi_frame frame)
{
    char line[LINE];
    bool found = false;

    ask("name", frame.known.address - 1, 0);
    while (next_line(line) && line[0]) {
        char *rest = line;

        if (found) {
            frame.known.inlined = true;
            put(out, frame);
            frame.known.inlined = false;
        }
        frame.known.function = cut(&rest);
        frame.known.file = cut(&rest);
        frame.known.line = (uint32_t)strtoul(rest, NULL, 10);
        found |= frame.known.function != NULL;
    }
    if (found)
        put(out, frame);
    return found;
}

typedef struct resolving {
    ssi_frames *out;
    ssi_frame frame;
} resolving;

static const char *copy(const char *text)
{
    return text ? ssi_text(text, strlen(text)) : NULL;
}

static int put_resolved(const stacksplice_frame *known, void *data)
{
    const resolving *r = data;
    ssi_frame frame = r->frame;

    frame.known.function = copy(known->function);
    frame.known.file = copy(known->file);
    frame.known.line = known->line;
    frame.known.function_offset = known->function_offset;
    frame.known.inlined = known->inlined;
    put(r->out, frame);
    return 0;
}

static void put_native(const ssi_served *served, ssi_frames *out, ssi_frame frame)
{
    resolving r = {out, frame};
    size_t before = out->count;
    char here[32];
    int fd;

    if (put_asked(out, frame))
        return;
    fd = frame.known.module ? ssi_target_open_path(served->target, frame.known.module) : -1;
    if (fd >= 0) {
        snprintf(here, sizeof here, "/proc/self/fd/%d", fd);
        (void)resolve_file(here, frame.known.build_id, frame.known.module_offset, put_resolved, &r);
        close(fd);
    }
    if (out->count == before)
        put(out, frame);
}

/* ---- What was asked before --------------------------------------------------------------------*/

/* What a native frame became: COUNT frames from FIRST on in KNOWN_FRAMES.  In a deep recursion and
   in many threads the same addresses come again. */
typedef struct known_address {
    uint64_t address;
    stacksplice_trust trust;
    size_t first, count;
} known_address;

enum { REMEMBERED = 1024 };

static ssi_frames known_frames;
static known_address known_addresses[REMEMBERED];

static void put_remembered(const ssi_served *served, ssi_frames *out, const ssi_frame *frame)
{
    known_address *known = &known_addresses[frame->known.address % REMEMBERED];

    if (!known->count || known->address != frame->known.address ||
        known->trust != frame->known.trust) {
        size_t first = known_frames.count;

        put_native(served, &known_frames, *frame);
        *known = (known_address){frame->known.address, frame->known.trust, first,
                                 known_frames.count - first};
    }
    for (size_t i = 0; i < known->count; i++) {
        ssi_frame again = known_frames.items[known->first + i];

        again.stack_address = frame->stack_address;
        (void)ssi_frames_add(out, &again);
    }
}

/* ---- Stacks -----------------------------------------------------------------------------------*/

void ssi_served_describe(const ssi_served *served, ssi_frames *stack)
{
    ssi_frames described = {0};

    if (!served->target)
        return;
    for (size_t i = 0; i < stack->count; i++)
        if (stack->items[i].known.kind == STACKSPLICE_FRAME_NATIVE)
            put_remembered(served, &described, &stack->items[i]);
        else
            put(&described, stack->items[i]);
    free(stack->items);
    *stack = described;
}

/* A list of [begin, end, name], each behind a comma but the first. */
static int write_fold(uint32_t begin, uint32_t end, const char *name, void *data)
{
    ssi_written *to = data;

    ssi_write_format(to, "%s[%" PRIu32 ",%" PRIu32 ",", to->bytes[to->length - 1] == '[' ? "" : ",",
                     begin, end);
    ssi_write_text(to, name, strlen(name));
    ssi_write(to, "]");
    return to->failed;
}

/* The core's library reads the stack as that of a report. */
void ssi_served_write_folds(const ssi_served *served, const ssi_frames *stack, ssi_written *to)
{
    const stacksplice_document *document = NULL;
    ssi_written json = {.length = 0};

    if (!served->target)
        return;
    ssi_write(&json, "{\"hresult_signed\":0,\"message\":\"\",\"propagation\":[],\"stack\":");
    ssi_write_frames(&json, stack->items, stack->count);
    ssi_write(&json, "}");
    ssi_write(to, ",\"folds\":[");
    if (!json.failed && !to->failed &&
        document_read(json.bytes, json.length, &document, NULL) == S_OK)
        (void)document_folds(document, write_fold, to);
    ssi_write(to, "]");
    document_free(document);
    free(json.bytes);
}

/* ---- Errors -----------------------------------------------------------------------------------*/

static int append_to_file(const char *bytes, size_t length, void *file)
{
    return fwrite(bytes, 1, length, file) != length;
}

char *ssi_served_text_of(const char *json, size_t size)
{
    const stacksplice_format_options options = {
        .size = sizeof options, .order = STACKSPLICE_ORDER_NEWEST_LAST, .without_source = 1};
    const stacksplice_document *document = NULL;
    char *text = NULL;
    size_t length;
    FILE *file =
        document_read(json, size, &document, NULL) == S_OK ? open_memstream(&text, &length) : NULL;

    if (file) {
        (void)format_document(document, &options, append_to_file, file);
        fclose(file);
    }
    document_free(document);
    return text;
}
