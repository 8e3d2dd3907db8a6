/* Stacks and binaries of an event for Sentry. */
#include "report/sentry.h"

#include "resolve/glue.h"
#include "splice/unloaded.h"

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
    stacksplice_told_locals locals;
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

/* No file that a saved report names is opened. */
static void emit_source(const element *of, const ss_shown_frame *shown)
{
    char line[SS_SOURCE_LINE_MAX];
    uint32_t column = 0;
    size_t length = shown->told ? shown->told->source.length
                                : ss_report_source(of->r, shown->frame, line, &column);

    if (length)
        ss_emit_utf8(of->e, "context_line", shown->told ? shown->told->source.text : line, length);
}

static void emit_place(const element *of, const ss_shown_frame *shown)
{
    const stacksplice_frame *f = shown->frame;

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
    emit_source(of, shown);
}

static void add_image(ss_images *images, uintptr_t start, const stacksplice_frame *saved)
{
    for (uint32_t i = 0; i < images->count; i++) {
        if (images->all[i].start == start)
            return;
    }
    if (images->count < SS_COUNT_OF(images->all))
        images->all[images->count++] = (ss_image){start, saved};
}

static void emit_address(const element *of, const ss_shown_frame *shown)
{
    const stacksplice_frame *f = shown->frame;

    if (ss_unloaded_is(f->address)) { /* no address that an image of the event has */
        ss_emit_text(of->e, "package", f->module);
        return;
    }
    ss_emit_hex(of->e, "instruction_addr", f->address, 1);
    if (f->function && f->function_offset)
        ss_emit_hex(of->e, "symbol_addr", f->address - (uintptr_t)f->function_offset, 1);
    if (!f->module)
        return;
    ss_emit_text(of->e, "package", f->module);
    ss_emit_hex(of->e, "image_addr", f->address - (uintptr_t)f->module_offset, 1);
    add_image(of->images, f->address - (uintptr_t)f->module_offset, shown->told ? f : NULL);
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

static void emit_frame(const element *of, const ss_shown_frame *shown)
{
    const stacksplice_frame *f = shown->frame;

    ss_emit_begin(of->e, NULL, STACKSPLICE_OBJECT);
    if (f->kind == STACKSPLICE_FRAME_GAP) {
        emit_gap(of, f);
    } else {
        if (f->function)
            ss_emit_text(of->e, "function", f->function);
        ss_emit_text(of->e, "platform", f->language);
        emit_place(of, shown);
        ss_emit_locals(of->e, "vars", shown->locals);
        if (f->kind == STACKSPLICE_FRAME_NATIVE)
            emit_address(of, shown);
    }
    ss_emit_boolean(of->e, "in_app", is_in_app(of, f, shown->glue));
    ss_emit_end(of->e, STACKSPLICE_OBJECT);
}

static int visit(const ss_frame *found, void *data)
{
    element *of = data;
    const ss_shown_frame shown = {&found->frame, ss_glue_is(found), NULL, of->locals};

    if (of->frames++ == of->wanted)
        emit_frame(of, &shown);
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

static void emit_told(const element *of, const stacksplice_told_frame *told)
{
    emit_frame(of, &(ss_shown_frame){&told->frame, told->glue != 0, told, told->locals});
}

void ss_sentry_stack(const ss_report *r, ss_emit *e, ss_shown_stack stack, ss_images *images)
{
    ss_folds folds = ss_report_folds(r, stack);
    element of = {.r = r, .e = e, .images = images};

    if (!stack.count)
        return;
    ss_report_dates(r, stack);
    ss_emit_begin(e, "stacktrace", STACKSPLICE_OBJECT);
    /* The innermost address is a return address, too: nothing was interrupted. */
    ss_emit_text(e, "instruction_addr_adjustment", "all");
    ss_emit_begin(e, "frames", STACKSPLICE_ARRAY);
    for (uint32_t i = stack.count; i-- && !e->stopped;) {
        of.of_runner = i >= folds.start_up || i >= folds.shell;
        of.locals = ss_locals_of(stack.locals, i);
        if (stack.frames)
            emit_told(&of, &stack.frames[i]);
        else
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

/* A saved report does not say how large a binary was: SIZE is 0. */
static void emit_image(ss_emit *e, const char *build_id, const char *path, uintptr_t start,
                       uintptr_t size)
{
    char id[37];

    debug_id(build_id, id);
    ss_emit_begin(e, NULL, STACKSPLICE_OBJECT);
    ss_emit_text(e, "type", "elf");
    ss_emit_text(e, "debug_id", id);
    ss_emit_text(e, "code_id", build_id);
    ss_emit_text(e, "code_file", path);
    ss_emit_hex(e, "image_addr", start, 1);
    if (size)
        ss_emit_integer(e, "image_size", (int64_t)size);
    ss_emit_end(e, STACKSPLICE_OBJECT);
}

static void emit_image_of(ss_emit *e, const ss_image *image)
{
    const stacksplice_frame *saved = image->saved;
    ss_binary binary;

    if (saved && saved->build_id && *saved->build_id)
        emit_image(e, saved->build_id, saved->module, image->start, 0);
    else if (!saved && ss_binary_find(image->start, &binary) && *binary.build_id)
        emit_image(e, binary.build_id, binary.path, binary.start, binary.end - binary.start);
}

void ss_sentry_images(ss_emit *e, const ss_images *images)
{
    ss_emit_begin(e, "debug_meta", STACKSPLICE_OBJECT);
    ss_emit_begin(e, "images", STACKSPLICE_ARRAY);
    for (uint32_t i = 0; i < images->count && !e->stopped; i++)
        emit_image_of(e, &images->all[i]);
    ss_emit_end(e, STACKSPLICE_ARRAY);
    ss_emit_end(e, STACKSPLICE_OBJECT);
}
