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
static __typeof__(&stacksplice_format_document) format_document;
static __typeof__(&stacksplice_frame_role) frame_role;
static __typeof__(&stacksplice_resolve_file) resolve_file;
static __typeof__(&stacksplice_document_read) document_read;
static __typeof__(&stacksplice_document_free) document_free;

const char *ssi_served_load(void)
{
    void *library = dlopen("libstacksplice.so.0", RTLD_LAZY | RTLD_LOCAL);

    if (library) {
        *(void **)&format_frame = dlsym(library, "stacksplice_format_frame");
        *(void **)&format_document = dlsym(library, "stacksplice_format_document");
        *(void **)&frame_role = dlsym(library, "stacksplice_frame_role");
        *(void **)&resolve_file = dlsym(library, "stacksplice_resolve_file");
        *(void **)&document_read = dlsym(library, "stacksplice_document_read");
        *(void **)&document_free = dlsym(library, "stacksplice_document_free");
    }
    return format_frame && format_document && frame_role && resolve_file && document_read &&
                   document_free
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
