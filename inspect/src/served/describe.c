#include "served/served.h"

#include "base/base.h"

#include <stacksplice/debugger.h>
#include <stacksplice/source.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * What people read of a frame.  The debugger names native code, and where it knows no name, the
 * core's library looks in the binary.  That library also says what is glue and how a line looks, as
 * for all reports.
 */

static __typeof__(&stacksplice_format_frame) format_frame;
static __typeof__(&stacksplice_format_told) format_told;
static __typeof__(&stacksplice_frame_role) frame_role;
static __typeof__(&stacksplice_resolve_file) resolve_file;

const char *ssi_served_load(void)
{
    void *library = dlopen("libstacksplice.so.0", RTLD_LAZY | RTLD_LOCAL);

    if (library) {
        *(void **)&format_frame = dlsym(library, "stacksplice_format_frame");
        *(void **)&format_told = dlsym(library, "stacksplice_format_told");
        *(void **)&frame_role = dlsym(library, "stacksplice_frame_role");
        *(void **)&resolve_file = dlsym(library, "stacksplice_resolve_file");
    }
    return format_frame && format_told && frame_role && resolve_file
               ? NULL
               : "libstacksplice.so.0 is not beside stacksplice-inspect: "
                 "install stacksplice anew";
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

/* FRAME as the library takes it. */
static stacksplice_frame frame_for_library(const ssi_frame *frame)
{
    static const stacksplice_frame_kind kinds[] = {
        [SSI_NATIVE] = STACKSPLICE_FRAME_NATIVE,
        [SSI_SCRIPT] = STACKSPLICE_FRAME_SCRIPT,
        [SSI_GAP] = STACKSPLICE_FRAME_GAP,
    };

    return (stacksplice_frame){
        .size = sizeof(stacksplice_frame),
        .kind = kinds[frame->kind],
        .trust = frame->inferred    ? STACKSPLICE_TRUST_INFERRED
                 : frame->traceback ? STACKSPLICE_TRUST_TRACEBACK
                                    : STACKSPLICE_TRUST_EXACT,
        .asynchronous = frame->asynchronous,
        .language = frame->language,
        .function = frame->function,
        .file = frame->file,
        .line = frame->line,
        .end_line = frame->end_line,
        .column = frame->column,
        .end_column = frame->end_column,
        .module = frame->module,
        .module_offset = frame->module_offset,
        .build_id = frame->build_id,
        .function_offset = frame->function_offset,
        .inlined = frame->inlined,
        .reason = frame->reason,
        .interpreter = frame->interpreter,
        .calls = frame->calls,
        .address = (uintptr_t)frame->address,
    };
}

static void put(ssi_frames *out, ssi_frame frame)
{
    stacksplice_frame shown = frame_for_library(&frame);
    line_text line = {.length = 0};

    frame.glue = frame_role(&shown) == STACKSPLICE_ROLE_GLUE;
    if (!FAILED(format_frame(&shown, append, &line)))
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
    char line[SSI_LINE];
    bool found = false;

    ssi_channel_ask("name", frame.address - 1, 0);
    while (ssi_channel_line(line) && line[0]) {
        char *rest = line;

        if (found) {
            frame.inlined = true;
            put(out, frame);
            frame.inlined = false;
        }
        frame.function = cut(&rest);
        frame.file = cut(&rest);
        frame.line = (uint32_t)strtoul(rest, NULL, 10);
        found |= frame.function != NULL;
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

    frame.function = copy(known->function);
    frame.file = copy(known->file);
    frame.line = known->line;
    frame.function_offset = known->function_offset;
    frame.inlined = (uint8_t)known->inlined;
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
    fd = frame.module ? ssi_target_open_path(served->target, frame.module) : -1;
    if (fd >= 0) {
        snprintf(here, sizeof here, "/proc/self/fd/%d", fd);
        (void)resolve_file(here, frame.build_id, frame.module_offset, put_resolved, &r);
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
    bool inferred;
    size_t first, count;
} known_address;

enum { REMEMBERED = 1024 };

static ssi_frames known_frames;
static known_address known_addresses[REMEMBERED];

static void put_remembered(const ssi_served *served, ssi_frames *out, const ssi_frame *frame)
{
    known_address *known = &known_addresses[frame->address % REMEMBERED];

    if (!known->count || known->address != frame->address || known->inferred != frame->inferred) {
        size_t first = known_frames.count;

        put_native(served, &known_frames, *frame);
        *known =
            (known_address){frame->address, frame->inferred, first, known_frames.count - first};
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
        if (stack->items[i].kind == SSI_NATIVE)
            put_remembered(served, &described, &stack->items[i]);
        else
            put(&described, stack->items[i]);
    free(stack->items);
    *stack = described;
}

/* ---- Errors -----------------------------------------------------------------------------------*/

static int append_to_file(const char *bytes, size_t length, void *file)
{
    return fwrite(bytes, 1, length, file) != length;
}

/* The text report of TOLD, in memory that the caller frees; NULL without memory. */
static char *format(const stacksplice_told *told)
{
    const stacksplice_format_options options = {
        .size = sizeof options, .order = STACKSPLICE_ORDER_NEWEST_LAST, .without_source = 1};
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);

    if (!file)
        return NULL;
    (void)format_told(told, &options, append_to_file, file);
    fclose(file);
    return text;
}

/*
 * The report of an error as text.  The core's library writes it, as it writes those of saved
 * reports; here an error of another process becomes what it takes.
 */

typedef struct telling {
    const ssi_served *served;
    const ssi_errors *errors;
    void **kept; /* all that was allocated for it */
    size_t count, room;
} telling;

static const stacksplice_told *tell(telling *t, size_t number);

/* COUNT zeroed elements of SIZE bytes until the text is written; NULL without memory. */
static void *keep(telling *t, size_t count, size_t size)
{
    void *memory = NULL;

    if (ssi_grow(&t->kept, t->count, &t->room, sizeof *t->kept)) {
        memory = calloc(count ? count : 1, size);
        t->kept[t->count++] = memory;
    }
    return memory;
}

static stacksplice_told_text told_text(const char *text)
{
    return (stacksplice_told_text){text, text ? strlen(text) : 0};
}

static stacksplice_relation relation_of(const char *name)
{
    return strcmp(name, "context") ? STACKSPLICE_RELATION_CAUSE : STACKSPLICE_RELATION_CONTEXT;
}

static stacksplice_told_stack told_stack(telling *t, const ssi_error_stack *stack)
{
    stacksplice_told_stack told = {.left_out = (uint32_t)stack->left_out};
    stacksplice_told_frame *all;
    ssi_frames frames = {0};

    for (size_t i = 0; i < stack->frames.count; i++)
        (void)ssi_frames_add(&frames, &t->errors->frames.items[stack->frames.first + i]);
    ssi_served_describe(t->served, &frames);
    all = keep(t, frames.count, sizeof *all);
    for (size_t i = 0; all && i < frames.count; i++) {
        all[i].frame = frame_for_library(&frames.items[i]);
        all[i].glue = frames.items[i].glue;
        told.count++;
    }
    told.frames = all;
    free(frames.items);
    return told;
}

static void tell_notes(telling *t, const ssi_part *notes, stacksplice_told *told)
{
    stacksplice_told_text *all = keep(t, notes->count, sizeof *all);

    for (size_t i = 0; all && i < notes->count; i++)
        all[told->note_count++] = told_text(t->errors->notes[notes->first + i]);
    told->notes = all;
}

static void tell_nodes(telling *t, const ssi_part *nodes, stacksplice_told *told)
{
    stacksplice_told_node *all = keep(t, nodes->count, sizeof *all);

    for (size_t i = 0; all && i < nodes->count; i++) {
        const ssi_node *node = &t->errors->nodes[nodes->first + i];

        all[told->node_count++] =
            (stacksplice_told_node){node->language ? node->language : "native", node->thread_id,
                                    told_stack(t, &node->stack)};
    }
    told->nodes = all;
}

static void tell_members(telling *t, size_t first, stacksplice_told *told)
{
    const stacksplice_told **all;
    size_t count = 0;

    for (size_t i = first; i; i = t->errors->items[i].next)
        count++;
    all = keep(t, count, sizeof *all);
    for (size_t i = first; all && i; i = t->errors->items[i].next) {
        all[told->member_count] = tell(t, i);
        if (!all[told->member_count])
            break;
        told->member_count++;
    }
    told->members = all;
}

/* Each error of the list is the cause of the one before it. */
static void tell_causes(telling *t, const ssi_error *error, stacksplice_told *told)
{
    for (size_t i = error->causes; i; i = t->errors->items[i].next) {
        stacksplice_told *cause = (stacksplice_told *)tell(t, i);

        if (!cause)
            return;
        told->cause = cause;
        told->relation = relation_of(t->errors->items[i].relation);
        told = cause;
    }
    told->causes_left_out = error->causes_left_out;
    if (error->above) {
        told->cause_above = 1;
        told->relation = relation_of(error->above);
    }
}

static const stacksplice_told *tell(telling *t, size_t number)
{
    const ssi_error *error = &t->errors->items[number];
    stacksplice_told *told = keep(t, 1, sizeof *told);

    if (!told)
        return NULL;
    *told = (stacksplice_told){.size = sizeof *told,
                               .hresult = error->hresult,
                               .type = error->type,
                               .language = error->language,
                               .message = told_text(error->message),
                               .thread_id = error->thread_id,
                               .stack = told_stack(t, &error->stack),
                               .identity = error,
                               .is_group = error->group,
                               .members_left_out = error->members_left_out};
    tell_notes(t, &error->notes, told);
    tell_nodes(t, &error->nodes, told);
    tell_members(t, error->members, told);
    if (!error->relation)
        tell_causes(t, error, told);
    return told;
}

char *ssi_served_error_text(const ssi_served *served, const ssi_errors *errors,
                            const ssi_error *error)
{
    telling t = {.served = served, .errors = errors};
    const stacksplice_told *told =
        error && served->target ? tell(&t, (size_t)(error - errors->items)) : NULL;
    char *text = told ? format(told) : NULL;

    for (size_t i = 0; i < t.count; i++)
        free(t.kept[i]);
    free(t.kept);
    return text;
}
