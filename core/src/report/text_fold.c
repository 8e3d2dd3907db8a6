/*
 * What a brief report leaves out of a stack: glue, loaders, customary gaps, start-up code, and the
 * programs that run users' code, such as test runners.
 */
#include "report/report.h"

#include "resolve/glue.h"
#include "splice/token.h"

#include <string.h>

static bool is_quiet(const stacksplice_frame *gap)
{
    const stacksplice_glue *known = ss_glue_of(gap->language);

    for (size_t i = 0; known && known->quiet && gap->reason && known->quiet[i]; i++) {
        if (!strcmp(gap->reason, known->quiet[i]))
            return true;
    }
    return false;
}

static bool is_loader(const stacksplice_frame *frame)
{
    const stacksplice_glue *known = frame->file ? ss_glue_of(frame->language) : NULL;

    return known && ss_glue_matches(frame->file, known->loaders);
}

bool ss_report_is_glue(const ss_report *r, const ss_frame *frame)
{
    return frame->frame.address != r->struck && ss_glue_is(frame);
}

bool ss_report_shows(const ss_report *r, const stacksplice_frame *frame, bool glue,
                     bool *is_counted)
{
    *is_counted = true;
    if (r->all_frames)
        return true;
    if (frame->kind == STACKSPLICE_FRAME_GAP) {
        *is_counted = false; /* it is no frame */
        return !is_quiet(frame);
    }
    return frame->kind == STACKSPLICE_FRAME_SCRIPT ? !is_loader(frame) : !glue;
}

/* ---- One element -----------------------------------------------------------------------------*/

/* Nonzero ends the element. */
typedef int (*shown_callback)(const ss_shown_frame *shown, void *data);

typedef struct visit {
    shown_callback back;
    void *data;
} visit;

static int visit_resolved(const ss_frame *f, void *data)
{
    const ss_shown_frame shown = {&f->frame, ss_glue_is(f), NULL, {NULL, 0}};
    const visit *v = data;

    return v->back(&shown, v->data);
}

/* Call BACK with the frames of element AT of STACK. */
static void each_frame(const ss_report *r, const ss_shown_stack *stack, uint32_t at,
                       shown_callback back, void *data)
{
    visit v = {back, data};

    if (stack->frames) {
        const ss_shown_frame shown = {
            &stack->frames[at].frame, stack->frames[at].glue != 0, NULL, {NULL, 0}};

        (void)back(&shown, data);
    } else {
        ss_report_resolve_shown(r, stack->elements[at], visit_resolved, &v);
    }
}

static bool ends_with(const char *text, const char *end)
{
    size_t length, most = strlen(end);

    if (!text)
        return false;
    length = strlen(text);
    return length >= most && !strcmp(text + length - most, end);
}

/* ---- Shells ----------------------------------------------------------------------------------*/

typedef struct shell_search {
    bool script;      /* the frame is one */
    bool seam;        /* the frames outside of it are of another stack */
    const char *name; /* of the shell that it belongs to */
} shell_search;

static int look_for_shell(const ss_shown_frame *shown, void *data)
{
    const stacksplice_glue *known;
    shell_search *search = data;

    search->script = shown->frame->kind == STACKSPLICE_FRAME_SCRIPT;
    search->seam = shown->frame->kind == STACKSPLICE_FRAME_GAP && shown->frame->asynchronous;
    known = search->script ? ss_glue_of(shown->frame->language) : NULL;
    for (const stacksplice_shell *s = known ? known->shells : NULL; s && s->name; s++) {
        if (ends_with(shown->frame->file, s->file) &&
            ends_with(shown->frame->function, s->function))
            search->name = s->name;
    }
    return 1;
}

/* Nothing is left out of a stack that goes on outside of the shell, in a task that waits for it. */
static void find_shell(const ss_report *r, const ss_shown_stack *stack, ss_folds *folds)
{
    bool any = false; /* script frame of the user */

    for (uint32_t at = 0; at < stack->count; at++) {
        shell_search search = {false, false, NULL};

        if (!stack->frames && !ss_token_is(stack->elements[at]))
            continue;
        each_frame(r, stack, at, look_for_shell, &search);
        if (search.name && any && !folds->shell_is) {
            folds->shell = at;
            folds->shell_is = search.name;
        } else if (search.seam && folds->shell_is) {
            folds->shell = stack->count;
            folds->shell_is = NULL;
            return;
        }
        any = any || search.script;
    }
}

/* ---- Start-up code ---------------------------------------------------------------------------*/

typedef struct start_search {
    bool any_module; /* a frame without a name counts wherever it is */
    bool found;
} start_search;

static int look_for_start(const ss_shown_frame *shown, void *data)
{
    static const char *const libraries[] = {"libc.so*", "libc-*", "libpthread*", "ld-*", NULL};
    const stacksplice_frame *frame = shown->frame;
    start_search *search = data;
    bool nameless = !frame->function && !frame->file && frame->module;

    search->found =
        search->found && frame->kind == STACKSPLICE_FRAME_NATIVE &&
        (shown->glue || (nameless && (search->any_module ||
                                      ss_glue_matches(ss_base_name(frame->module), libraries))));
    return 0;
}

static bool is_start_up(const ss_report *r, const ss_shown_stack *stack, uint32_t at,
                        bool any_module)
{
    start_search search = {any_module, true};

    if (!stack->frames && ss_token_is(stack->elements[at]))
        return false;
    each_frame(r, stack, at, look_for_start, &search);
    return search.found;
}

/* In a stripped C library the code below main has no name that tells what it is. */
static void find_start_up(const ss_report *r, const ss_shown_stack *stack, ss_folds *folds)
{
    uint32_t at = folds->start_up;

    /* _start itself is in the program, whose names cannot be read without symbols, either. */
    if (at > 1 && is_start_up(r, stack, at - 1, true) && is_start_up(r, stack, at - 2, false))
        at--;
    while (at && is_start_up(r, stack, at - 1, false))
        at--;
    folds->start_up = at;
}

ss_folds ss_report_folds(const ss_report *r, ss_shown_stack stack)
{
    ss_folds folds = {stack.count, stack.count, NULL};

    if (!r->all_frames) {
        find_shell(r, &stack, &folds);
        find_start_up(r, &stack, &folds);
    }
    return folds;
}

/* ---- Where a language received an error ------------------------------------------------------*/

typedef struct where {
    const ss_report *r;
    bool found;
} where;

static void put_name_at(const ss_report *r, const stacksplice_frame *frame)
{
    ss_writer *w = r->w;
    const char *file = frame->file ? frame->file : frame->module, *name = frame->function;

    ss_writer_text(w, " at ");
    ss_report_put(r, name ? name : "???", STACKSPLICE_TEXT_MESSAGE);
    if (!file)
        return;
    file = ss_base_name(file);
    ss_writer_text(w, " (");
    ss_report_put(r, file, STACKSPLICE_TEXT_PATH);
    if (frame->file && frame->line) {
        ss_writer_text(w, ":");
        ss_writer_decimal(w, frame->line);
    } else if (!frame->file) {
        ss_writer_text(w, "+0x");
        ss_writer_hex(w, frame->module_offset, 1);
    }
    ss_writer_text(w, ")");
}

static int look_where(const ss_shown_frame *shown, void *data)
{
    where *at = data;
    bool counted;

    if (at->found || shown->frame->kind == STACKSPLICE_FRAME_GAP ||
        !ss_report_shows(at->r, shown->frame, shown->glue, &counted))
        return 0;
    at->found = true;
    put_name_at(at->r, shown->frame);
    return 1;
}

void ss_report_where(const ss_report *r, ss_shown_stack stack)
{
    where at = {r, false};

    for (uint32_t i = 0; i < stack.count && !at.found; i++)
        each_frame(r, &stack, i, look_where, &at);
}
