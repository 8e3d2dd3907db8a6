/* Stacks and binaries of an event for Sentry. */
#include "report/sentry.h"

#include "resolve/glue.h"

#include <string.h>

int ss_line_keep(const char *text, size_t length, void *data)
{
    ss_line *l = data;
    size_t room = sizeof l->text - l->length, kept = length < room ? length : room;

    memcpy(l->text + l->length, text, kept);
    l->length += kept;
    return kept < length;
}

/* ---- Frames ----------------------------------------------------------------------------------*/

/* What is known of one element of the stack. */
typedef struct element {
    const ss_report *r;
    ss_emit *e;
    ss_images *images;
    bool of_runner; /* called by the C library or a test runner, or one of their functions */
    uint32_t frames;
    uint32_t wanted; /* emit only this one */
} element;

static bool begins_with(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

/* Whether PATH is of an installed package or of the system. */
static bool is_installed(const char *path)
{
    return path && (strstr(path, "/site-packages/") || strstr(path, "/dist-packages/") ||
                    begins_with(path, "/usr/lib") || begins_with(path, "/lib"));
}

static bool is_in_app(const element *of, const stacksplice_frame *f, bool glue)
{
    bool is_counted;

    return f->kind != STACKSPLICE_FRAME_GAP && !of->of_runner && !glue &&
           ss_report_shows(of->r, f, glue, &is_counted) &&
           !is_installed(f->kind == STACKSPLICE_FRAME_NATIVE ? f->module : f->file);
}

static void emit_place(const element *of, const stacksplice_frame *f)
{
    char source[SS_SOURCE_LINE_MAX];
    uint32_t column = 0;
    size_t length;

    if (!f->file)
        return;
    ss_emit_text(of->e, "filename",
                 f->kind == STACKSPLICE_FRAME_NATIVE ? ss_base_name(f->file) : f->file);
    if (*f->file == '/')
        ss_emit_text(of->e, "abs_path", f->file);
    if (f->line)
        ss_emit_integer(of->e, "lineno", f->line);
    if (f->column)
        ss_emit_integer(of->e, "colno", f->column);
    length = ss_report_source(of->r, f, source, &column);
    if (length)
        ss_emit_utf8(of->e, "context_line", source, length);
}

static void add_image(ss_images *images, uintptr_t start)
{
    for (uint32_t i = 0; i < images->count; i++) {
        if (images->starts[i] == start)
            return;
    }
    if (images->count < SS_COUNT_OF(images->starts))
        images->starts[images->count++] = start;
}

static void emit_address(const element *of, const stacksplice_frame *f)
{
    ss_emit_hex(of->e, "instruction_addr", f->address, 1);
    if (f->function && f->function_offset)
        ss_emit_hex(of->e, "symbol_addr", f->address - (uintptr_t)f->function_offset, 1);
    if (!f->module)
        return;
    ss_emit_text(of->e, "package", f->module);
    ss_emit_hex(of->e, "image_addr", f->address - (uintptr_t)f->module_offset, 1);
    add_image(of->images, f->address - (uintptr_t)f->module_offset);
}

/* A gap is a frame whose function is what text reports say, and which is never the program's. */
static void emit_gap(const element *of, const stacksplice_frame *f)
{
    ss_line line = {.length = 0};

    (void)stacksplice_format_frame(f, ss_line_keep, &line);
    ss_emit_utf8(of->e, "function", line.text, line.length);
    ss_emit_text(of->e, "platform", "other");
    if (f->asynchronous)
        ss_emit_boolean(of->e, "stack_start", true);
}

static int visit(const ss_frame *found, void *data)
{
    const stacksplice_frame *f = &found->frame;
    element *of = data;

    if (of->frames++ != of->wanted)
        return 0;
    ss_emit_begin(of->e, NULL, STACKSPLICE_OBJECT);
    if (f->kind == STACKSPLICE_FRAME_GAP) {
        emit_gap(of, f);
    } else {
        if (f->function)
            ss_emit_text(of->e, "function", f->function);
        ss_emit_text(of->e, "platform", f->language);
        emit_place(of, f);
        if (f->kind == STACKSPLICE_FRAME_NATIVE)
            emit_address(of, f);
    }
    ss_emit_boolean(of->e, "in_app", is_in_app(of, f, ss_glue_is(found)));
    ss_emit_end(of->e, STACKSPLICE_OBJECT);
    return of->e->stopped;
}

/* Sentry wants callers first, and an element gives its inlined frames the other way round. */
static void emit_element(element *of, uintptr_t address)
{
    uint32_t frames;

    of->frames = 0;
    of->wanted = UINT32_MAX;
    ss_report_resolve(of->r, address, visit, of);
    frames = of->frames;
    while (frames-- && !of->e->stopped) {
        of->frames = 0;
        of->wanted = frames;
        ss_report_resolve(of->r, address, visit, of);
    }
}

void ss_sentry_stack(const ss_report *r, ss_emit *e, ss_shown_stack stack, ss_images *images)
{
    ss_folds folds = ss_report_folds(r, stack);
    element of = {.r = r, .e = e, .images = images};

    if (!stack.count)
        return;
    ss_emit_begin(e, "stacktrace", STACKSPLICE_OBJECT);
    /* The innermost address is a return address, too: nothing was interrupted. */
    ss_emit_text(e, "instruction_addr_adjustment", "all");
    ss_emit_begin(e, "frames", STACKSPLICE_ARRAY);
    for (uint32_t i = stack.count; i-- && !e->stopped;) {
        of.of_runner = i >= folds.start_up || i >= folds.shell;
        emit_element(&of, stack.elements[i]);
    }
    ss_emit_end(e, STACKSPLICE_ARRAY);
    ss_emit_end(e, STACKSPLICE_OBJECT);
}

/* ---- Binaries --------------------------------------------------------------------------------*/

/*
 * The first 16 bytes of BUILD_ID, in hexadecimal, as a GUID, whose first three numbers are of the
 * other byte order.
 */
static void debug_id(const char *build_id, char out[37])
{
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    size_t bytes = strlen(build_id) / 2;

    for (unsigned i = 0; i < 16; i++) {
        bool known = order[i] < bytes;

        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = known ? build_id[2 * order[i]] : '0';
        *out++ = known ? build_id[2 * order[i] + 1] : '0';
    }
    *out = 0;
}

static void emit_image(ss_emit *e, const ss_binary *binary)
{
    char id[37];

    debug_id(binary->build_id, id);
    ss_emit_begin(e, NULL, STACKSPLICE_OBJECT);
    ss_emit_text(e, "type", "elf");
    ss_emit_text(e, "debug_id", id);
    ss_emit_text(e, "code_id", binary->build_id);
    ss_emit_text(e, "code_file", binary->path);
    ss_emit_hex(e, "image_addr", binary->start, 1);
    ss_emit_integer(e, "image_size", (int64_t)(binary->end - binary->start));
    ss_emit_end(e, STACKSPLICE_OBJECT);
}

void ss_sentry_images(ss_emit *e, const ss_images *images)
{
    ss_binary binary;

    ss_emit_begin(e, "debug_meta", STACKSPLICE_OBJECT);
    ss_emit_begin(e, "images", STACKSPLICE_ARRAY);
    for (uint32_t i = 0; i < images->count && !e->stopped; i++) {
        if (ss_binary_find(images->starts[i], &binary) && *binary.build_id)
            emit_image(e, &binary);
    }
    ss_emit_end(e, STACKSPLICE_ARRAY);
    ss_emit_end(e, STACKSPLICE_OBJECT);
}
